//! «Firmas».

use redsyn_bridge::crypto::base64url;
use redsyn_bridge::crypto::sign::Signature;
use serde_json::{Value, json};

use super::relay::{Relay, now, signed};
use crate::support::redsyn::{fields, key, signed_at, text, with};

#[tokio::test]
async fn a_signature_is_delivered_with_exactly_what_it_covers() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    relay.register(&relay.beto, &key(1)).await;
    let full = json!({"thread": relay.name("t1"), "refs": [{"url": "https://git.acme.example", "n": 1.50}],
                      "files": {"zip": base64url::zip_encode(b"PK-not-really")}});
    let envelope = signed(&key(1), with(relay.request("m1", &asker, &asked), full));
    assert_eq!(relay.beto.send(&envelope).await.is(201)["signed"], true);
    let delivered = &relay.ana.take(&asked).await[0];
    let sig = &delivered["sig"];
    assert_eq!(delivered["signed"], true);
    for field in ["alg", "key", "value"] {
        assert_eq!(sig[field], envelope["sig"][field]);
    }
    for field in ["node", "fingerprint"] {
        assert!(sig[field].as_str().is_some_and(|text| !text.is_empty()), "{field}");
    }
    let payload = sig["payload"].as_str().unwrap();
    let value = Signature::parse(sig["value"].as_str().unwrap()).unwrap();
    assert!(key(1).verifying_key().verify(payload.as_bytes(), &value));
    let payload: Value = serde_json::from_str(payload).unwrap();
    assert_eq!((&payload["id"], &payload["to"]), (&json!(relay.name("m1")), &json!(asked)));
    assert_eq!(payload["thread"], relay.name("t1"));
    assert_eq!(payload["files_sha256"], delivered["files"]["sha256"]);
}

#[tokio::test]
async fn a_signature_that_does_not_cover_what_arrived_is_401() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    relay.register(&relay.beto, &key(1)).await;
    for (field, value) in [
        ("to", json!(format!("{asked}#new"))),
        ("id", json!(relay.name("m2"))),
        ("thread", json!("other")),
        ("reply_to", json!("m0")),
        ("error", json!(true)),
        ("ts", json!(now() + 1)),
        ("body", text("bye")),
        ("refs", json!([{"url": "https://evil.example"}])),
        ("files", json!({"zip": base64url::zip_encode(b"PK")})),
    ] {
        let mut envelope = signed_at(now() - 5, &key(1), relay.request("m1", &asker, &asked));
        fields(&mut envelope).insert(field.to_owned(), value);
        relay.beto.send(&envelope).await.refused(401);
    }
}

#[tokio::test]
async fn only_the_key_that_the_node_registered_counts() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    relay.register(&relay.beto, &key(1)).await;
    relay.register(&relay.ana, &key(2)).await;
    let request = relay.request("m1", &asker, &asked);
    relay.beto.send(&signed(&key(2), request.clone())).await.refused(401);
    let mut other = signed(&key(2), request.clone());
    other["sig"]["key"] = key(1).verifying_key().to_string().into();
    relay.beto.send(&other).await.refused(401);
    relay.beto.send(&signed(&key(1), request)).await.is(201);
}

#[tokio::test]
async fn only_within_ten_minutes_of_its_clock() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    relay.register(&relay.beto, &key(1)).await;
    for (id, off, status) in
        [("past", -660, 401), ("early", -540, 201), ("late", 540, 201), ("future", 660, 401)]
    {
        let envelope = signed_at(now() + off, &key(1), relay.request(id, &asker, &asked));
        relay.beto.send(&envelope).await.is(status);
    }
}
