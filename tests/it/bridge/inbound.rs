//! Mail on its way in: checked, kept, and only then acked; answered with an error when it cannot be kept.

use std::time::Duration;

use redsyn_bridge::broker::carrier::Carrier;
use redsyn_bridge::crypto::seal::{Enc, open};
use redsyn_bridge::domain::clock::Timestamp;
use redsyn_bridge::domain::delivery::Status;
use redsyn_bridge::proto::dsh::v1::envelope::Kind;
use serde_json::{Value, json};

use super::relay::{HANG, Say};
use super::world::{
    BOB, CLOSE, NOW, Remote, World, answer, body_of, close, relay_notice, request, settle, text_of, unsigned,
};

const TAKE: &str = "GET /inbox/acme/finance/ana/close";
const ACK: &str = "POST /inbox/acme/finance/ana/close/ack";
/// The two tasks of a node that always sleep (the outbound pump between looks, and the one that forgets), and one that
/// waits for its next try.
const ALL_AND_ONE: usize = 3;

/// The error reply that goes back for `id`.
async fn error_reply(world: &World, id: &str) -> Value {
    let reply = world.posted_times(1).await.remove(0);
    assert_eq!(
        (&reply["kind"], &reply["error"], &reply["reply_to"]),
        (&json!("reply"), &json!(true), &json!(id))
    );
    reply
}

#[tokio::test]
async fn a_signed_and_sealed_request_is_delivered_and_acked_after_the_commit() {
    let mut world = World::new().await;
    let bob = Remote::new();
    world.relay.deliver(CLOSE, [bob.sealed("q1", &world.keys)]);
    world.delivered("q1").await;
    assert_eq!(world.acked().await, ["q1"]);

    let world = world.restarted().await;
    let inbox = world.inbox().await;
    let [message] = inbox.as_slice() else { panic!("{inbox:?}") };
    assert_eq!((message.id.as_str(), message.from.as_str(), message.kind), ("q1", "bob", Kind::Request));
    assert_eq!(body_of(message), json!({"text": "q1"}));
    assert_eq!(text_of(&message.root_id).as_deref(), Some("t1"));
    assert_eq!(message.expires_at, Some(Timestamp::from_secs(NOW.secs() + 3600)));
    let metadata = message.redsyn.clone().unwrap();
    assert_eq!(
        metadata,
        json!({
            "address": format!("{BOB}#s9"), "kind": "request", "thread": "t1", "session": "s4", "ts": NOW.secs(),
            "expires": NOW.secs() + 3600, "attempts": 1, "topic": null,
            "refs": [{"url": "https://sealed.example"}], "files": null, "error": false, "signed": true,
            "verified": true, "encrypted": true, "fingerprint": bob.keys.signing.verifying_key().fingerprint(),
        })
    );
    let take = world.relay.calls(TAKE).remove(0);
    assert!(take.query.contains("lease=900"), "{}", take.query);
}

#[tokio::test]
async fn the_answer_to_a_sealed_request_is_sealed_for_its_reply_key() {
    let mut world = World::new().await;
    let bob = Remote::new();
    world.relay.deliver(CLOSE, [bob.sealed("q1", &world.keys)]);
    world.delivered("q1").await;
    world.send(answer("r1", "q1", Kind::Reply)).await;
    assert!(world.accepted("r1").await);
    let envelope = world.posted().remove(0);
    let enc = Enc::from_body(&envelope["body"]).unwrap();
    let opened = open(&bob.keys.enc, "r1", "reply", &enc).unwrap();
    let content: Value = serde_json::from_slice(&opened).unwrap();
    assert_eq!(content["body"], json!({"type": "text/plain", "text": "what of r1?"}));
    assert!(world.relay.calls("GET /agents/").is_empty(), "the relay is not asked for a key");
}

#[tokio::test]
async fn mail_and_notices_ring_the_agent_that_waits_for_them() {
    let mut world = World::new().await;
    let waiting = world.wakeups.subscribe(close());
    for failure in [false, true] {
        let woken = waiting.woken();
        tokio::pin!(woken);
        woken.as_mut().enable();
        if failure {
            world.relay.script("POST /messages", Say::error(403, "no"));
            world.send(request("m1")).await;
            world.failed("m1").await;
        } else {
            world.relay.deliver(CLOSE, [Value::Object(unsigned("q1"))]);
            world.delivered("q1").await;
        }
        tokio::time::timeout(HANG, woken).await.unwrap();
        assert!(!world.inbox().await.is_empty(), "what rings is there already");
    }
}

