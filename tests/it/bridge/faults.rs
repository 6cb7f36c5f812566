//! Faults of our own: a store that fails for a while, a task that dies, and what the log must not say.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redsyn_bridge::bridge::events::Event;
use serde_json::{Value, json};
use tracing_subscriber::EnvFilter;

use super::relay::Say;
use super::world::{BOB, CLOSE, Remote, World, json_text, request, settle, unsigned};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(61);
/// The two tasks of a node that always sleep (the outbound pump between looks, and the one that forgets), and one
/// that rests from a failure.
const ALL_AND_ONE: usize = 3;

#[tokio::test]
async fn mail_that_cannot_be_kept_is_not_acked_and_nothing_overtakes_it() {
    let mut world = World::new().await;
    world.relay.called("GET /inbox/", 1).await;
    world.execute("ALTER TABLE remotes RENAME TO gone").await;
    let [first, second, third] = ["q1", "q2", "q3"].map(|id| Value::Object(unsigned(id)));
    world.relay.deliver(CLOSE, [first.clone(), second.clone()]);
    world.event(|event| matches!(event, Event::Checked { .. }).then_some(())).await;
    world.asleep(ALL_AND_ONE).await;
    world.execute("ALTER TABLE gone RENAME TO remotes").await;
    world.clock.advance(SECOND);
    world.relay.called("GET /inbox/", 2).await;
    assert!(world.inbox().await.is_empty());
    // What was sent later is there while the first ones are still leased; another conversation waits for nobody.
    let mut other = unsigned("other");
    other.insert("thread".into(), json!("t2"));
    world.relay.deliver(CLOSE, [third.clone(), Value::Object(other)]);
    assert_eq!(world.acked().await, ["other"]);
    // After the lease.
    world.relay.deliver(CLOSE, [first, second, third]);
    assert_eq!(world.acked().await, ["q1", "q2", "q3"]);
    assert_eq!(world.inbox_ids().await, ["other", "q1", "q2", "q3"]);
}

#[tokio::test]
async fn an_outbox_that_cannot_be_read_for_a_while_is_read_again() {
    let mut world = World::new().await;
    world.send(request("m1")).await;
    world.accepted("m1").await;
    world.relay.script("POST /messages", Say::error(503, "away"));
    world.send(request("m2")).await;
    world.postponed("m2").await;
    world.execute("ALTER TABLE outbox RENAME TO gone").await;
    world.clock.advance(MINUTE);
    settle().await;
    world.execute("ALTER TABLE gone RENAME TO outbox").await;
    world.clock.advance(MINUTE);
    world.accepted("m2").await;
}

#[tokio::test]
async fn a_message_that_cannot_be_kept_is_refused_and_may_come_again() {
    let mut world = World::new().await;
    world.execute("ALTER TABLE outbox RENAME TO gone").await;
    assert_eq!(world.try_send(request("m1")).await.unwrap_err().status(), 503);
    world.execute("ALTER TABLE gone RENAME TO outbox").await;
    world.send(request("m1")).await;
    world.clock.advance(MINUTE);
    world.accepted("m1").await;
}

#[tokio::test]
async fn a_settlement_that_fails_sends_the_same_id_again() {
    let mut world = World::new().await;
    world.up().await;
    world.execute("CREATE TRIGGER stuck BEFORE DELETE ON outbox BEGIN SELECT RAISE(ABORT, 'no'); END").await;
    world.send(request("m1")).await;
    world.posted_times(1).await;
    world.asleep(ALL_AND_ONE).await;
    world.execute("DROP TRIGGER stuck").await;
    world.clock.advance(SECOND);
    world.accepted("m1").await;
    assert!(world.posted().iter().all(|envelope| envelope["id"] == "m1"));
}

#[tokio::test]
async fn a_task_that_dies_costs_its_message_a_minute_and_the_others_nothing() {
    let mut world = World::new().await;
    world.up().await;
    world.relay.script("POST /messages", Say::error(503, "away"));
    world.random.strike();
    world.send(request("m1")).await;
    world.posted_times(1).await;
    world.holds("SELECT 1 FROM outbox WHERE id = 'm1' AND attempts = 1").await;
    world.send(request("m2")).await;
    world.accepted("m2").await;
    world.clock.advance(MINUTE);
    world.accepted("m1").await;
    let order: Vec<Value> = world.posted().into_iter().map(|envelope| envelope["id"].clone()).collect();
    assert_eq!(order, ["m1", "m2", "m1"]);
}

/// Where the log lines go.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn the_log_says_what_happened_and_not_what_was_said() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new("redsyn_bridge=trace"))
        .with_writer(move || writer.clone())
        .finish();
    // For the whole process, since the store has a thread of its own; other tests only add lines.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    const BODY: &str = "xyzzy-body";

    let mut world = World::new().await;
    let bob = Remote::new();
    let plain = |id: &str| {
        let mut envelope = unsigned(id);
        envelope.insert("body".into(), json!({"type": "text/plain", "text": BODY}));
        envelope
    };
    let mut tampered = bob.signed("tampered", |_| ());
    tampered["body"]["text"] = json!(BODY);
    let mut wrong_enc = plain("wrong-enc");
    wrong_enc.insert("body".into(), json!({"type": "application/redsyn+encrypted", "enc": BODY}));
    let mut wrong_kind = plain("wrong-kind");
    wrong_kind.insert("kind".into(), json!(BODY));
    let sealed = bob.sealed("sealed", &world.keys);
    let items = [
        Value::Object(plain("plain")),
        tampered,
        Value::Object(wrong_enc),
        Value::Object(wrong_kind),
        json!(BODY),
        sealed,
        Value::Object(plain("held")),
    ];
    world.relay.deliver(CLOSE, items);
    world.held_in("held").await;
    // The answer to what was tampered with.
    world.posted_times(1).await;
    world.relay.set_key(BOB, &bob.keys);
    for (id, say) in [
        ("refused", Say::error(422, "no")),
        ("postponed", Say::Json(201, json!(BODY))),
        ("postponed-2", Say::Json(201, json!({"thread": {"x": BODY}}))),
        ("accepted", Say::Json(201, json!({}))),
    ] {
        let mut message = request(id);
        message.body = json_text(&json!({"text": BODY}));
        world.relay.script("POST /messages", say);
        world.send(message).await;
        match id {
            "refused" => drop(world.failed(id).await),
            "accepted" => drop(world.accepted(id).await),
            _ => drop(world.postponed(id).await),
        }
    }

    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let signing = world.keys.signing.to_text();
    for secret in [BODY, "the-token", signing.as_str(), "\"sig\""] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    for event in
        ["inbound_delivered", "inbound_refused", "inbound_held", "outbound_accepted", "outbound_failed"]
    {
        assert!(text.contains(event), "{event}: {text}");
    }
}
