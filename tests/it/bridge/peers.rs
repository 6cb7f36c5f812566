//! Whom local agents see beyond the machine, and which topics their node listens to.

use std::time::Duration;

use redsyn_bridge::broker::carrier::Carrier;
use redsyn_bridge::domain::delivery::Status;
use redsyn_bridge::proto::dsh::names::Party;
use serde_json::{Value, json};

use super::relay::Say;
use super::world::{BOB, CLOSE, NOW, Remote, World, close, request};

const EVA: &str = "globex/erp/eva/audit";

async fn peers(world: &World) -> Vec<(String, bool, i64)> {
    let peers = world.carrier.peers().await;
    peers.into_iter().map(|peer| (peer.agent.to_string(), peer.online, peer.last_seen.secs())).collect()
}

fn directory(agents: Value) -> Say {
    Say::Json(200, json!({"agents": agents}))
}

#[tokio::test]
async fn contacts_and_who_wrote_lately_are_peers_with_the_relays_word_on_presence() {
    let mut world = World::new().await;
    world.up().await;
    world.relay.script(
        "GET /directory",
        directory(json!([
            {"address": BOB, "online": true, "last_seen": NOW.secs() - 5},
            {"address": "globex/erp/eva/other", "online": true, "last_seen": 1},
            {"address": CLOSE, "online": true, "last_seen": 1},
            {"name": "no address"},
        ])),
    );
    assert_eq!(peers(&world).await, [("bob".to_owned(), true, NOW.secs() - 5)]);
    let mail = Remote::new().signed("q1", |envelope| {
        envelope.insert("from".into(), json!(format!("{EVA}#s1")));
    });
    world.relay.deliver(CLOSE, [mail]);
    world.delivered("q1").await;
    let both = [("bob".to_owned(), true, NOW.secs() - 5), (EVA.to_owned(), false, NOW.secs())];
    assert_eq!(peers(&world).await, both);
    assert_eq!(world.relay.calls("GET /directory").len(), 1, "asked once in thirty seconds");

    world.clock.advance(Duration::from_secs(30));
    world.relay.script("GET /directory", Say::error(503, "away"));
    assert!(peers(&world).await.iter().all(|(_, online, _)| !online), "nobody knows");
    world.clock.advance(Duration::from_secs(7 * 86_400));
    assert_eq!(peers(&world).await.len(), 1, "who has not written for a week is gone");
}

#[tokio::test]
async fn a_recipient_is_known_by_its_address_and_its_alias() {
    let world = World::new().await;
    assert_eq!(world.carrier.known_as(&close(), "bob#s4"), [BOB, "bob"]);
    assert_eq!(world.carrier.known_as(&close(), BOB), [BOB, "bob"]);
}

#[tokio::test]
async fn topics_are_subscribed_and_those_that_leave_the_list_unsubscribed() {
    let ok = || Say::Json(200, json!({}));
    let script = |relay: &super::relay::Relay| relay.script("POST /subscriptions/remove", ok());
    let more = "agents: {close: {hold: true, topics: [finance/invoices, 'topic:globex/erp/news']}}";
    let world = World::scripted(more, script).await;
    world.up().await;
    let topic = |call: super::relay::Call| (call.body["agent"].clone(), call.body["topic"].clone());
    let subscribed: Vec<_> = world.relay.calls("PUT /subscriptions").into_iter().map(topic).collect();
    let of = |topic: &str| (json!(CLOSE), json!(topic));
    assert_eq!(subscribed, [of("topic:acme/finance/invoices"), of("topic:globex/erp/news")]);
    assert!(world.relay.calls("POST /subscriptions/remove").is_empty());

    let mut stopped = world.stopped().await;
    stopped.configure("agents: {close: {hold: true, topics: [finance/invoices]}}");
    let world = stopped.started();
    world.up().await;
    let removed: Vec<_> = world.relay.calls("POST /subscriptions/remove").into_iter().map(topic).collect();
    assert_eq!(removed, [of("topic:globex/erp/news")]);
    world.holds("SELECT 1 WHERE (SELECT count(*) FROM subscriptions) = 1").await;
}

#[tokio::test]
async fn what_is_sent_to_a_topic_is_published_in_the_open() {
    let mut world = World::new().await;
    world.relay.set_key(BOB, &world.keys);
    for (id, to) in [("e1", "topic:finance/invoices"), ("e2", "topic:globex/erp/news")] {
        let mut message = request(id);
        message.to = Party::new(to);
        world.send(message).await;
        assert!(!world.accepted(id).await);
        world.assert_status(id, Status::Done).await;
    }
    let posted = world.posted_times(2).await;
    assert_eq!(
        (&posted[0]["kind"], &posted[0]["to"]),
        (&json!("event"), &json!("topic:acme/finance/invoices"))
    );
    assert_eq!(posted[1]["to"], "topic:globex/erp/news");
    assert!(posted[0].get("thread").is_none());
    world.assert_signed(&posted[0], NOW);

    world.relay.script("POST /messages", Say::error(403, "globex does not let acme publish there"));
    let mut message = request("e3");
    message.to = Party::new("topic:globex/erp/news");
    world.send(message).await;
    assert_eq!(world.failed("e3").await, "forbidden");
    assert_eq!(world.inbox().await[0].from.as_str(), "topic:globex/erp/news");
    let mut message = request("e4");
    message.to = Party::new("topic:globex/erp/news");
    message.redsyn = Some(json!({"encrypt": "require"}));
    world.send(message).await;
    assert_eq!(world.failed("e4").await, "no_key");
}

#[tokio::test]
async fn an_event_is_a_message_that_names_its_topic() {
    let mut world = World::new().await;
    let event = Remote::new().signed("e1", |envelope| {
        envelope.insert("kind".into(), json!("event"));
        envelope.insert("to".into(), json!("topic:acme/finance/invoices"));
        envelope.insert("topic".into(), json!("topic:acme/finance/invoices"));
    });
    world.relay.deliver(CLOSE, [event]);
    world.delivered("e1").await;
    let message = world.inbox().await.remove(0);
    assert_eq!(message.kind, redsyn_bridge::proto::dsh::v1::envelope::Kind::Message);
    let redsyn = message.redsyn.unwrap();
    assert_eq!((&redsyn["kind"], &redsyn["topic"]), (&json!("event"), &json!("topic:acme/finance/invoices")));
}
