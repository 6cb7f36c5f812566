//! The files of inbound mail: fetched before the ack, checked, and nobody else's business.

use redsyn_bridge::crypto::base64url::zip_encode;
use redsyn_bridge::crypto::sha256;
use serde_json::{Value, json};

use super::relay::Say;
use super::world::{CLOSE, Remote, World, unsigned};

const ZIP: &[u8] = b"PK-bytes";

/// A request of Bob with files, in a thread of its own.
fn with_files(id: &str) -> Value {
    Remote::new().signed(id, |envelope| {
        envelope.insert("thread".into(), json!("with files"));
        envelope.insert("files".into(), json!({"bytes": ZIP.len(), "sha256": sha256::hex(ZIP)}));
    })
}

fn zip(bytes: &[u8]) -> Say {
    Say::Json(200, json!({"zip": zip_encode(bytes)}))
}

#[tokio::test]
async fn files_are_fetched_before_the_ack() {
    let mut world = World::new().await;
    world.relay.script("GET /messages/q1/files", zip(ZIP));
    world.relay.deliver(CLOSE, [with_files("q1")]);
    assert_eq!(world.acked().await, ["q1"]);
    let calls = world.relay.summary();
    let at = |what: &str| calls.iter().position(|call| call.starts_with(what)).unwrap();
    assert!(at("GET /messages/q1/files") < at("POST /inbox/"), "{calls:?}");
    assert_eq!(world.inbox().await[0].redsyn.as_ref().unwrap()["files"]["bytes"], ZIP.len());
}

#[tokio::test]
async fn files_that_do_not_come_hold_up_their_conversation_and_no_other() {
    let mut world = World::new().await;
    world.relay.script("GET /messages/q1/files", Say::error(503, "away"));
    let mut follows = unsigned("q2");
    follows.insert("thread".into(), json!("with files"));
    let mail = [with_files("q1"), Value::Object(follows), Value::Object(unsigned("q3"))];
    world.relay.deliver(CLOSE, mail.clone());
    assert_eq!(world.acked().await, ["q3"]);
    assert_eq!(world.inbox_ids().await, ["q3"]);

    // After the lease.
    world.relay.script("GET /messages/q1/files", zip(ZIP));
    let [first, ..] = mail;
    world.relay.deliver(CLOSE, [first]);
    assert_eq!(world.acked().await, ["q1"]);
}

#[tokio::test]
async fn files_that_are_gone_or_others_are_refused() {
    for (say, why) in [
        (Say::error(404, "deleted"), "its files are gone from the relay"),
        (zip(b"other bytes"), "its files are not the ones that were sent"),
    ] {
        let mut world = World::new().await;
        world.relay.script("GET /messages/q1/files", say);
        world.relay.deliver(CLOSE, [with_files("q1")]);
        assert_eq!(world.refused("q1").await, why);
        assert_eq!(world.acked().await, ["q1"]);
        assert_eq!(world.posted_times(1).await[0]["body"]["text"], why);
        assert!(world.inbox().await.is_empty());
    }
}

#[tokio::test]
async fn an_id_of_any_letters_finds_its_files() {
    let mut world = World::new().await;
    let odd = "ñ /?#%2F";
    world.relay.script("GET /messages/%C3%B1%20%2F%3F%23%252F/files", zip(ZIP));
    world.relay.deliver(CLOSE, [with_files(odd)]);
    assert_eq!(world.acked().await, [odd]);
    assert_eq!(world.inbox_ids().await, [odd]);
}