#[tokio::test]
async fn what_comes_again_is_acked_again_and_nothing_else() {
    let mut world = World::new().await;
    let bob = Remote::new();
    let envelope = bob.sealed("q1", &world.keys);
    world.relay.deliver(CLOSE, [envelope.clone()]);
    world.acked().await;
    world.relay.deliver(CLOSE, [envelope.clone(), envelope.clone()]);
    assert_eq!(world.acked().await, ["q1", "q1"]);
    let mut world = world.restarted().await;
    world.relay.deliver(CLOSE, [envelope]);
    assert_eq!(world.acked().await, ["q1"]);
    assert_eq!(world.inbox_ids().await, ["q1"]);
    assert!(world.posted().is_empty());
}

#[tokio::test]
async fn an_ack_that_is_lost_comes_with_the_next_delivery() {
    for lost in [Say::HangUp, Say::ObeyAndHangUp, Say::error(500, "away"), Say::Text(200, "<html>".into())] {
        let mut world = World::new().await;
        let envelope = Remote::new().sealed("q1", &world.keys);
        world.relay.script(ACK, lost);
        world.relay.deliver(CLOSE, [envelope.clone()]);
        world.delivered("q1").await;
        world.relay.called(ACK, 1).await;
        world.relay.deliver(CLOSE, [envelope]);
        assert_eq!(world.acked().await, ["q1"]);
        assert_eq!(world.inbox_ids().await, ["q1"]);
    }
}

#[tokio::test]
async fn an_ack_that_fails_is_tried_again_while_the_lease_lasts() {
    let mut world = World::new().await;
    for lost in [Say::HangUp, Say::ObeyAndHangUp, Say::error(503, "away"), Say::Text(200, "<html>".into())] {
        world.relay.script(ACK, lost);
    }
    world.relay.script(ACK, Say::Limited(429, json!({"error": "later", "status": 429}), "70"));
    world.relay.deliver(CLOSE, [Value::Object(unsigned("q1"))]);
    for calls in 1..=4 {
        world.relay.called(ACK, calls).await;
        world.asleep(ALL_AND_ONE).await;
        world.clock.advance(Duration::from_secs(60));
    }
    world.relay.called(ACK, 5).await;
    world.asleep(ALL_AND_ONE).await;
    world.clock.advance(Duration::from_secs(60));
    // What is asked for is the least; what comes meanwhile does not wait for it.
    settle().await;
    assert_eq!(world.relay.calls(ACK).len(), 5);
    world.relay.deliver(CLOSE, [Value::Object(unsigned("q2"))]);
    assert_eq!(world.acked().await, ["q1", "q2"]);
    assert_eq!(world.inbox_ids().await, ["q1", "q2"]);
}

#[tokio::test]
async fn what_is_owed_is_forgotten_when_the_relay_delivers_again_and_when_it_refuses() {
    let mut world = World::new().await;
    world.relay.script(ACK, Say::Limited(503, json!({"error": "later", "status": 503}), "900"));
    world.relay.script(ACK, Say::error(403, "not yours"));
    world.relay.deliver(CLOSE, [Value::Object(unsigned("q1"))]);
    world.relay.called(ACK, 1).await;
    world.relay.deliver(CLOSE, [Value::Object(unsigned("q2"))]);
    assert_eq!(world.relay.called(ACK, 2).await[1].body, json!({"ids": ["q2"]}));
    world.relay.deliver(CLOSE, [Value::Object(unsigned("q3"))]);
    assert_eq!(world.acked().await, ["q3"]);
}

