//! The node and its relay: introduced at start, introduced again when the relay has forgotten it, and never taken
//! for connected when it is not.

use std::time::Duration;

use redsyn_bridge::bridge::events::Event;
use redsyn_bridge::bridge::link::LinkState;
use redsyn_bridge::domain::delivery::Status;
use redsyn_bridge::proto::redsyn::keys::KeyRegistration;
use serde_json::json;

use super::relay::{Relay, Say};
use super::world::{CLOSE, NOW, World, body_of, request};

const MINUTE: Duration = Duration::from_secs(61);
/// The tasks that sleep while a node tries to bring its link up.
const FORGETTING_AND_TRYING: usize = 2;

#[tokio::test]
async fn a_node_registers_its_keys_and_announces_its_agents() {
    let world =
        World::with("agents: {close: {description: closes, allow: [org], accept: signed}, shout: {}}").await;
    world.up().await;
    let key = world.relay.calls("PUT /nodes/key").remove(0);
    let registration: KeyRegistration = serde_json::from_value(key.body).unwrap();
    assert!(matches!(registration.check(), Ok((_, Some(_)))));
    assert!(!registration.rotate);
    let agents = world.relay.calls("PUT /agents/");
    assert_eq!(agents.len(), 2);
    assert_eq!(agents[0].what, format!("PUT /agents/{CLOSE}"));
    for (field, value) in [
        ("listening", json!(true)),
        ("description", json!("closes")),
        ("allow", json!(["org"])),
        ("trust", json!("none")),
        ("signed_only", json!(true)),
        ("encrypted_only", json!(false)),
    ] {
        assert_eq!(agents[0].body[field], value, "{field}");
    }
}

#[tokio::test]
async fn a_relay_that_is_away_at_first_is_tried_until_it_answers() {
    let world = World::scripted("agents: {close: {hold: true, allow: [org:globex]}}", |relay: &Relay| {
        relay.script("PUT /nodes/key", Say::HangUp);
        relay.script("PUT /nodes/key", Say::error(502, "away"));
    })
    .await;
    for times in 1..=2 {
        world.relay.called("PUT /nodes/key", times).await;
        world.asleep(FORGETTING_AND_TRYING).await;
        assert!(!world.link.is_connected());
        world.clock.advance(MINUTE);
    }
    world.up().await;
    assert!(world.link.is_connected());
}

#[tokio::test]
async fn a_token_that_is_refused_is_said_so_and_costs_no_message() {
    let mut world = World::scripted("agents: {close: {hold: true, allow: [org:globex]}}", |relay: &Relay| {
        relay.script("PUT /nodes/key", Say::error(401, "no such token"));
    })
    .await;
    world.send(request("m1")).await;
    world.relay.called("PUT /nodes/key", 1).await;
    world.asleep(FORGETTING_AND_TRYING).await;
    assert!(
        matches!(world.link.state(), LinkState::Down { why, .. } if why.contains("token")),
        "{:?}",
        world.link.state()
    );
    world.clock.advance(MINUTE);
    world.accepted("m1").await;
}

#[tokio::test]
async fn a_401_registers_the_keys_again_once() {
    let mut world = World::new().await;
    world.up().await;
    world.relay.script("POST /messages", Say::error(401, "no key of this node"));
    world.send(request("m1")).await;
    world.accepted("m1").await;
    assert_eq!(world.relay.calls("PUT /nodes/key").len(), 2);
    assert_eq!(world.posted().len(), 2);

    world.relay.script("POST /messages", Say::error(401, "the signature does not cover it"));
    world.relay.script("POST /messages", Say::error(401, "the signature does not cover it"));
    world.send(request("m2")).await;
    assert_eq!(world.failed("m2").await, "unauthenticated");
    assert_eq!(world.relay.calls("PUT /nodes/key").len(), 3);
    assert_eq!(world.posted().len(), 4);
}

#[tokio::test]
async fn a_404_announces_the_agents_again_once() {
    let mut world = World::new().await;
    world.up().await;
    let before = world.relay.calls("PUT /agents/").len();
    world.relay.script("POST /messages", Say::error(404, "there is no agent close: announce it first"));
    world.send(request("m1")).await;
    world.accepted("m1").await;
    assert_eq!(world.relay.calls("PUT /agents/").len(), before + 1);

    world.relay.script("POST /messages", Say::error(404, "there is no agent billing"));
    world.relay.script("POST /messages", Say::error(404, "there is no agent billing"));
    world.send(request("m2")).await;
    assert_eq!(world.failed("m2").await, "no_such_agent");
    assert_eq!(world.relay.calls("PUT /agents/").len(), before + 2);
}

