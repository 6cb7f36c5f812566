//! The second generation of the local protocol across the bridge: each agent has its inbound mail in one generation,
//! and what it asks for, is answered, or is told of, comes in its own words.

use redsyn_bridge::broker::carrier::{Carrier, Route, Taker};
use redsyn_bridge::crypto::base64url::{zip_decode, zip_encode};
use redsyn_bridge::crypto::sha256;
use redsyn_bridge::domain::clock::Timestamp;
use redsyn_bridge::domain::random::SystemRandom;
use redsyn_bridge::domain::v2::delivery::Status;
use redsyn_bridge::proto::dsh::names::DshId;
use redsyn_bridge::proto::dsh::v2::message::{Kind, Mode};
use redsyn_bridge::proto::dsh::v2::name::Name;
use redsyn_bridge::proto::dsh::v2::request::Outcome;
use redsyn_bridge::store::sqlite::v2::V2Store;
use redsyn_bridge::store::v2::{Ack, NewMessage, Pull, Query, Rules, StoredMessage};
use serde_json::{Value, json};

use super::relay::Say;
use super::world::{BOB, CLOSE, NOW, Remote, World, close, now, unsigned};
use crate::support::zips::zip_of;

const RULES: Rules = Rules { max_attempts: 3, notify: true };

fn name(text: &str) -> Name {
    Name::of(text)
}

fn store(world: &World) -> V2Store {
    V2Store::new(world.local.db().clone(), SystemRandom::shared())
}

fn after(secs: u64) -> Timestamp {
    NOW.plus(std::time::Duration::from_secs(secs))
}

/// A request of `close` to the contact `bob`.
pub fn request(id: &str) -> NewMessage {
    NewMessage {
        id: DshId::new(id),
        root_id: format!("root of {id}"),
        parent_id: None,
        origin: name("close"),
        target: name("bob"),
        kind: Kind::Request,
        body: format!("what of {id}?"),
        session_ref: String::new(),
        mode: Mode::Read,
        context: String::new(),
        topic: String::new(),
        allow_shared_write: false,
        idempotency_key: id.into(),
        created_at: NOW,
        expires_at: after(3600),
    }
}

/// What `close` answers.
fn reply(id: &str, parent: &StoredMessage) -> NewMessage {
    let answered = parent.message.clone();
    NewMessage {
        id: DshId::new(id),
        parent_id: Some(answered.id.to_string()),
        origin: answered.target.clone(),
        target: answered.origin.clone(),
        kind: Kind::Reply,
        body: "Yes.".into(),
        idempotency_key: id.into(),
        ..answered
    }
}

async fn takes_v2(world: &World) {
    world.carrier.takes(Taker::V2(&name("close"))).await;
}

async fn pull(world: &World) -> Vec<StoredMessage> {
    let now = now(&world.clock);
    let until = now.plus(std::time::Duration::from_secs(600));
    let pull = Pull { agent: name("close"), limit: 8, now, until, rules: RULES };
    store(world).pull(pull, |_| ()).await.unwrap().messages
}

async fn inbox(world: &World) -> Vec<StoredMessage> {
    let all = Query::all(name("close"), Timestamp::from_millis(0), 100);
    let mut found = store(world).query(all).await.unwrap();
    found.retain(|stored| stored.inbox.is_some());
    found.reverse();
    found
}

async fn status(world: &World, id: &str) -> StoredMessage {
    store(world).lookup(DshId::new(id)).await.unwrap().unwrap()
}

/// A reference in which a bridge sends what REDSYN has no field for.
fn extras(fields: &Value) -> Value {
    json!([{"url": "urn:dsh-agent-relay:envelope:1", "note": fields.to_string()}])
}

