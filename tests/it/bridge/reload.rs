//! Contacts, agents and policies change while the bridge runs.

use serde_json::json;

use super::world::{CLOSE, Remote, World, request};

const SHOUT: &str = "acme/finance/ana/shout";

#[tokio::test]
async fn agents_come_and_go_and_a_held_call_of_the_others_goes_on() {
    let mut world = World::new().await;
    world.up().await;
    world.relay.called(&format!("GET /inbox/{CLOSE}"), 1).await;
    let more = world.config("agents: {close: {hold: true, allow: [org:globex]}, shout: {hold: true}}");
    world.control.reload(&more).await.unwrap();
    world.relay.called(&format!("GET /inbox/{SHOUT}"), 1).await;
    assert_eq!(world.relay.calls(&format!("PUT /agents/{SHOUT}")).len(), 1, "announced");
    assert_eq!(world.relay.calls(&format!("GET /inbox/{CLOSE}")).len(), 1, "its call is still held");
    world.relay.deliver(CLOSE, [Remote::new().signed("q1", |_| ())]);
    world.delivered("q1").await;

    let less = world.config("agents: {shout: {hold: true}}");
    world.control.reload(&less).await.unwrap();
    assert_eq!(world.try_send(request("m1")).await.unwrap_err().status(), 403, "close has no address now");
}

#[tokio::test]
async fn a_changed_policy_is_announced_and_applied() {
    let mut world = World::new().await;
    world.up().await;
    world.relay.called(&format!("GET /inbox/{CLOSE}"), 1).await;
    let changed = world.config("agents: {close: {hold: true, allow: [org:initech]}}");
    world.control.reload(&changed).await.unwrap();
    let announced = world.relay.calls(&format!("PUT /agents/{CLOSE}")).pop().unwrap().body;
    assert_eq!(announced["allow"], json!(["org:initech"]));
    // What the old pump had in its hands is judged by its policy; a second one shows the new pump.
    world.relay.called(&format!("GET /inbox/{CLOSE}"), 2).await;
    world.relay.deliver(CLOSE, [Remote::new().signed("q1", |_| ())]);
    assert!(world.refused("q1").await.contains("initech"));
}
