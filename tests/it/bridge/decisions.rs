//! What a person decides about held mail takes effect in the running bridge, and after a crash in the next one.

use std::time::Duration;

use redsyn_bridge::crypto::base64url::zip_encode;
use redsyn_bridge::crypto::sha256;
use redsyn_bridge::domain::delivery::Status;
use redsyn_bridge::proto::redsyn::address::Person;
use redsyn_bridge::store::bridge::{Acceptance, Confirmation, Released};
use serde_json::{Value, json};

use super::relay::Say;
use super::world::{BOB, CLOSE, Remote, World, body_of, request, unsigned};

const MINUTE: Duration = Duration::from_secs(61);

fn bob() -> Person {
    "globex/bob".parse().unwrap()
}

/// Bob is known by one key; a message with another one waits.
async fn with_held() -> (World, Remote) {
    let mut world = World::new().await;
    world.relay.deliver(CLOSE, [Remote::new().signed("q1", |_| ())]);
    world.acked().await;
    let other = Remote::new();
    world.relay.deliver(CLOSE, [other.sealed("q2", &world.keys)]);
    world.held_in("q2").await;
    (world, other)
}

#[tokio::test]
async fn an_accepted_key_delivers_what_waited_for_it_and_acks_it() {
    let (mut world, other) = with_held().await;
    let accepted = world.control.decisions.accept(bob(), None).await.unwrap();
    let fingerprint = other.keys.signing.verifying_key().fingerprint();
    let released = Released { inbound: 1, outbound: 0 };
    assert_eq!(accepted, Acceptance::Accepted { fingerprint, released });
    world.delivered("q2").await;
    assert_eq!(world.acked().await, ["q2"]);
    assert_eq!(world.inbox_ids().await, ["q1", "q2"]);
    assert!(world.control.decisions.store.held_in().await.unwrap().is_empty());
    assert!(world.status("q2").await.stages.held.is_some());
    // The relay's next delivery was under way meanwhile.
    world.relay.deliver(CLOSE, [other.sealed("q2", &world.keys)]);
    assert_eq!(world.acked().await, ["q2"]);
    assert_eq!(world.inbox_ids().await, ["q1", "q2"]);
}

#[tokio::test]
async fn what_goes_on_is_not_overtaken_by_what_comes_after_the_decision() {
    const ZIP: &[u8] = b"PK-bytes";
    let (mut world, _) = with_held().await;
    let other = Remote::new();
    let files = other.signed("q3", |envelope| {
        envelope.insert("thread".into(), json!("t3"));
        envelope.insert("files".into(), json!({"bytes": ZIP.len(), "sha256": sha256::hex(ZIP)}));
    });
    world.relay.deliver(CLOSE, [files]);
    world.held_in("q3").await;
    world.relay.script("GET /messages/q3/files", Say::error(503, "away"));
    let fingerprint = other.keys.signing.verifying_key().fingerprint();
    world.control.decisions.accept(bob(), Some(fingerprint)).await.unwrap();
    world.relay.called("GET /messages/q3/files", 1).await;
    let follows = other.signed("q4", |envelope| drop(envelope.insert("thread".into(), json!("t3"))));
    world.relay.script("GET /messages/q3/files", Say::Json(200, json!({"zip": zip_encode(ZIP)})));
    world.relay.deliver(CLOSE, [other.signed("q5", |_| ()), follows]);
    world.delivered("q5").await;
    world.held_in("q4").await;
    world.delivered("q4").await;
    assert_eq!(world.inbox_ids().await, ["q1", "q5", "q3", "q4"]);
}

#[tokio::test]
async fn what_the_relay_has_given_up_meanwhile_is_delivered_all_the_same() {
    let (mut world, _) = with_held().await;
    world.clock.advance(Duration::from_secs(3 * 86_400));
    world.relay.script(&format!("POST /inbox/{CLOSE}/ack"), Say::error(404, "there is no such message"));
    world.control.decisions.accept(bob(), None).await.unwrap();
    world.delivered("q2").await;
    let inbox = world.inbox().await;
    assert_eq!(inbox.last().unwrap().expires_at, None, "the relay's time is over, ours begins");
}

#[tokio::test]
async fn a_decision_before_a_crash_is_carried_out_after_it() {
    let (world, _) = with_held().await;
    let stopped = world.stopped().await;
    {
        let local = stopped.store();
        let store = redsyn_bridge::store::sqlite::bridge::BridgeStore::new(local.db().clone());
        store.accept_key(bob(), None, super::world::NOW).await.unwrap();
        local.close().await.unwrap();
    }
    let mut world = stopped.started();
    world.delivered("q2").await;
    assert_eq!(world.acked().await, ["q2"]);
}

#[tokio::test]
async fn unsigned_mail_is_taken_once_it_is_allowed() {
    let (mut world, _) = with_held().await;
    world.relay.deliver(CLOSE, [Value::Object(unsigned("q3"))]);
    world.held_in("q3").await;
    world.control.decisions.allow_unsigned(bob()).await.unwrap();
    world.delivered("q3").await;
    world.relay.deliver(CLOSE, [Value::Object(unsigned("q4"))]);
    world.delivered("q4").await;
    assert_eq!(world.inbox_ids().await, ["q1", "q3", "q4"], "the new key still waits");
}