#[tokio::test]
async fn a_request_leaves_and_its_reply_comes_back_in_the_same_words() {
    let mut world = World::new().await;
    takes_v2(&world).await;
    assert_eq!(world.carrier.route_v2(&name("close"), &name("bob")), Route::Away);
    let asked = NewMessage { context: "the close".into(), mode: Mode::Continue, ..request("m1") };
    assert!(!world.carrier.send_v2(asked.clone(), None).await.unwrap().duplicate);
    world.accepted("m1").await;
    let again = NewMessage { id: DshId::new("m2"), ..asked };
    let again = world.carrier.send_v2(again, None).await.unwrap();
    assert_eq!((again.id.as_str(), again.duplicate), ("m1", true), "one key, one message");
    let envelope = world.posted_times(1).await.remove(0);
    assert_eq!(envelope["kind"], "request");
    assert_eq!(envelope["body"], json!({"type": "text/plain", "text": "what of m1?"}));
    assert_eq!(envelope["refs"], extras(&json!({"context": "the close", "execution_mode": "continue"})));
    assert_eq!(envelope["ttl"], 3600);
    let stored = status(&world, "m1").await;
    assert_eq!((stored.delivery.status(), stored.stages.accepted), (Status::Leased, Some(NOW)));

    let answer = Remote::new().signed("r1", |envelope| {
        envelope.insert("kind".into(), json!("reply"));
        envelope.insert("reply_to".into(), json!("m1"));
    });
    world.relay.deliver(CLOSE, [answer]);
    world.delivered("r1").await;
    let taken = pull(&world).await.remove(0);
    let message = &taken.message;
    assert_eq!(
        (message.kind, message.parent_id.as_deref(), message.body.as_str()),
        (Kind::Reply, Some("m1"), "r1")
    );
    assert_eq!((message.origin.as_str(), message.target.as_str()), ("bob", "close"));
    assert_eq!(taken.redsyn.as_ref().unwrap()["verified"], true);
    let stored = status(&world, "m1").await;
    assert_eq!((stored.delivery.status(), stored.stages.answered), (Status::Completed, Some(NOW)));
    assert_eq!(stored.stages.leased, Some(NOW), "whoever answers has taken it");
    assert!(world.inbox().await.is_empty(), "nothing in the other generation");
}

#[tokio::test]
async fn an_inbound_request_is_answered_once_and_what_follows_is_a_request() {
    let mut world = World::new().await;
    takes_v2(&world).await;
    world.relay.deliver(CLOSE, [Remote::new().signed("q1", |_| ())]);
    world.delivered("q1").await;
    let taken = pull(&world).await.remove(0);
    assert_eq!((taken.message.kind, taken.message.root_id.as_str()), (Kind::Request, "t1"));
    for id in ["r1", "r2"] {
        world.carrier.send_v2(reply(id, &taken), None).await.unwrap();
        world.accepted(id).await;
    }
    let posted = world.posted_times(2).await;
    assert_eq!((&posted[0]["kind"], &posted[0]["reply_to"]), (&json!("reply"), &json!("q1")));
    assert_eq!((&posted[1]["kind"], &posted[1]["thread"]), (&json!("request"), &json!("t1")));
    assert_eq!(status(&world, "q1").await.stages.answered, Some(NOW));
    assert_eq!(status(&world, "r1").await.delivery.status(), Status::Completed);
}

#[tokio::test]
async fn what_was_held_says_since_when() {
    let mut world = World::new().await;
    takes_v2(&world).await;
    world.relay.deliver(CLOSE, [Remote::new().signed("q1", |_| ())]);
    world.delivered("q1").await;
    world.relay.deliver(CLOSE, [Remote::new().signed("q2", |_| ())]);
    world.held_in("q2").await;
    world.control.decisions.accept("globex/bob".parse().unwrap(), None).await.unwrap();
    world.delivered("q2").await;
    assert_eq!(status(&world, "q2").await.stages.held, Some(NOW));
    assert_eq!(status(&world, "q1").await.stages.held, None);
}

#[tokio::test]
async fn from_outside_nobody_does_more_than_read_unless_granted_and_confirmed() {
    let more = "agents: {close: {hold: true, allow: [org:globex], grant: {write: [globex/erp/*/billing]}}}";
    let mut world = World::with(more).await;
    takes_v2(&world).await;
    let wish = extras(&json!({"execution_mode": "write", "allow_shared_write": true, "session_ref": "s"}));
    let remote = Remote::new();
    let ask = |id: &str| {
        remote.signed(id, |envelope| {
            envelope.insert("refs".into(), wish.clone());
        })
    };
    world.relay.deliver(CLOSE, [ask("q1")]);
    world.delivered("q1").await;
    // A person confirms the fingerprint.
    world.execute("UPDATE pins SET verified = 1").await;
    world.relay.deliver(CLOSE, [ask("q2")]);
    world.delivered("q2").await;
    let modes: Vec<_> = pull(&world)
        .await
        .into_iter()
        .map(|stored| (stored.message.mode, stored.message.allow_shared_write, stored.message.session_ref))
        .collect();
    assert_eq!(modes, [(Mode::Read, false, "s".to_owned()), (Mode::Write, true, "s".to_owned())]);
}

