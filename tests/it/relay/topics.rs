//! Topics and events: who hears what, once, in a session of its own; across links only what both sides let through.

use redsyn_bridge::domain::relay::plan::Plans;
use serde_json::{Value, json};

use super::target::{Bench, Node, Reply, ids, key, link_openly, request, signed_by, text, with};

const TOPIC: &str = "topic:acme/finance/invoices";
const CLOSE: &str = "acme/finance/ana/close";
const BETO: &str = "acme/finance/beto/cli";
const CARO: &str = "acme/ops/caro/watch";
const DORA: &str = "globex/general/dora/erp";

fn event(id: &str, from: &str, to: &str) -> Value {
    json!({"v": 1, "id": id, "kind": "event", "from": from, "to": to, "body": text("new invoice")})
}

async fn subscribe(node: &Node, agent: &str, topic: &str) -> Reply {
    node.put("/subscriptions", json!({"agent": agent, "topic": topic})).await
}

async fn listeners() -> Bench {
    let bench = Bench::start().await;
    bench.ana.announce(CLOSE, json!({})).await.is(201);
    bench.beto.announce(BETO, json!({})).await.is(201);
    bench.caro.announce(CARO, json!({})).await.is(201);
    bench.dora.announce(DORA, json!({})).await.is(201);
    bench
}

#[tokio::test]
async fn each_listener_but_the_publisher_gets_one_copy_in_one_session() {
    let bench = listeners().await;
    for (node, agent, topic) in [
        (&bench.ana, CLOSE, "topic:finance/invoices"),
        (&bench.beto, BETO, TOPIC),
        (&bench.beto, BETO, TOPIC),
        (&bench.caro, CARO, TOPIC),
    ] {
        let done = subscribe(node, agent, topic).await.is(200);
        assert_eq!(done, json!({"agent": agent, "topic": TOPIC}));
    }
    let sent = bench.ana.send(&event("e1", CLOSE, "topic:finance/invoices")).await.is(201);
    assert_eq!(sent, json!({"id": "e1", "thread": "e1", "to": TOPIC, "signed": false}));
    bench.ana.send(&event("e2", CLOSE, TOPIC)).await.is(201);
    assert!(bench.ana.take(CLOSE).await.is_empty());
    for (node, agent) in [(&bench.beto, BETO), (&bench.caro, CARO)] {
        let items = node.take(agent).await;
        assert_eq!(ids(&items), ["e1", "e2"]);
        for item in &items {
            assert_eq!((&item["kind"], &item["topic"]), (&json!("event"), &json!(TOPIC)));
            assert_eq!((&item["from"], &item["to"]), (&json!(CLOSE), &json!(format!("{agent}#s1"))));
            assert_eq!(item["ttl"], 86_400);
        }
        node.ack(agent, &["e1", "e2"]).await;
    }
    let again = bench.ana.send(&event("e1", CLOSE, TOPIC)).await.is(201);
    assert_eq!(again["duplicate"], true);
    assert!(bench.beto.take(BETO).await.is_empty());
}

#[tokio::test]
async fn what_was_published_before_is_not_heard_and_leaving_ends_it() {
    let bench = listeners().await;
    bench.ana.send(&event("e1", CLOSE, TOPIC)).await.is(201);
    subscribe(&bench.beto, BETO, TOPIC).await.is(200);
    assert!(bench.beto.take(BETO).await.is_empty());
    bench.ana.send(&event("e2", CLOSE, TOPIC)).await.is(201);
    for _ in 0..2 {
        bench.beto.post("/subscriptions/remove", json!({"agent": BETO, "topic": TOPIC})).await.is(200);
    }
    bench.ana.send(&event("e3", CLOSE, TOPIC)).await.is(201);
    assert_eq!(bench.beto.take_ids(BETO).await, ["e2"]);
    subscribe(&bench.beto, BETO, TOPIC).await.is(200);
    bench.ana.send(&event("e4", CLOSE, TOPIC)).await.is(201);
    bench.beto.ack(BETO, &["e2"]).await;
    assert_eq!(bench.beto.take(BETO).await[0]["to"], format!("{BETO}#s1"), "the history goes on");
}

#[tokio::test]
async fn two_topics_are_two_sessions_and_a_closed_one_is_replaced() {
    let bench = listeners().await;
    let other = "topic:acme/finance/closings";
    for topic in [TOPIC, other] {
        subscribe(&bench.beto, BETO, topic).await.is(200);
    }
    for (id, topic) in [("e1", TOPIC), ("e2", other), ("e3", TOPIC)] {
        bench.ana.send(&event(id, CLOSE, topic)).await.is(201);
    }
    let to: Vec<Value> = bench.beto.take(BETO).await.iter().map(|item| item["to"].clone()).collect();
    let session = |number: u8| json!(format!("{BETO}#s{number}"));
    assert_eq!(to, [session(1), session(2), session(1)]);
    let page = bench.beto.get(&format!("/agents/{BETO}/sessions/s1")).await.is(200);
    assert_eq!(page["title"], TOPIC);
    assert_eq!(ids(page["messages"].as_array().unwrap()), ["e1", "e3"]);
    bench.beto.post(&format!("/agents/{BETO}/sessions/s1/close"), json!({})).await.is(200);
    bench.ana.send(&event("e4", CLOSE, TOPIC)).await.is(201);
    assert_eq!(bench.beto.take(BETO).await[0]["to"], session(3));
}

