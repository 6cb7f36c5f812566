//! Registering keys and looking them up.

use redsyn_bridge::crypto::base64url;
use redsyn_bridge::crypto::enc_key::{EncPrivateKey, sign_enc_key};
use serde_json::{Value, json};

use super::target::{Bench, P256_POINT, key};

const CLOSE: &str = "acme/general/ana/close";

/// A registration with an enc_key that the signing key vouches for.
fn both(seed: u8) -> Value {
    let enc_key = EncPrivateKey::from_scalar(&[seed; 32]).unwrap().enc_key().to_string();
    let enc_sig = sign_enc_key(&key(seed), &enc_key).to_text();
    json!({"public_key": key(seed).verifying_key().to_string(), "enc_key": enc_key, "enc_sig": enc_sig})
}

fn signing_only(seed: u8) -> Value {
    json!({"public_key": key(seed).verifying_key().to_string()})
}

#[tokio::test]
async fn another_key_needs_rotate() {
    let bench = Bench::start().await;
    let registered = bench.ana.put("/nodes/key", signing_only(1)).await.is(200);
    assert_eq!(registered["node"], "laptop");
    assert!(registered["fingerprint"].as_str().is_some_and(|text| !text.is_empty()));
    bench.ana.put("/nodes/key", signing_only(1)).await.is(200);
    bench.ana.put("/nodes/key", signing_only(2)).await.refused(409);
    let mut padded = signing_only(1);
    padded["public_key"] = format!("{}=", padded["public_key"].as_str().unwrap()).into();
    bench.ana.put("/nodes/key", padded).await.is(200);
    let mut nothing = signing_only(1);
    nothing["rotate"] = Value::Null;
    bench.ana.put("/nodes/key", nothing).await.is(200);
    let mut rotated = signing_only(2);
    rotated["rotate"] = true.into();
    bench.ana.put("/nodes/key", rotated).await.is(200);
    // Each node has a key of its own.
    bench.ana_server.put("/nodes/key", signing_only(1)).await.is(200);
}

#[tokio::test]
async fn malformed_keys_are_refused() {
    let bench = Bench::start().await;
    let good = both(1);
    let wrong = |field: &str, value: Value| {
        let mut wrong = good.clone();
        wrong[field] = value;
        wrong
    };
    for registration in [
        json!({}),
        json!({"public_key": 5}),
        json!({"public_key": "short"}),
        json!({"public_key": "*".repeat(43)}),
        wrong("enc_key", base64url::encode(&P256_POINT).into()),
        wrong("enc_key", base64url::encode(&P256_POINT[..64]).into()),
        wrong("enc_key", base64url::encode(&[4; 65]).into()),
        wrong("enc_sig", Value::Null),
        wrong("enc_key", Value::Null),
        wrong("enc_sig", both(2)["enc_sig"].clone()),
        wrong("public_key", signing_only(2)["public_key"].clone()),
    ] {
        bench.ana.put("/nodes/key", registration).await.refused(422);
    }
    bench.ana.put("/nodes/key", good).await.is(200);
}

#[tokio::test]
async fn rotating_drops_the_enc_key_that_the_new_key_does_not_vouch_for() {
    let bench = Bench::start().await;
    let path = format!("/agents/{CLOSE}/key");
    bench.ana.announce(CLOSE, json!({})).await.is(201);
    bench.ana.put("/nodes/key", both(1)).await.is(200);
    bench.ana.put("/nodes/key", signing_only(1)).await.is(200);
    bench.beto.get(&path).await.is(200);
    let mut rotated = signing_only(2);
    rotated["rotate"] = true.into();
    assert_eq!(bench.ana.put("/nodes/key", rotated).await.is(200)["enc_key"], Value::Null);
    bench.beto.get(&path).await.refused(404);
}
