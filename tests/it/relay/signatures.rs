//! What the relay checks of a signature, one wrong thing at a time.

use redsyn_bridge::crypto::base64url;
use serde_json::{Value, json};

use super::target::{Bench, NOW, fields, key, request, signed_by, text, with};

const CLI: &str = "acme/general/ana/cli";

async fn registered() -> Bench {
    let bench = Bench::start().await;
    let public_key = key(1).verifying_key().to_string();
    bench.ana.put("/nodes/key", json!({"public_key": public_key})).await.is(200);
    bench.ana.announce(CLI, json!({})).await.is(201);
    bench
}

fn signed(id: &str) -> Value {
    signed_by(&key(1), request(id, CLI, "cli"))
}

#[tokio::test]
async fn a_good_signature_is_delivered_with_what_it_covers() {
    let bench = registered().await;
    let zip = base64url::zip_encode(b"PK-not-really");
    let full = json!({"thread": "t1", "refs": [{"url": "https://git.acme.example", "n": 1.50}], "files": {"zip": zip}});
    let envelope = signed_by(&key(1), with(request("m1", CLI, "cli"), full));
    assert_eq!(bench.ana.send(&envelope).await.is(201)["signed"], true);
    let delivered = &bench.ana.take(CLI).await[0];
    assert_eq!(delivered["signed"], true);
    let sig = &delivered["sig"];
    for field in ["alg", "key", "value"] {
        assert_eq!(sig[field], envelope["sig"][field]);
    }
    assert_eq!(sig["node"], "laptop");
    assert!(sig["fingerprint"].as_str().is_some_and(|text| !text.is_empty()));
    let payload: Value = serde_json::from_str(sig["payload"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&payload["id"], &payload["to"], &payload["thread"]),
        (&json!("m1"), &json!("cli"), &json!("t1"))
    );
    assert_eq!(payload["files_sha256"], delivered["files"]["sha256"]);
    let bytes = sig["payload"].as_str().unwrap().as_bytes();
    let value = redsyn_bridge::crypto::sign::Signature::parse(sig["value"].as_str().unwrap()).unwrap();
    assert!(key(1).verifying_key().verify(bytes, &value));
}

#[tokio::test]
async fn every_change_after_signing_is_401() {
    let bench = registered().await;
    let changes = [
        ("id", json!("m2")),
        ("to", json!("ana/cli")),
        ("thread", json!("other")),
        ("ts", json!(NOW + 1)),
        ("body", text("bye")),
        ("refs", json!([{"url": "https://evil.example"}])),
        ("error", json!(true)),
        ("reply_to", json!("m0")),
        ("files", json!({"zip": base64url::zip_encode(b"PK")})),
    ];
    for (field, value) in changes {
        let mut envelope = signed("m1");
        fields(&mut envelope).insert(field.to_owned(), value);
        bench.ana.send(&envelope).await.refused(401);
    }
    bench.ana.send(&signed("m1")).await.is(201);
}

#[tokio::test]
async fn every_broken_sig_is_401() {
    let bench = registered().await;
    let other = signed_by(&key(2), request("m1", CLI, "cli"));
    let broken = [
        ("alg", json!("rsa")),
        ("alg", Value::Null),
        ("key", other["sig"]["key"].clone()),
        ("key", json!("")),
        ("key", json!(5)),
        ("value", other["sig"]["value"].clone()),
        ("value", json!("AAAA")),
        ("value", json!("")),
    ];
    for (field, value) in broken {
        let mut envelope = signed("m1");
        envelope["sig"][field] = value;
        bench.ana.send(&envelope).await.refused(401);
    }
    bench.ana.send(&other).await.refused(401);
    for sig in [json!({}), json!("sig"), json!([]), json!(true)] {
        bench.ana.send(&with(request("m1", CLI, "cli"), json!({"sig": sig}))).await.refused(401);
    }
    let mut without_ts = signed("m1");
    fields(&mut without_ts).remove("ts");
    bench.ana.send(&without_ts).await.refused(401);
    bench.ana_server.send(&signed("m1")).await.refused(401);
    let plain = with(request("m1", CLI, "cli"), json!({"sig": null}));
    assert_eq!(bench.ana.send(&plain).await.is(201)["signed"], false);
}

#[tokio::test]
async fn ten_minutes_by_the_relays_clock() {
    let bench = registered().await;
    for (id, ts, status) in [
        ("past", NOW - 601, 401),
        ("edge", NOW - 600, 201),
        ("ahead", NOW + 600, 201),
        ("future", NOW + 601, 401),
    ] {
        let envelope = signed_by(&key(1), with(request(id, CLI, "cli"), json!({"ts": ts})));
        bench.ana.send(&envelope).await.is(status);
    }
    let late = signed("late");
    bench.advance(601);
    bench.ana.send(&late).await.refused(401);
}

#[tokio::test]
async fn a_retry_is_answered_before_its_signature_is_looked_at() {
    let bench = registered().await;
    let envelope = signed("m1");
    let first = bench.ana.send(&envelope).await.is(201);
    bench.advance(3600);
    let again = bench.ana.send(&envelope).await.is(201);
    assert_eq!((&again["id"], &again["to"], &again["duplicate"]), (&first["id"], &first["to"], &json!(true)));
    assert_eq!(bench.ana.take(CLI).await.len(), 1);
}