#[tokio::test]
async fn an_event_is_answered_by_nobody_and_its_end_is_told_to_nobody() {
    let bench = listeners().await;
    subscribe(&bench.beto, BETO, TOPIC).await.is(200);
    bench.ana.send(&with(event("e1", CLOSE, TOPIC), json!({"ttl": 60}))).await.is(201);
    bench.beto.take(BETO).await;
    let reply =
        json!({"v": 1, "id": "r1", "kind": "reply", "from": BETO, "reply_to": "e1", "body": text("no")});
    bench.beto.send(&reply).await.refused(404);
    bench.ana.post("/messages/e1/cancel", json!({})).await.refused(409);
    bench.ana.send(&with(event("e2", CLOSE, TOPIC), json!({"ttl": 60}))).await.is(201);
    bench.advance(1000);
    assert!(bench.beto.take(BETO).await.is_empty());
    assert!(bench.ana.take(CLOSE).await.is_empty());
}

#[tokio::test]
async fn wrong_events_and_subscriptions_are_refused() {
    let bench = listeners().await;
    bench.ana.send(&event("e1", CLOSE, BETO)).await.refused(422);
    bench.ana.send(&request("m1", CLOSE, TOPIC)).await.refused(422);
    bench.ana.send(&event("e1", CLOSE, "topic:acme/finance/Invoices")).await.refused(422);
    bench.ana.send(&event("e1", CLOSE, "topic:a/b/c/d")).await.refused(422);
    bench.ana.send(&event("e1", "acme/finance/ana/nobody", TOPIC)).await.refused(404);
    bench.ana.send(&event("e1", CLOSE, "topic:nowhere/finance/invoices")).await.refused(404);
    for (agent, topic, status) in [
        ("close", TOPIC, 422),
        (CLOSE, "acme/finance/ana/close", 422),
        (CLOSE, "topic:a/b/c/d", 422),
        (CLOSE, "", 422),
        (BETO, TOPIC, 403),
        (DORA, TOPIC, 404),
        ("acme/finance/ana/nobody", TOPIC, 404),
        (CLOSE, "topic:nowhere/finance/invoices", 404),
        (CLOSE, "topic:globex/erp/invoices", 404),
    ] {
        subscribe(&bench.ana, agent, topic).await.refused(status);
        if topic.contains("nowhere") || topic.contains("globex") {
            continue;
        }
        let body = json!({"agent": agent, "topic": topic});
        bench.ana.post("/subscriptions/remove", body).await.refused(status);
    }
    bench.ana.put("/subscriptions", json!({"agent": CLOSE})).await.refused(422);
    bench.ana.get("/subscriptions").await.refused(405);
}

#[tokio::test]
async fn topics_are_listed_to_their_organisation() {
    let bench = listeners().await;
    subscribe(&bench.beto, BETO, TOPIC).await.is(200);
    bench.ana.send(&event("e1", CLOSE, "topic:acme/ops/alerts")).await.is(201);
    let expected = json!({"topics": [
        {"topic": TOPIC, "subscribers": [BETO]},
        {"topic": "topic:acme/ops/alerts", "subscribers": []},
    ]});
    assert_eq!(bench.caro.get("/topics").await.is(200), expected);
    assert_eq!(bench.dora.get("/topics").await.is(200), json!({"topics": []}));
}

async fn expose(node: &Node, org: &str, other: &str, kind: &str, pattern: &str, on: bool) {
    let body = json!({"kind": kind, "pattern": pattern, "on": on});
    node.put(&format!("/orgs/{org}/links/{other}/expose"), body).await.is(200);
}

#[tokio::test]
async fn over_a_link_listening_needs_sub_and_publishing_needs_pub() {
    let bench = listeners().await;
    link_openly(&bench).await;
    subscribe(&bench.dora, DORA, TOPIC).await.refused(404);
    bench.dora.send(&event("e1", DORA, TOPIC)).await.refused(404);
    expose(&bench.ana, "acme", "globex", "sub", "finance/*", true).await;
    subscribe(&bench.dora, DORA, TOPIC).await.is(200);
    bench.dora.send(&event("e1", DORA, TOPIC)).await.refused(404);
    expose(&bench.ana, "acme", "globex", "pub", "finance/invoices", true).await;
    bench.dora.send(&event("e1", DORA, TOPIC)).await.is(201);
    bench.ana.send(&event("e2", CLOSE, TOPIC)).await.is(201);
    assert_eq!(bench.dora.take_ids(DORA).await, ["e2"]);
    bench.dora.send(&event("e3", DORA, "topic:acme/finance/other")).await.refused(404);
}