#[tokio::test]
async fn what_is_owed_for_an_agent_that_has_left_is_acked_all_the_same() {
    let mut world = World::with("agents: {close: {allow: [org:globex]}}").await;
    world.up().await;
    for items in [json!([unsigned("q1")]), json!([])] {
        world.relay.script(TAKE, Say::Json(200, json!({"items": items})));
    }
    world.relay.script(ACK, Say::Limited(503, json!({"error": "later", "status": 503}), "100"));
    world.carrier.touched(&close()).await;
    // After a held call that came back at once, it rests for a second.
    world.relay.called(TAKE, 2).await;
    for seconds in [91, 10] {
        world.asleep(ALL_AND_ONE).await;
        world.clock.advance(Duration::from_secs(seconds));
    }
    assert_eq!(world.acked().await, ["q1"]);
    assert_eq!(world.relay.calls(TAKE).len(), 2);
}

#[tokio::test]
async fn what_was_delivered_is_acked_again_even_if_it_would_be_held_today() {
    let mut world = World::new().await;
    let plain = Value::Object(unsigned("q1"));
    world.relay.deliver(CLOSE, [plain.clone()]);
    world.acked().await;
    world.relay.deliver(CLOSE, [Remote::new().signed("q2", |_| ())]);
    world.acked().await;
    world.relay.deliver(CLOSE, [plain]);
    assert_eq!(world.acked().await, ["q1"]);
}

#[tokio::test]
async fn a_signature_that_does_not_hold_is_answered_and_never_delivered() {
    let bob = Remote::new();
    let mut bad_value = bob.signed("q1", |_| ());
    bad_value["sig"]["value"] = bob.signed("q2", |_| ())["sig"]["value"].clone();
    let mut tampered = bob.signed("q1", |_| ());
    tampered["body"]["text"] = json!("pay 9000");
    let mut redirected = bob.signed("q1", |_| ());
    redirected["from"] = json!("globex/erp/eva/audit#s9");
    let mut rethreaded = bob.signed("q1", |_| ());
    rethreaded["thread"] = json!("t2");
    let mut no_payload = bob.signed("q1", |_| ());
    no_payload["sig"]["payload"] = Value::Null;
    let mut garbage = bob.signed("q1", |_| ());
    garbage["sig"] = json!("yes");
    for envelope in [bad_value, tampered, redirected, rethreaded, no_payload, garbage] {
        let mut world = World::new().await;
        world.relay.deliver(CLOSE, [envelope.clone()]);
        let why = world.refused("q1").await;
        assert!(why.starts_with("the signature does not hold"), "{why}");
        assert_eq!(world.acked().await, ["q1"]);
        let reply = error_reply(&world, "q1").await;
        world.assert_signed(&reply, NOW);
        assert_eq!((&reply["from"], &reply["thread"]), (&json!(format!("{CLOSE}#s4")), &envelope["thread"]));
        // The relay insists: it is acked once more, and that is all.
        world.relay.deliver(CLOSE, [envelope]);
        assert_eq!(world.acked().await, ["q1"]);
        assert!(world.inbox().await.is_empty());
        assert_eq!(world.posted().len(), 1);
    }
}

#[tokio::test]
async fn what_was_sealed_for_another_key_is_answered() {
    let mut world = World::new().await;
    let bob = Remote::new();
    let mut other_id = bob.sealed("q2", &world.keys)["body"].clone();
    other_id["enc"]["v"] = json!(1);
    let moved = bob.signed("q1", |envelope| {
        envelope.insert("body".into(), other_id);
    });
    world.relay.deliver(CLOSE, [bob.sealed("q0", &Remote::new().keys), moved]);
    for id in ["q0", "q1"] {
        let why = world.refused(id).await;
        assert!(why.starts_with("cannot decrypt"), "{why}");
    }
    assert_eq!(world.acked().await, ["q0", "q1"]);
    let reply = world.posted_times(1).await.remove(0);
    assert!(reply["body"]["text"].as_str().unwrap().starts_with("cannot decrypt"), "{reply}");
    assert!(world.inbox().await.is_empty());
}

#[tokio::test]
async fn a_signature_from_another_time_is_refused() {
    let mut world = World::new().await;
    let bob = Remote::new();
    let at = |id: &str, secs: i64| {
        bob.signed(id, |envelope| {
            envelope.insert("ts".into(), json!(NOW.secs() + secs));
        })
    };
    world.relay.deliver(CLOSE, [at("future", 601), at("ancient", -30 * 86_400), at("old", -86_400)]);
    for id in ["future", "ancient"] {
        assert!(world.refused(id).await.contains("older than any message"), "{id}");
    }
    world.delivered("old").await;
}

