//! A relay that knows other dates, fewer calls, or fields of its own is used as far as it goes, and `status` says what is
//! missing.

use axum::http::Method;
use redsyn_bridge::bridge::lacks::Call;
use redsyn_bridge::broker::carrier::Carrier;
use redsyn_bridge::domain::delivery::Status;
use redsyn_bridge::store::bridge::generation::Generation;
use serde_json::{Value, json};

use super::pair::Pair;
use super::relay::{Relay, Say};
use super::world::{BOB, CLOSE, World, request, unsigned};
use crate::support::bridge::BridgeProcess;
use crate::support::process::run;
use crate::support::proxy::{Fault, Proxy, When};
use crate::support::world::base;

fn lacks(world: &World) -> Vec<Call> {
    world.link.lacks.all().into_iter().map(|(call, _)| call).collect()
}

/// A request leaves and one comes in.
async fn works(world: &mut World) {
    world.send(request("m1")).await;
    world.accepted("m1").await;
    world.assert_status("m1", Status::Leased).await;
    world.relay.deliver(CLOSE, [Value::Object(unsigned("q1"))]);
    world.delivered("q1").await;
    assert_eq!(world.acked().await, ["q1"]);
}

#[tokio::test]
async fn a_relay_of_other_dates_is_spoken_to_in_the_nearest_it_knows() {
    let unknown = json!({"error": "unknown Redsyn-Version", "status": 400,
                         "versions": ["2026-01-01", "2026-06-01", "2027-01-01"]});
    let mut world = World::scripted("agents: {close: {hold: true, allow: [org:globex]}}", |relay: &Relay| {
        relay.script("PUT /nodes/key", Say::Json(400, unknown.clone()));
    })
    .await;
    works(&mut world).await;
    let dates = |what: &str| -> Vec<String> {
        let calls = world.relay.calls(what).into_iter();
        calls.map(|call| call.headers["redsyn-version"].to_str().unwrap().to_owned()).collect()
    };
    assert_eq!(dates("PUT /nodes/key"), ["2026-09-25", "2026-06-01"]);
    assert_eq!(dates("POST /messages"), ["2026-06-01"]);
    let why = world.link.lacks_date().unwrap();
    assert!(why.contains("2026-09-25") && why.contains("2026-06-01"), "{why}");
}

#[tokio::test]
async fn a_relay_that_changes_its_dates_under_way_costs_no_message() {
    let mut world = World::new().await;
    world.up().await;
    let unknown = json!({"error": "unknown", "status": 400, "versions": ["2027-01-01"]});
    world.relay.script("POST /messages", Say::Json(400, unknown));
    works(&mut world).await;
    assert_eq!(world.posted().len(), 2);
    assert!(world.link.lacks_date().unwrap().contains("2027-01-01"));

    // One that knows no date at all has nothing to offer.
    world
        .relay
        .script("POST /messages", Say::Json(400, json!({"error": "no", "status": 400, "versions": []})));
    world.send(request("m2")).await;
    assert_eq!(world.failed("m2").await, "unsupported_version");
}

#[tokio::test]
async fn a_relay_that_answers_as_of_another_date_is_believed_and_told_of() {
    let mut world = World::scripted("agents: {close: {hold: true, allow: [org:globex]}}", |relay: &Relay| {
        relay.answer_as_of("2026-01-01");
    })
    .await;
    works(&mut world).await;
    assert!(world.link.lacks_date().unwrap().contains("answers as of 2026-01-01"));
    world.relay.answer_as_of("2026-09-25");
    world.send(request("m2")).await;
    world.accepted("m2").await;
    assert_eq!(world.link.lacks_date(), None);
}