#[tokio::test]
async fn the_link_is_asked_again_for_each_event_and_listener() {
    let bench = listeners().await;
    link_openly(&bench).await;
    expose(&bench.ana, "acme", "globex", "sub", "*", true).await;
    subscribe(&bench.dora, DORA, TOPIC).await.is(200);
    subscribe(&bench.beto, BETO, TOPIC).await.is(200);
    let publish = async |id: &'static str| bench.ana.send(&event(id, CLOSE, TOPIC)).await.is(201);
    let heard = async || {
        let heard = bench.dora.take_ids(DORA).await;
        bench.dora.ack(DORA, &heard.iter().map(String::as_str).collect::<Vec<_>>()).await;
        heard
    };
    publish("e1").await;
    assert_eq!(heard().await, ["e1"]);
    expose(&bench.ana, "acme", "globex", "sub", "*", false).await;
    publish("e2").await;
    assert!(heard().await.is_empty(), "the owner no longer exposes it");
    expose(&bench.ana, "acme", "globex", "sub", "finance/*", true).await;
    let rules = "/orgs/globex/links/acme/rules";
    bench.dora.put(rules, json!({"signed_only": true})).await.is(200);
    publish("e3").await;
    assert!(heard().await.is_empty(), "the listener's side takes only signed messages");
    let public_key = key(1).verifying_key().to_string();
    bench.ana.put("/nodes/key", json!({"public_key": public_key})).await.is(200);
    bench.ana.send(&signed_by(&key(1), event("e4", CLOSE, TOPIC))).await.is(201);
    assert_eq!(heard().await, ["e4"]);
    bench.dora.put(rules, json!({"signed_only": false, "ips": "203.0.113.7"})).await.is(200);
    publish("e5").await;
    assert!(heard().await.is_empty(), "nor from this address");
    let listed = async || bench.ana.get("/topics").await.is(200).to_string().contains(DORA);
    assert!(listed().await);
    bench.ana.post("/orgs/acme/links/globex/revoke", json!({})).await.is(200);
    assert!(!listed().await, "nothing of the other side is seen");
    publish("e6").await;
    assert!(heard().await.is_empty());
    assert_eq!(bench.beto.take_ids(BETO).await, ["e1", "e2", "e3", "e4", "e5", "e6"]);
}

#[tokio::test]
async fn a_third_organisation_needs_a_link_with_the_publisher_too() {
    let bench = listeners().await;
    link_openly(&bench).await;
    let solo = "solo/general/fede/ear";
    bench.fede.announce(solo, json!({})).await.is(201);
    bench.ana.post("/orgs/acme/links", json!({"other": "solo"})).await.is(201);
    bench.fede.post("/orgs/solo/links", json!({"other": "acme"})).await.is(200);
    bench.fede.put("/orgs/solo/links/acme/rules", json!({"signed_only": false})).await.is(200);
    expose(&bench.ana, "acme", "solo", "sub", "*", true).await;
    expose(&bench.ana, "acme", "globex", "pub", "*", true).await;
    subscribe(&bench.fede, solo, TOPIC).await.is(200);
    bench.dora.send(&event("e1", DORA, TOPIC)).await.is(201);
    bench.ana.send(&event("e2", CLOSE, TOPIC)).await.is(201);
    assert_eq!(bench.fede.take_ids(solo).await, ["e2"]);
}

#[tokio::test]
async fn an_event_counts_once_and_its_files_last_until_the_last_copy() {
    let mut plans = Plans::default();
    let mut tight = plans.get("enterprise").clone();
    (tight.messages_per_day, tight.files_bytes) = (Some(3), Some(10));
    plans.set("enterprise", tight);
    let bench = Bench::start_with(plans).await;
    bench.ana.announce(CLOSE, json!({})).await.is(201);
    bench.beto.announce(BETO, json!({})).await.is(201);
    bench.caro.announce(CARO, json!({})).await.is(201);
    let zip = |size: usize| json!({"files": {"zip": redsyn_bridge::crypto::base64url::zip_encode(&vec![b'P'; size])}});
    bench.ana.send(&with(event("e0", CLOSE, TOPIC), zip(8))).await.is(201);
    bench.ana.get("/messages/e0/files").await.refused(404);
    subscribe(&bench.beto, BETO, TOPIC).await.is(200);
    subscribe(&bench.caro, CARO, TOPIC).await.is(200);
    bench.ana.send(&with(event("e1", CLOSE, TOPIC), zip(8))).await.is(201);
    let full = bench.ana.send(&with(event("e2", CLOSE, TOPIC), zip(3))).await.is(403);
    assert_eq!(full["quota"], true);
    bench.beto.take(BETO).await;
    bench.beto.ack(BETO, &["e1"]).await;
    bench.caro.get("/messages/e1/files").await.is(200);
    bench.caro.take(CARO).await;
    bench.caro.ack(CARO, &["e1"]).await;
    bench.caro.get("/messages/e1/files").await.refused(404);
    bench.ana.send(&with(event("e2", CLOSE, TOPIC), zip(3))).await.is(201);
    assert_eq!(bench.ana.send(&event("e3", CLOSE, TOPIC)).await.is(429)["quota"], true);
}
