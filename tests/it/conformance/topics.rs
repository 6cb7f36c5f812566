//! «Tópicos y eventos».

use serde_json::{Value, json};

use super::relay::{Relay, done, refused, skipped};
use crate::support::redsyn::{ids, text, with};

fn event(relay: &Relay, id: &str, from: &str, topic: &str) -> Value {
    json!({"v": 1, "id": relay.name(id), "kind": "event", "from": from, "to": topic, "body": text("new")})
}

fn listens(agent: &str, topic: &str) -> Value {
    json!({"agent": agent, "topic": topic})
}

#[tokio::test]
async fn a_copy_goes_to_each_listener_but_the_publisher() {
    let relay = Relay::start().await;
    let (publisher, listener) = relay.pair().await;
    let topic = relay.topic("invoices");
    for (node, agent) in [(&relay.ana, &publisher), (&relay.beto, &listener), (&relay.beto, &listener)] {
        done(node.put("/subscriptions", listens(agent, &topic)).await);
    }
    relay.ana.send(&event(&relay, "e1", &publisher, &topic)).await.is(201);
    relay.ana.send(&event(&relay, "e2", &publisher, &topic)).await.is(201);
    assert!(relay.ana.take(&publisher).await.is_empty());
    let items = relay.beto.take(&listener).await;
    assert_eq!(ids(&items), [relay.name("e1"), relay.name("e2")]);
    for item in &items {
        assert_eq!((&item["kind"], &item["topic"]), (&json!("event"), &json!(topic)));
        assert_eq!(item["ttl"], 86_400, "a day");
    }
    let Some(caro) = &relay.caro else { return skipped("nobody else to listen") };
    let watch = relay.listening(caro, "watch", json!({})).await;
    done(caro.put("/subscriptions", listens(&watch, &topic)).await);
    relay.ana.send(&event(&relay, "e3", &publisher, &topic)).await.is(201);
    assert_eq!(caro.take_ids(&watch).await, [relay.name("e3")], "what came before is not heard");
}

#[tokio::test]
async fn each_listener_has_a_session_of_its_own_for_a_topic() {
    let relay = Relay::start().await;
    let (publisher, listener) = relay.pair().await;
    let (one, two) = (relay.topic("one"), relay.topic("two"));
    for topic in [&one, &two] {
        done(relay.beto.put("/subscriptions", listens(&listener, topic)).await);
    }
    for (id, topic) in [("e1", &one), ("e2", &two), ("e3", &one)] {
        relay.ana.send(&event(&relay, id, &publisher, topic)).await.is(201);
    }
    let items = relay.beto.take(&listener).await;
    assert_eq!(items[0]["to"], items[2]["to"]);
    assert_ne!(items[0]["to"], items[1]["to"]);
    assert!(items[0]["to"].as_str().unwrap().starts_with(&format!("{listener}#")));
}

#[tokio::test]
async fn whoever_stops_listening_hears_nothing_more() {
    let relay = Relay::start().await;
    let (publisher, listener) = relay.pair().await;
    let topic = relay.topic("invoices");
    done(relay.beto.put("/subscriptions", listens(&listener, &topic)).await);
    done(relay.beto.post("/subscriptions/remove", listens(&listener, &topic)).await);
    relay.ana.send(&event(&relay, "e1", &publisher, &topic)).await.is(201);
    assert!(relay.beto.take(&listener).await.is_empty());
}

#[tokio::test]
async fn topics_are_listed_with_who_listens() {
    let relay = Relay::start().await;
    let (publisher, listener) = relay.pair().await;
    let (heard, silent) = (relay.topic("heard"), relay.topic("silent"));
    done(relay.beto.put("/subscriptions", listens(&listener, &heard)).await);
    relay.ana.send(&event(&relay, "e1", &publisher, &silent)).await.is(201);
    let topics = done(relay.ana.get("/topics").await).to_string();
    for word in [&heard, &silent, &listener] {
        assert!(topics.contains(word.as_str()), "{word}: {topics}");
    }
    assert!(!done(relay.dora.get("/topics").await).to_string().contains(&heard));
}

#[tokio::test]
async fn nobody_answers_an_event() {
    let relay = Relay::start().await;
    let (publisher, listener) = relay.pair().await;
    let topic = relay.topic("invoices");
    done(relay.beto.put("/subscriptions", listens(&listener, &topic)).await);
    relay.ana.send(&event(&relay, "e1", &publisher, &topic)).await.is(201);
    relay.beto.take(&listener).await;
    refused(relay.beto.send(&relay.answer("reply", "r1", &listener, "e1")).await, 404);
}

#[tokio::test]
async fn one_subscribes_only_ones_own_agent_by_its_full_address() {
    let relay = Relay::start().await;
    let (asked, _) = relay.pair().await;
    let topic = relay.topic("invoices");
    refused(relay.beto.put("/subscriptions", listens(&asked, &topic)).await, 403);
    refused(relay.dora.put("/subscriptions", listens(&asked, &topic)).await, 404);
    refused(relay.ana.put("/subscriptions", listens("close", &topic)).await, 422);
    refused(relay.ana.put("/subscriptions", listens(&asked, "no topic")).await, 422);
    let short = format!("topic:{}/{}", relay.ana.team(), relay.name("short"));
    done(relay.ana.put("/subscriptions", listens(&asked, &short)).await);
}

#[tokio::test]
async fn over_a_link_publishing_needs_pub_and_listening_needs_sub() {
    let relay = Relay::start().await;
    let publisher = relay.listening(&relay.ana, "close", json!({})).await;
    let foreign = relay.listening(&relay.dora, "billing", json!({})).await;
    let topic = relay.topic("invoices");
    relay.linked().await;
    for member in [&relay.ana, &relay.dora] {
        relay.trusts(member).await;
    }
    refused(relay.dora.put("/subscriptions", listens(&foreign, &topic)).await, 404);
    refused(relay.dora.send(&event(&relay, "e0", &foreign, &topic)).await, 404);
    relay.expose(&relay.ana, "sub", &format!("{}/*", relay.ana.team()), true).await;
    done(relay.dora.put("/subscriptions", listens(&foreign, &topic)).await);
    relay.ana.send(&event(&relay, "e1", &publisher, &topic)).await.is(201);
    assert_eq!(relay.dora.take_ids(&foreign).await, [relay.name("e1")]);
    relay.expose(&relay.ana, "pub", "*", true).await;
    relay.dora.send(&event(&relay, "e2", &foreign, &topic)).await.is(201);
    // Each event is checked against the link again when it is shared out.
    relay.unlinked().await;
    relay.ana.send(&with(event(&relay, "e3", &publisher, &topic), json!({}))).await.is(201);
    assert!(relay.dora.take(&foreign).await.is_empty());
}