#[tokio::test]
async fn many_messages_that_find_out_together_introduce_the_node_once() {
    let mut world = World::new().await;
    world.up().await;
    world.relay.forget_the_node();
    for n in 0..8 {
        world.send(request(&format!("m{n}"))).await;
    }
    for _ in 0..8 {
        world.event(|event| matches!(event, Event::Accepted { .. }).then_some(())).await;
    }
    assert_eq!(world.relay.calls("PUT /nodes/key").len(), 2, "at start, and once for all of them");
}

#[tokio::test]
async fn an_introduction_that_is_refused_says_nothing_of_the_message() {
    let mut world = World::new().await;
    world.up().await;
    world.relay.script("POST /messages", Say::error(401, "no key of this node"));
    world.relay.script("PUT /nodes/key", Say::error(401, "no such token"));
    world.send(request("m1")).await;
    world.postponed("m1").await;
    world.assert_status("m1", Status::Queued).await;
    assert!(!world.link.is_connected());
    world.clock.advance(MINUTE);
    world.accepted("m1").await;
    assert!(world.inbox().await.is_empty());
}

#[tokio::test]
async fn a_token_that_dies_before_the_key_is_asked_for_costs_no_message() {
    let mut world = World::new().await;
    world.up().await;
    world.relay.script("GET /agents/", Say::error(401, "no such token"));
    world.relay.script("PUT /nodes/key", Say::error(401, "no such token"));
    world.send(request("m1")).await;
    world.postponed("m1").await;
    world.clock.advance(MINUTE);
    world.accepted("m1").await;
}

#[tokio::test]
async fn one_agent_that_is_refused_does_not_keep_the_others_out() {
    let mut world =
        World::scripted("agents: {aaa: {}, close: {hold: true, allow: [org:globex]}}", |relay: &Relay| {
            let quota = json!({"error": "the plan has 1 agent", "status": 403, "quota": true});
            relay.script("PUT /agents/acme/finance/ana/aaa", Say::Json(403, quota));
        })
        .await;
    world.up().await;
    world.send(request("m1")).await;
    world.accepted("m1").await;
}

#[tokio::test]
async fn a_link_without_a_call_in_the_last_minute_is_not_called_connected() {
    let world = World::with("agents: {close: {allow: [org:globex]}}").await;
    world.up().await;
    assert!(world.link.is_connected());
    world.clock.advance(MINUTE);
    assert!(!world.link.is_connected());
    assert!(matches!(world.link.state(), LinkState::Up { since } if since == NOW));
}

#[tokio::test]
async fn the_relays_time_is_taken_from_its_date() {
    let mut world = World::scripted("agents: {close: {hold: true, allow: [org:globex]}}", |relay: &Relay| {
        relay.skew(5 * 3600)
    })
    .await;
    world.send(request("m1")).await;
    world.accepted("m1").await;
    let relay_now = NOW.plus(Duration::from_secs(5 * 3600));
    let envelope = world.posted().remove(0);
    assert_eq!(envelope["ts"], relay_now.secs());
    world.assert_signed(&envelope, relay_now);
}

#[tokio::test]
async fn a_clock_that_jumps_is_noticed_by_the_refusal_it_causes() {
    let mut world = World::new().await;
    world.up().await;
    world.relay.skew(-7200);
    world.relay.script("POST /messages", Say::error(401, "ts is more than ten minutes off"));
    world.send(request("m1")).await;
    world.accepted("m1").await;
    let times: Vec<i64> =
        world.posted().iter().map(|envelope| NOW.secs() - envelope["ts"].as_i64().unwrap()).collect();
    assert_eq!(times.last(), Some(&7200));
}

#[tokio::test]
async fn a_relay_that_talks_too_much_is_cut_short() {
    let mut world = World::new().await;
    world.relay.script("POST /messages", Say::error(422, &"no ".repeat(10_000)));
    world.send(request("m1")).await;
    world.failed("m1").await;
    let error = body_of(&world.inbox().await[0])["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("not delivered: no no") && error.len() < 600, "{}", error.len());
}