#[tokio::test]
async fn mail_goes_over_with_its_agent_and_is_never_in_both_generations() {
    let mut world = World::new().await;
    let zip = zip_of(&[("a.txt", b"one")]);
    let with_files = Remote::new().signed("q1", |envelope| {
        envelope.insert("files".into(), json!({"bytes": zip.len(), "sha256": sha256::hex(&zip)}));
    });
    world.relay.script("GET /messages/q1/files", Say::Json(200, json!({"zip": zip_encode(&zip)})));
    world.relay.deliver(CLOSE, [with_files]);
    world.delivered("q1").await;
    let before = world.inbox().await;
    takes_v2(&world).await;
    assert!(world.inbox().await.is_empty());
    assert_eq!(inbox(&world).await.len(), 1);
    let files = |world: &World| {
        let carrier = std::sync::Arc::clone(&world.carrier);
        async move { carrier.parcels().unwrap().files(close(), DshId::new("q1")).await.unwrap() }
    };
    assert_eq!(files(&world).await, zip);

    let mut world = world.restarted().await;
    world.relay.deliver(CLOSE, [Value::Object(unsigned("q2"))]);
    // Sent unsigned by somebody with a pin: held, and in neither.
    world.held_in("q2").await;
    world.carrier.takes(Taker::V1(&close())).await;
    assert!(inbox(&world).await.is_empty());
    assert_eq!(world.inbox().await, before, "as it was");
    assert_eq!(files(&world).await, zip);

    takes_v2(&world).await;
    let taken = pull(&world).await.remove(0);
    world.carrier.takes(Taker::V1(&close())).await;
    assert!(world.inbox().await.is_empty(), "what was taken stays where it was taken");
    world.carrier.send_v2(reply("r1", &taken), None).await.unwrap();
    world.accepted("r1").await;
    assert_eq!(world.posted_times(1).await[0]["reply_to"], "q1");
}

#[tokio::test]
async fn a_sender_is_told_once_that_its_message_did_not_arrive() {
    let mut world = World::new().await;
    world.relay.script("POST /messages", Say::error(403, "bob takes requests only from team erp"));
    world.carrier.send_v2(NewMessage { topic: "close".into(), ..request("m1") }, None).await.unwrap();
    assert_eq!(world.failed("m1").await, "forbidden");
    let stored = status(&world, "m1").await;
    assert_eq!((stored.delivery.status(), stored.stages.failed), (Status::Failed, Some(NOW)));
    let told = inbox(&world).await;
    assert_eq!(told.len(), 1);
    let notice = &told[0].message;
    assert_eq!((notice.kind, notice.parent_id.as_deref()), (Kind::Reply, Some("m1")));
    assert_eq!((notice.origin.as_str(), notice.idempotency_key.as_str()), ("bob", "undelivered:m1"));
    assert_eq!((notice.root_id.as_str(), notice.topic.as_str()), ("root of m1", "close"));
    assert!(notice.body.starts_with("not delivered: bob takes"), "{}", notice.body);
    assert!(world.inbox().await.is_empty());
}

#[tokio::test]
async fn a_remote_sender_is_told_of_what_failed_or_expired_here() {
    let mut world = World::new().await;
    takes_v2(&world).await;
    let remote = Remote::new();
    world.relay.deliver(CLOSE, [remote.signed("q1", |_| ()), remote.signed("q2", |_| ())]);
    world.delivered("q2").await;
    let taken = pull(&world).await;
    let rules = Rules { max_attempts: 1, notify: true };
    let ack = Ack {
        agent: name("close"),
        id: taken[0].message.id.clone(),
        lease_token: None,
        outcome: Some(Outcome::Retry),
        error: "no".into(),
        now: NOW,
        rules,
    };
    store(&world).ack(ack, |_| ()).await.unwrap();
    world.clock.advance(std::time::Duration::from_secs(4000));
    store(&world).sweep(after(4000), NOW, RULES).await.unwrap();
    world.carrier.ended();
    let posted = world.posted_times(2).await;
    let told: Vec<_> = posted.iter().map(|envelope| envelope["body"]["text"].as_str().unwrap()).collect();
    assert_eq!(told[0], format!("not delivered: {CLOSE} took it 1 times and never confirmed it"));
    assert_eq!(told[1], format!("not delivered: it expired before {CLOSE} took it"));
    assert!(posted.iter().all(|envelope| envelope["error"] == true && envelope["kind"] == "reply"));
    let here = Query::all(name(BOB), Timestamp::from_millis(0), 9);
    assert!(
        store(&world).query(here).await.unwrap().iter().all(|stored| stored.message.kind == Kind::Request)
    );
}