#[tokio::test]
async fn what_is_rejected_is_answered_and_acked_and_comes_to_nobody() {
    let (mut world, _) = with_held().await;
    let rejected = world.control.decisions.reject(bob()).await.unwrap();
    assert_eq!(rejected, Released { inbound: 1, outbound: 0 });
    assert_eq!(world.acked().await, ["q2"]);
    let refusal = world.posted_times(1).await.remove(0);
    assert_eq!((&refusal["reply_to"], &refusal["error"]), (&json!("q2"), &json!(true)));
    assert_eq!(world.inbox_ids().await, ["q1"]);
}

#[tokio::test]
async fn outbound_mail_goes_on_under_the_accepted_key_or_fails_with_its_word() {
    let mut world = World::new().await;
    world.relay.set_key(BOB, &Remote::new().keys);
    world.send(request("m1")).await;
    world.accepted("m1").await;
    world.relay.set_key(BOB, &Remote::new().keys);
    world.send(request("m2")).await;
    world.held_out("m2").await;
    let accepted = world.control.decisions.accept(bob(), None).await.unwrap();
    assert!(matches!(accepted, Acceptance::Accepted { released: Released { outbound: 1, .. }, .. }));
    assert!(world.accepted("m2").await, "sealed for the new key");

    world.relay.set_key(BOB, &Remote::new().keys);
    world.send(request("m3")).await;
    world.held_out("m3").await;
    world.control.decisions.reject(bob()).await.unwrap();
    assert_eq!(world.failed("m3").await, "key_changed");
    world.assert_status("m3", Status::Failed).await;
    let inbox = world.inbox().await;
    let [notice] = inbox.as_slice() else { panic!("{inbox:?}") };
    assert_eq!(body_of(notice)["code"], "key_changed");
}

#[tokio::test]
async fn plain_text_goes_again_once_it_is_allowed() {
    let mut world = World::new().await;
    world.relay.set_key(BOB, &Remote::new().keys);
    world.send(request("m1")).await;
    world.accepted("m1").await;
    world.relay.drop_key(BOB);
    world.send(request("m2")).await;
    world.held_out("m2").await;
    world.control.decisions.allow_plain(bob(), Some(BOB.parse().unwrap())).await.unwrap().unwrap();
    assert!(!world.accepted("m2").await);
}

#[tokio::test]
async fn the_next_keys_are_used_once_the_relay_has_taken_them_and_the_old_ones_still_open() {
    let mut world = World::new().await;
    world.up().await;
    let next = redsyn_bridge::bridge::keys::NodeKeys::generate(&redsyn_bridge::domain::random::SystemRandom);
    let public = next.registration().public_key;
    world.relay.script("PUT /nodes/key", Say::error(503, "away"));
    world.control.keys.set_next(next);
    world.control.link.introduce().await.unwrap_err();
    let before = world.keys.registration().public_key;
    assert_eq!(world.control.keys.current().registration().public_key, before, "until the relay answers");
    world.control.link.introduce().await.unwrap();
    let registered = world.relay.calls("PUT /nodes/key").pop().unwrap().body;
    assert_eq!((&registered["public_key"], &registered["rotate"]), (&json!(public), &json!(true)));
    assert_eq!(world.control.keys.current().registration().public_key, public);
    // Sealed before its sender knew of the new key.
    world.relay.deliver(CLOSE, [Remote::new().sealed("q1", &world.keys)]);
    world.delivered("q1").await;
    world.clock.advance(MINUTE);
    world.send(request("m1")).await;
    world.accepted("m1").await;
    assert_eq!(world.posted()[0]["sig"]["key"], public);
}

#[tokio::test]
async fn a_relay_that_refuses_new_keys_keeps_the_link() {
    let world = World::new().await;
    world.up().await;
    let next = redsyn_bridge::bridge::keys::NodeKeys::generate(&redsyn_bridge::domain::random::SystemRandom);
    world.relay.script("PUT /nodes/key", Say::error(409, "no rotation here"));
    world.control.keys.set_next(next);
    world.control.link.introduce().await.unwrap();
    assert!(world.control.keys.next().is_some(), "it is tried again");
    assert_eq!(world.control.keys.current().registration().public_key, world.keys.registration().public_key);
}

/// Whoever may do anything on this machine is somebody whose fingerprint a person has compared.
#[tokio::test]
async fn full_trust_waits_for_a_confirmed_key_however_it_became_known() {
    for accepted_first in [false, true] {
        let mut world = World::with("agents: {close: {hold: true, trust: full, allow: [org:globex]}}").await;
        let (other, eva) = (Remote::new(), Remote::new());
        world.relay.deliver(CLOSE, [other.sealed("q1", &world.keys)]);
        let why = world.held_in("q1").await;
        let fingerprint = other.keys.signing.verifying_key().fingerprint();
        assert!(why.contains("`trust: full`") && why.contains(&fingerprint), "{why}");
        let decisions = world.control.decisions.clone();
        if accepted_first {
            decisions.accept(bob(), None).await.unwrap();
            world.held_in("q1").await;
        }
        let unknown = decisions.confirm(bob(), eva.keys.signing.verifying_key().fingerprint()).await.unwrap();
        assert_eq!(unknown, Confirmation::Unknown(vec![fingerprint.clone()]));
        assert!(world.inbox_ids().await.is_empty());
        let confirmed = decisions.confirm(bob(), fingerprint.clone()).await.unwrap();
        let released = Released { inbound: 1, outbound: 0 };
        assert_eq!(confirmed, Confirmation::Confirmed { fingerprint, released });
        world.delivered("q1").await;
        assert_eq!(world.acked().await, ["q1"]);
        world.relay.deliver(CLOSE, [other.signed("q2", |_| ())]);
        world.delivered("q2").await;
    }
}