#[tokio::test]
async fn times_are_measured_by_the_relays_clock() {
    let mut world =
        World::scripted("agents: {close: {hold: true, allow: [org:globex]}}", |relay| relay.skew(6 * 3600))
            .await;
    world.up().await;
    let later = NOW.secs() + 6 * 3600;
    let envelope = Remote::new().signed("q1", |envelope| {
        envelope.insert("ts".into(), json!(later));
        envelope.insert("expires".into(), json!(later + 60));
    });
    world.relay.deliver(CLOSE, [envelope]);
    world.delivered("q1").await;
    let expires_at = world.inbox().await[0].expires_at.unwrap();
    assert_eq!(expires_at.secs(), NOW.secs() + 60, "a minute from now, by our clock");
}

#[tokio::test]
async fn a_notice_of_the_relay_ends_the_request_unverified() {
    let mut world = World::new().await;
    // Bob has a pinned key: what he himself says unsigned would be held.
    world.relay.deliver(CLOSE, [Remote::new().signed("q1", |_| ())]);
    world.acked().await;
    world.send(request("m1")).await;
    world.accepted("m1").await;
    world.relay.deliver(CLOSE, [relay_notice("n1", "m1")]);
    world.delivered("n1").await;
    assert_eq!(world.acked().await, ["n1"]);
    let message = world.inbox().await.remove(1);
    assert_eq!(text_of(&message.parent_id).as_deref(), Some("m1"));
    let metadata = message.redsyn.unwrap();
    assert_eq!((&metadata["verified"], &metadata["error"]), (&json!(false), &json!(true)));
    world.assert_status("m1", Status::Failed).await;
}

#[tokio::test]
async fn a_reply_that_nobody_asked_for_is_acked_and_dropped() {
    let mut world = World::new().await;
    let bob = Remote::new();
    let reply = |id: &str, to: &str| {
        bob.signed(id, |envelope| {
            envelope.insert("kind".into(), json!("reply"));
            envelope.insert("reply_to".into(), json!(to));
        })
    };
    world.send(request("m1")).await;
    world.accepted("m1").await;
    world.relay.deliver(CLOSE, [reply("r0", "never asked"), reply("r1", "m1"), reply("r2", "m1")]);
    assert_eq!(world.acked().await, ["r0", "r1", "r2"]);
    assert_eq!(world.inbox_ids().await, ["r1"]);
    world.assert_status("m1", Status::Done).await;
    assert_eq!(world.posted().len(), 1, "no errors go back for answers");
}

#[tokio::test]
async fn an_answer_need_not_say_whom_it_is_for() {
    for to in [Value::Null, json!(""), json!(CLOSE)] {
        let mut world = World::new().await;
        world.send(request("m1")).await;
        world.accepted("m1").await;
        let progress = Remote::new().signed("p1", |envelope| {
            envelope.insert("kind".into(), json!("progress"));
            envelope.insert("reply_to".into(), json!("m1"));
            envelope.insert("to".into(), to.clone());
        });
        world.relay.deliver(CLOSE, [progress]);
        world.delivered("p1").await;
        world.assert_status("m1", Status::Leased).await;
        assert_eq!(world.inbox().await[0].kind, Kind::Message);
    }
}

#[tokio::test]
async fn mail_for_somebody_else_is_not_delivered() {
    let mut world = World::new().await;
    let other = Remote::new().signed("q1", |envelope| {
        envelope.insert("to".into(), json!("acme/finance/ana/shout#s1"));
    });
    world.relay.deliver(CLOSE, [other]);
    assert_eq!(world.refused("q1").await, "it is addressed to somebody else");
    assert!(world.inbox().await.is_empty());
}

#[tokio::test]
async fn a_malformed_item_does_not_stop_the_others() {
    let mut world = World::new().await;
    let nested = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let mut no_body = unsigned("q0");
    no_body.remove("body");
    let mut deep = unsigned("deep");
    deep.insert("body".into(), json!({"type": "application/json", "data": nested}));
    world.relay.deliver(
        CLOSE,
        [json!("text"), json!(null), Value::Object(no_body), json!({"v": 2}), Value::Object(deep)],
    );
    world.relay.deliver(CLOSE, [Value::Object(unsigned("q1"))]);
    assert_eq!(world.acked().await, ["deep", "q1"], "the others come again, until the relay gives them up");
    assert_eq!(world.inbox_ids().await, ["deep", "q1"]);
}