#[tokio::test]
async fn a_sender_may_say_for_the_journey_what_the_first_generation_may() {
    let mut world = World::new().await;
    let zip = zip_of(&[("a.txt", b"one")]);
    let parcels = world.carrier.parcels().unwrap();
    let file = parcels.upload(parcels.agent_of(&name("CLOSE")).unwrap(), zip.clone()).await.unwrap();
    let wish =
        json!({"files": file, "refs": [{"url": "https://git.example"}], "ttl": 86_400, "encrypt": "never"});
    let message = NewMessage { context: "the close".into(), ..request("m1") };
    world.carrier.send_v2(message.clone(), Some(wish.clone())).await.unwrap();
    world.accepted("m1").await;
    let envelope = world.posted_times(1).await.remove(0);
    assert_eq!(zip_decode(envelope["files"]["zip"].as_str().unwrap()).unwrap(), zip);
    assert_eq!((&envelope["ttl"], &envelope["refs"][0]), (&json!(86_400), &wish["refs"][0]));
    assert_eq!(envelope["refs"][1], extras(&json!({"context": "the close"}))[0]);
    assert_eq!(status(&world, "m1").await.message.expires_at, after(86_400));
    assert_eq!(world.carrier.parcels().unwrap().files(close(), DshId::new("m1")).await.unwrap(), zip);

    world.execute("DELETE FROM uploads").await;
    let again = NewMessage { id: DshId::new("m2"), ..message };
    let again = world.carrier.send_v2(again, Some(wish.clone())).await.unwrap();
    assert_eq!((again.id.as_str(), again.duplicate), ("m1", true), "the upload of a retry may be gone");
    for bad in [wish, json!({"encrypt": "perhaps"}), json!({"ttl": 0}), json!({"refs": [1]})] {
        let refused = world.carrier.send_v2(request("m3"), Some(bad)).await.unwrap_err();
        assert_eq!(refused.status(), 400);
    }
    let sealed = Some(json!({"encrypt": "require"}));
    world.carrier.send_v2(request("m4"), sealed.clone()).await.unwrap();
    assert_eq!(world.failed("m4").await, "no_key");
    world.relay.set_key(BOB, &Remote::new().keys);
    world.carrier.send_v2(request("m5"), sealed).await.unwrap();
    assert!(world.accepted("m5").await);
}

#[tokio::test]
async fn a_request_is_taken_back_by_its_sender() {
    let mut world = World::new().await;
    world.carrier.send_v2(request("m1"), None).await.unwrap();
    world.accepted("m1").await;
    world.relay.script("POST /messages/m1/cancel", Say::Json(200, json!({"cancelled": true})));
    world.carrier.withdraw_v2(name("close"), DshId::new("m1")).await.unwrap();
    assert_eq!(status(&world, "m1").await.delivery.status(), Status::Failed);
    assert!(inbox(&world).await.is_empty());
}

#[tokio::test]
async fn addresses_are_resolved_as_for_the_first_generation() {
    let world = World::with("agents: {close: {hold: true}, Shout: {address: acme/finance/ana/shout}}").await;
    let route = |from: &str, to: &str| world.carrier.route_v2(&name(from), &name(to));
    assert_eq!(route("close", "BOB"), Route::Away);
    assert_eq!(route("close", BOB), Route::Away);
    assert!(
        matches!(route("close", "acme/finance/ana/shout"), Route::LocalAs(own) if own.as_str() == "Shout")
    );
    assert_eq!(route("close", "shout"), Route::Local);
    let stranger = NewMessage { origin: name("stranger"), ..request("m1") };
    assert_eq!(world.carrier.send_v2(stranger, None).await.unwrap_err().status(), 403);
    let malformed = NewMessage { target: name("a/b/c/d/e"), ..request("m1") };
    assert_eq!(world.carrier.send_v2(malformed, None).await.unwrap_err().status(), 400);
}
