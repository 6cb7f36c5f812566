//! Sealed whenever there is a key, never for the wrong one, and never in the open again.

use std::time::Duration;

use redsyn_bridge::crypto::seal::{Enc, open};
use redsyn_bridge::domain::delivery::Status;
use redsyn_bridge::proto::dsh::names::{DshId, Party};
use redsyn_bridge::proto::dsh::v1::envelope::{Kind, MessageType};
use serde_json::{Value, json};

use super::relay::{Relay, Say};
use super::world::{BOB, CLOSE, NOW, Remote, World, body_of, json_text, request, unsigned};

const EVA: &str = "globex/erp/eva/audit";

/// What Bob reads.
fn opened(bob: &Remote, envelope: &Value) -> Value {
    let enc = Enc::from_body(&envelope["body"]).unwrap();
    let id = envelope["id"].as_str().unwrap();
    serde_json::from_slice(&open(&bob.keys.enc, id, "request", &enc).unwrap()).unwrap()
}

#[tokio::test]
async fn what_has_a_key_is_sealed_and_says_nothing_outside() {
    let mut world = World::new().await;
    let bob = Remote::new();
    world.relay.set_key(BOB, &bob.keys);
    let mut message = request("m1");
    message.redsyn = Some(json!({"refs": [{"url": "https://git.example", "note": "secret"}]}));
    world.send(message).await;
    assert!(world.accepted("m1").await);
    let envelope = world.posted().remove(0);
    world.assert_signed(&envelope, NOW);
    assert_eq!(envelope["refs"], json!([]));
    assert!(!envelope.to_string().contains("what of m1?") && !envelope.to_string().contains("secret"));
    let content = opened(&bob, &envelope);
    assert_eq!(content["body"], json!({"type": "text/plain", "text": "what of m1?"}));
    assert_eq!(content["refs"], json!([{"url": "https://git.example", "note": "secret"}]));
    assert_eq!(content["reply_key"], world.keys.enc.enc_key().to_string());
}

#[tokio::test]
async fn another_key_than_the_pinned_one_stops_the_conversation_and_nothing_is_sent() {
    let mut world = World::new().await;
    world.relay.set_key(BOB, &Remote::new().keys);
    world.send(request("m1")).await;
    world.accepted("m1").await;
    world.relay.set_key(BOB, &Remote::new().keys);
    world.send(request("m2")).await;
    let why = world.held_out("m2").await;
    assert!(why.contains("globex/bob has another key"), "{why}");
    let line = world.status("m2").await;
    assert_eq!((line.status, line.stages.held), (Status::Queued, Some(NOW)));

    let mut world = world.restarted().await;
    world.send(request("m3")).await;
    world.held_out("m3").await;
    assert_eq!(world.posted().len(), 1);
    assert!(world.inbox().await.is_empty(), "held is not failed");
    // When its time is over, its sender is told, as of anything else.
    world.clock.advance(Duration::from_secs(86_400));
    assert_eq!(world.failed("m2").await, "expired");
    assert_eq!(world.posted().len(), 1);
}

#[tokio::test]
async fn a_key_that_its_signature_does_not_cover_is_not_used_nor_pinned() {
    let mut world = World::new().await;
    let (bob, mallory) = (Remote::new().keys.registration(), Remote::new().keys.registration());
    let slipped_in = json!({"node": "n", "signing_key": bob.public_key, "enc_key": mallory.enc_key,
                            "enc_sig": bob.enc_sig, "fingerprint": "f"});
    world.relay.set_key_answer(BOB, slipped_in);
    world.send(request("m1")).await;
    let why = world.held_out("m1").await;
    assert!(why.contains("does not hold"), "{why}");
    assert!(world.posted().is_empty());

    // No pin came of it: the real key is the first one.
    let bob = Remote::new();
    world.relay.set_key(BOB, &bob.keys);
    world.send(request("m2")).await;
    assert!(world.accepted("m2").await);
}

#[tokio::test]
async fn what_was_sealed_once_never_goes_in_the_open_again() {
    let mut world = World::new().await;
    let bob = Remote::new();
    world.relay.set_key(BOB, &bob.keys);
    world.send(request("m1")).await;
    assert!(world.accepted("m1").await);
    world.relay.drop_key(BOB);
    let mut world = world.restarted().await;
    world.send(request("m2")).await;
    let why = world.held_out("m2").await;
    assert!(why.contains("had a key and has none now"), "{why}");
    assert_eq!(world.posted().len(), 1);

    // A moment without a key passes: the message is judged again, and then goes sealed.
    world.relay.set_key(BOB, &bob.keys);
    world.clock.advance(Duration::from_secs(5 * 60));
    assert!(world.accepted("m2").await);
}