#[tokio::test]
async fn a_relay_with_fewer_calls_is_used_as_far_as_it_goes() {
    for status in [404, 405, 501] {
        let no = || Say::error(status, "there is no such call");
        let more = "agents: {close: {hold: true, allow: [org:globex], topics: [finance/invoices]}}";
        let mut world = World::scripted(more, |relay: &Relay| {
            relay.script("PUT /nodes/key", no());
            relay.script("PUT /subscriptions", no());
            relay.script(&format!("GET /agents/{BOB}/key"), no());
            relay.script(&format!("GET /agents/{CLOSE}/key"), no());
            relay.script("GET /directory", no());
            relay.script("GET /me", no());
        })
        .await;
        works(&mut world).await;
        assert!(world.carrier.peers().await.iter().all(|peer| !peer.online));
        world.link.probe().await.unwrap();
        assert!(world.link.is_connected());
        let all = [Call::RegisterKey, Call::AgentKey, Call::Subscriptions, Call::Directory, Call::Me];
        assert_eq!(lacks(&world), all, "{status}");
        let said = world.link.lacks.all();
        assert!(said.iter().all(|(call, why)| *call == Call::AgentKey || why.contains("no such call")));

        // It has them by the next introduction.
        world.relay.set_key(CLOSE, &world.keys);
        world.relay.script("GET /me", Say::Json(200, json!({})));
        world.relay.script("GET /directory", Say::Json(200, json!({"agents": []})));
        world.control.link.introduce().await.unwrap();
        world.link.probe().await.unwrap();
        world.clock.advance(std::time::Duration::from_secs(61));
        world.carrier.peers().await;
        world.send(request("m2")).await;
        world.accepted("m2").await;
        assert_eq!(lacks(&world), []);
    }
}

#[tokio::test]
async fn an_agent_without_a_key_is_not_taken_for_a_relay_without_keys() {
    let mut world = World::new().await;
    world.relay.set_key(CLOSE, &world.keys);
    for id in ["m1", "m2"] {
        world.send(request(id)).await;
        assert!(!world.accepted(id).await, "in the open");
    }
    assert_eq!(lacks(&world), []);
    assert_eq!(world.relay.calls(&format!("GET /agents/{CLOSE}/key")).len(), 1, "asked once");
}

/// The signature does not cover what it does not know.
#[tokio::test]
async fn fields_that_nobody_knows_change_nothing() {
    for generation in [Generation::V1, Generation::V2] {
        let pair = Pair::new(generation, generation).await;
        let more = |answer: &mut Value| {
            let add = |value: &mut Value| {
                if let Some(fields) = value.as_object_mut() {
                    fields.insert("x_new".into(), json!({"of": ["another", 1, null]}));
                }
            };
            answer.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten().for_each(add);
            add(answer);
        };
        for side in [&pair.a, &pair.b] {
            for method in [Method::GET, Method::POST, Method::PUT] {
                side.proxy.faults(method, "", "", Fault::rewrite(more), usize::MAX);
            }
            side.node.link.introduce().await.unwrap();
        }
        pair.a.says("m1", "is it paid?", None, None, pair.now()).await;
        pair.until("the request has come", async || pair.b.came().await == 1).await;
        pair.b.says("r1", "yes", Some("m1"), Some("m1"), pair.now()).await;
        pair.until("the answer has come", async || pair.a.came().await == 1).await;
        pair.quiet().await;
        assert_eq!(pair.a.status("m1").await, pair.a.done());
        assert_eq!(pair.b.mail().await, [("m1".into(), "is it paid?".into(), None)]);
    }
}

#[tokio::test]
async fn status_says_what_the_relay_lacks() {
    let world = crate::support::world::World::new().await;
    let proxy = Proxy::start(world.relay.address()).await;
    let refuse = Fault::Refuse { when: When::BeforeTheRelay, status: 404, retry_after: None };
    proxy.faults(Method::GET, "/directory", "", refuse, usize::MAX);
    let folder = world.folder.path().join("acme");
    let bridge = BridgeProcess::start(&folder, &world.ana, &world.bob, &base(proxy.address));
    bridge.register().await;
    bridge.client.get("/peers").await.unwrap();
    let status = run(&folder, &["status", "--config", "config.yaml"]);
    let told = String::from_utf8(status.stdout).unwrap();
    assert!(told.contains("lacks GET /directory: nobody knows which remote agents are online"), "{told}");
}
