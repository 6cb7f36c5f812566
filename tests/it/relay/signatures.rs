//! What the relay checks of a signature, one wrong thing at a time.

use serde_json::{Value, json};

use super::target::{Bench, NOW, fields, key, request, signed_by, with};

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