#[tokio::test]
async fn a_setting_is_no_way_down_either() {
    let mut world = World::new().await;
    world.relay.set_key(BOB, &Remote::new().keys);
    world.send(request("m1")).await;
    assert!(world.accepted("m1").await);
    let mut world =
        world.restarted_with("encrypt: never\nagents: {close: {hold: true, allow: [org:globex]}}").await;
    world.send(request("m2")).await;
    let why = world.held_out("m2").await;
    assert!(why.contains("redsyn.encrypt is `never` now"), "{why}");
    assert_eq!(world.posted().len(), 1);
}

#[tokio::test]
async fn require_fails_what_cannot_be_sealed() {
    let mut world = World::with("encrypt: require\nagents: {close: {hold: true, allow: [org:globex]}}").await;
    world.send(request("m1")).await;
    assert_eq!(world.failed("m1").await, "no_key");
    assert_eq!(body_of(&world.inbox().await[0])["code"], "no_key");
    assert!(world.posted().is_empty());
}

/// A relay gives the same answer for the key of an agent without one and of an agent that does not exist.
#[tokio::test]
async fn require_tells_a_missing_agent_from_a_missing_key() {
    let mut world = World::with("encrypt: require\nagents: {close: {hold: true, allow: [org:globex]}}").await;
    world.up().await;
    world.relay.script(&format!("GET /agents/{BOB}/key"), Say::error(404, "no such agent"));
    world.relay.script(&format!("GET /agents/{BOB}"), Say::error(404, "there is no agent billing"));
    world.send(request("m1")).await;
    assert_eq!(world.failed("m1").await, "no_such_agent");
    assert!(
        body_of(&world.inbox().await[0])["error"].as_str().unwrap().contains("there is no agent billing")
    );
}

#[tokio::test]
async fn never_asks_for_no_key() {
    let mut world = World::with("encrypt: never\nagents: {close: {hold: true, allow: [org:globex]}}").await;
    world.relay.set_key(BOB, &Remote::new().keys);
    world.send(request("m1")).await;
    assert!(!world.accepted("m1").await);
    assert!(world.relay.calls("GET /agents/").is_empty());
}

#[tokio::test]
async fn a_refusal_of_ours_waits_for_nobodys_key() {
    let script = |relay: &Relay| relay.set_key(BOB, &Remote::new().keys);
    let mut world = World::scripted("agents: {close: {hold: true, allow: [org:globex]}}", script).await;
    // Pinned by our message, then somebody signs with another key, badly.
    world.send(request("m1")).await;
    world.accepted("m1").await;
    world.relay.set_key(BOB, &Remote::new().keys);
    let mut bad = Remote::new().signed("q1", |_| ());
    bad["body"]["text"] = json!("tampered");
    world.relay.deliver(CLOSE, [bad]);
    world.refused("q1").await;
    let reply = world.posted_times(2).await.remove(1);
    assert_eq!((&reply["error"], &reply["body"]["type"]), (&json!(true), &json!("text/plain")));
}

#[tokio::test]
async fn a_local_error_is_content_and_waits_like_any_other() {
    let mut world = World::new().await;
    // Eva asks unsigned and in the open, so that no reply key comes with her request. Then she gets a key, and loses it.
    let mut plain = unsigned("q1");
    plain.insert("from".into(), json!("globex/erp/eva/audit#s2"));
    world.relay.deliver(CLOSE, [Value::Object(plain)]);
    world.delivered("q1").await;
    world.relay.set_key(EVA, &Remote::new().keys);
    let mut ask = request("m2");
    ask.to = Party::new(EVA);
    world.send(ask.clone()).await;
    assert!(world.accepted("m2").await);
    world.relay.drop_key(EVA);
    let mut receipt = ask;
    receipt.id = DshId::new("a1");
    receipt.message_type = MessageType::Ack;
    receipt.kind = Kind::Message;
    receipt.reply_to = Some(json_text(&json!("q1")));
    receipt.body = json_text(&json!({"status": "error", "error": "secret path"}));
    world.send(receipt).await;
    world.held_out("a1").await;
    assert!(world.posted().iter().all(|envelope| !envelope.to_string().contains("secret path")));
}
