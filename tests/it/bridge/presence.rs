//! Mail is taken while the agent is alive here, and the call that brings it to life finds what waits.

use std::sync::Arc;
use std::time::Duration;

use redsyn_bridge::broker::carrier::Carrier;
use serde_json::Value;

use super::relay::{HANG, Say};
use super::world::{CLOSE, World, close, settle, unsigned};

const TAKE: &str = "GET /inbox/acme/finance/ana/close";

async fn touch(world: &World) {
    tokio::time::timeout(HANG, world.carrier.touched(&close())).await.unwrap();
}

#[tokio::test]
async fn the_first_call_of_an_agent_finds_its_mail() {
    let world = World::with("agents: {close: {allow: [org:globex]}}").await;
    world.up().await;
    world.relay.deliver(CLOSE, [Value::Object(unsigned("q1")), Value::Object(unsigned("q2"))]);
    settle().await;
    assert_eq!(world.relay.calls(TAKE).len(), 0, "mail waits at the relay while nobody is here");
    touch(&world).await;
    assert_eq!(world.inbox_ids().await, ["q1", "q2"]);
    assert!(world.relay.calls(TAKE)[0].query.contains("wait=0"), "a look, not a held call");
}

#[tokio::test]
async fn a_living_agent_holds_a_call_and_does_not_wait_again() {
    let mut world = World::with("agents: {close: {allow: [org:globex]}}").await;
    world.up().await;
    touch(&world).await;
    let takes = world.relay.called(TAKE, 2).await;
    assert!(takes[1].query.contains("wait=25"));
    touch(&world).await;
    world.relay.deliver(CLOSE, [Value::Object(unsigned("q1"))]);
    world.delivered("q1").await;
}

#[tokio::test]
async fn an_agent_that_falls_silent_and_comes_back_finds_its_mail() {
    let mut world = World::with("agents: {close: {allow: [org:globex]}}").await;
    world.up().await;
    touch(&world).await;
    world.relay.called(TAKE, 2).await;
    world.clock.advance(Duration::from_secs(90));
    // The held call ends, and nobody is there to take for.
    world.relay.deliver(CLOSE, [Value::Object(unsigned("q1"))]);
    world.delivered("q1").await;
    world.acked().await;
    settle().await;
    world.relay.deliver(CLOSE, [Value::Object(unsigned("q2"))]);
    settle().await;
    assert_eq!((world.relay.calls(TAKE).len(), world.relay.waiting(CLOSE)), (2, 1));
    touch(&world).await;
    assert_eq!(world.inbox_ids().await, ["q1", "q2"]);
}

#[tokio::test]
async fn a_call_waits_no_longer_than_a_second_for_a_relay_that_is_away() {
    let world = World::scripted("agents: {close: {allow: [org:globex]}}", |relay| {
        relay.script("PUT /nodes/key", Say::error(503, "away"));
    })
    .await;
    let carrier = Arc::clone(&world.carrier);
    let touching = tokio::spawn(async move { carrier.touched(&close()).await });
    settle().await;
    assert!(!touching.is_finished());
    world.clock.advance(Duration::from_secs(1));
    tokio::time::timeout(HANG, touching).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_call_that_comes_while_the_pump_rests_from_a_failure_finds_its_mail() {
    let world = World::with("agents: {close: {allow: [org:globex]}}").await;
    world.up().await;
    world.relay.script(TAKE, Say::error(503, "away"));
    touch(&world).await;
    world.relay.deliver(CLOSE, [Value::Object(unsigned("q1"))]);
    settle().await;
    // Dead for the broker, while the pump may still be resting.
    let carrier = Arc::clone(&world.carrier);
    world.clock.advance(Duration::from_secs(90));
    let touching = tokio::spawn(async move { carrier.touched(&close()).await });
    tokio::time::timeout(HANG, touching).await.unwrap().unwrap();
    assert_eq!(world.inbox_ids().await, ["q1"]);
}

#[tokio::test]
async fn a_stop_does_not_wait_for_the_held_call() {
    let world = World::new().await;
    world.relay.called(TAKE, 1).await;
    let stopped = world.stopped().await;
    assert_eq!(stopped.relay.calls(TAKE).len(), 1);
}
