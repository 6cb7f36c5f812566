//! Whose mail is taken: pins, unsigned mail, and what an agent accepts.

use serde_json::{Value, json};

use super::world::{BOB, CLOSE, Remote, World, request, unsigned};

#[tokio::test]
async fn unsigned_mail_of_a_pinned_person_is_held_and_not_acked() {
    let mut world = World::new().await;
    world.relay.deliver(CLOSE, [Remote::new().signed("q1", |_| ())]);
    world.acked().await;
    let mut other_agent = unsigned("q2");
    other_agent.insert("from".into(), json!("globex/ops/bob/other#s1"));
    world.relay.deliver(CLOSE, [Value::Object(other_agent)]);
    let why = world.held_in("q2").await;
    assert!(why.contains("globex/bob has a pinned key and sends unsigned"), "{why}");
    world.relay.deliver(CLOSE, [Remote::new().signed("q3", |_| ())]);
    let why = world.held_in("q3").await;
    assert!(why.contains("another key than the pinned one"), "{why}");

    let mut world = world.restarted().await;
    // It comes again after its lease, and waits again.
    world.relay.deliver(CLOSE, [Value::Object(unsigned("q4"))]);
    world.held_in("q4").await;
    assert_eq!(world.inbox_ids().await, ["q1"]);
    assert_eq!(world.relay.calls(&format!("POST /inbox/{CLOSE}/ack")).len(), 1);
    assert!(world.posted().is_empty());
}

#[tokio::test]
async fn a_key_that_the_relay_named_is_a_pin_for_what_comes_in() {
    let mut world = World::new().await;
    let bob = Remote::new();
    world.relay.set_key(BOB, &bob.keys);
    world.send(request("m1")).await;
    world.accepted("m1").await;
    world.relay.deliver(CLOSE, [bob.signed("q1", |_| ()), Remote::new().signed("q2", |_| ())]);
    world.delivered("q1").await;
    world.held_in("q2").await;
}

#[tokio::test]
async fn unsigned_mail_of_a_stranger_is_delivered_as_what_it_is() {
    let mut world = World::new().await;
    let mut envelope = unsigned("q1");
    // The relay's word alone makes nothing verified.
    envelope.insert("signed".into(), json!(true));
    world.relay.deliver(CLOSE, [Value::Object(envelope)]);
    world.delivered("q1").await;
    let metadata = world.inbox().await.remove(0).redsyn.unwrap();
    assert_eq!((&metadata["signed"], &metadata["verified"]), (&json!(true), &json!(false)));
    assert_eq!((&metadata["encrypted"], &metadata["fingerprint"]), (&json!(false), &Value::Null));
}

/// A relay that lets anybody through.
#[tokio::test]
async fn whom_the_policy_leaves_out_is_refused_here_too() {
    let mut world = World::with("agents: {close: {hold: true, allow: [eva, org:initech]}}").await;
    world.relay.deliver(CLOSE, [Remote::new().signed("q1", |_| ())]);
    let refused = world.refused("q1").await;
    assert_eq!(refused, "acme/finance/ana/close takes requests only from eva, organization initech");
}

#[tokio::test]
async fn an_agent_that_takes_signed_requests_refuses_others() {
    let mut world = World::with("agents: {close: {hold: true, allow: [org:globex], accept: signed}}").await;
    world.relay.deliver(CLOSE, [Value::Object(unsigned("q1")), Remote::new().signed("q2", |_| ())]);
    assert_eq!(world.refused("q1").await, "only signed requests are taken here");
    world.delivered("q2").await;
    assert_eq!(world.acked().await, ["q1", "q2"]);
    assert_eq!(world.posted_times(1).await[0]["reply_to"], "q1");
}

#[tokio::test]
async fn an_agent_that_takes_encrypted_requests_refuses_others() {
    let mut world =
        World::with("agents: {close: {hold: true, allow: [org:globex], accept: encrypted}}").await;
    let bob = Remote::new();
    world.relay.deliver(CLOSE, [bob.signed("q1", |_| ()), bob.sealed("q2", &world.keys)]);
    assert_eq!(world.refused("q1").await, "acme/finance/ana/close takes only encrypted requests");
    world.delivered("q2").await;
    // What is refused pins nobody; the one that was delivered did.
    assert_eq!(world.inbox_ids().await, ["q2"]);
}

#[tokio::test]
async fn an_event_names_its_topic() {
    let mut world = World::new().await;
    let event = Remote::new().signed("e1", |envelope| {
        envelope.insert("kind".into(), json!("event"));
        envelope.insert("to".into(), json!("topic:globex/erp/prices"));
        envelope.insert("topic".into(), json!("topic:globex/erp/prices"));
    });
    world.relay.deliver(CLOSE, [event]);
    world.delivered("e1").await;
    let message = world.inbox().await.remove(0);
    assert_eq!(message.redsyn.unwrap()["topic"], "topic:globex/erp/prices");
}

#[tokio::test]
async fn nobody_speaks_unsigned_for_our_own_person() {
    let mut world = World::new().await;
    let mut envelope = unsigned("q1");
    envelope.insert("from".into(), json!("acme/ops/ana/other#s1"));
    world.relay.deliver(CLOSE, [Value::Object(envelope)]);
    let why = world.held_in("q1").await;
    assert!(why.contains("acme/ana has a pinned key"), "{why}");
}