#[tokio::test]
async fn one_conversation_does_not_wait_for_another() {
    let mut world = World::new().await;
    let bob = Remote::new();
    let slow = bob.signed("q1", |envelope| {
        envelope.insert("files".into(), json!({"bytes": 2, "sha256": "0".repeat(64)}));
    });
    let other = bob.signed("q2", |envelope| drop(envelope.insert("thread".into(), json!("q2"))));
    world.relay.script("GET /messages/q1/files", Say::Nothing);
    world.relay.deliver(CLOSE, [slow, other]);
    world.delivered("q2").await;
    assert_eq!(world.inbox_ids().await, ["q2"]);
}

#[tokio::test]
async fn an_item_that_is_no_readable_json_does_not_stop_the_others() {
    // Half an emoji, a number beyond every double, and a nesting without end.
    let items = [
        r#"{"v": 1, "id": "q0", "body": {"type": "text/plain", "text": "\ud83e"}}"#.to_owned(),
        r#"{"v": 1, "id": "q0", "body": {"type": "application/json", "data": 1e999}}"#.to_owned(),
        format!(r#"{{"v": 1, "id": "q0", "body": {}1{}}}"#, "[".repeat(5000), "]".repeat(5000)),
        Value::Object(unsigned("q1")).to_string(),
    ];
    let text = format!(r#"{{"items": [{}]}}"#, items.join(","));
    let mut world = World::scripted("agents: {close: {hold: true, allow: [org:globex]}}", |relay| {
        relay.script(TAKE, Say::Text(200, text));
    })
    .await;
    assert_eq!(world.acked().await, ["q1"]);
    assert_eq!(world.inbox_ids().await, ["q1"]);
}

#[tokio::test]
async fn an_id_that_is_ours_does_not_cost_the_message() {
    let mut world = World::new().await;
    world.send(request("same")).await;
    world.accepted("same").await;
    world.relay.deliver(CLOSE, [Value::Object(unsigned("same"))]);
    world.delivered("same").await;
    let message = world.inbox().await.remove(0);
    assert_ne!(message.id.as_str(), "same");
    world.send(answer("r1", message.id.as_str(), Kind::Reply)).await;
    world.accepted("r1").await;
    assert_eq!(world.posted()[1]["reply_to"], "same");
}

#[tokio::test]
async fn a_take_that_fails_is_tried_again() {
    let mut world = World::scripted("agents: {close: {hold: true, allow: [org:globex]}}", |relay| {
        relay.script(TAKE, Say::HangUp);
        relay.script(TAKE, Say::Text(200, "{".into()));
        relay.script(TAKE, Say::error(404, "there is no agent close"));
    })
    .await;
    world.relay.deliver(CLOSE, [Value::Object(unsigned("q1"))]);
    for times in 1..=3 {
        world.relay.called(TAKE, times).await;
        let sleeping = async {
            // The pump sleeps once it has dealt with the failure; how soon is the machine's business.
            while world.relay.calls(TAKE).len() == times {
                tokio::task::yield_now().await;
                world.clock.advance(Duration::from_secs(61));
            }
        };
        tokio::time::timeout(HANG, sleeping).await.unwrap();
    }
    world.delivered("q1").await;
    assert_eq!(world.relay.calls("PUT /nodes/key").len(), 2, "introduced again after the 404");
}

#[tokio::test]
async fn a_relay_that_does_not_hold_calls_is_not_asked_without_pause() {
    let empty = json!({"items": []});
    let world = World::scripted("agents: {close: {hold: true, allow: [org:globex]}}", |relay| {
        (0..50).for_each(|_| relay.script(TAKE, Say::Json(200, empty.clone())));
    })
    .await;
    for times in 1..5 {
        world.relay.called(TAKE, times).await;
        settle().await;
        assert_eq!(world.relay.calls(TAKE).len(), times);
        world.clock.advance(Duration::from_secs(1));
    }
}
