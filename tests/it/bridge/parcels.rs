//! Files on their way out, bodies that travel among them, one message's own wish to be sealed, and withdrawals.

use redsyn_bridge::bridge::keys::NodeKeys;
use redsyn_bridge::broker::carrier::Carrier;
use redsyn_bridge::crypto::base64url::{zip_decode, zip_encode};
use redsyn_bridge::crypto::seal::{Enc, open, open_files};
use redsyn_bridge::crypto::sha256;
use redsyn_bridge::domain::delivery::Status;
use redsyn_bridge::domain::random::SystemRandom;
use redsyn_bridge::proto::dsh::error::ApiError;
use redsyn_bridge::proto::dsh::names::DshId;
use redsyn_bridge::store::local::NewMessage;
use serde_json::{Value, json};

use super::relay::Say;
use super::world::{BOB, CLOSE, NOW, Remote, World, body_of, close, json_text, request};
use crate::support::zips::{member_of, zip_of};

fn with(id: &str, redsyn: Value) -> NewMessage {
    let mut message = request(id);
    message.redsyn = Some(redsyn);
    message
}

async fn upload(world: &World, zip: &[u8]) -> Result<String, ApiError> {
    world.carrier.parcels().unwrap().upload(close(), zip.to_vec()).await
}

async fn files(world: &World, id: &str) -> Result<Vec<u8>, ApiError> {
    world.carrier.parcels().unwrap().files(close(), DshId::new(id)).await
}

async fn withdraw(world: &World, id: &str) -> Result<(), ApiError> {
    world.carrier.parcels().unwrap().withdraw(close(), DshId::new(id)).await
}

fn zip_in(envelope: &Value) -> Vec<u8> {
    zip_decode(envelope["files"]["zip"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn files_travel_with_the_message_that_names_them() {
    let mut world = World::new().await;
    let zip = zip_of(&[("a.txt", b"one")]);
    let name = upload(&world, &zip).await.unwrap();
    assert_eq!(name, sha256::hex(&zip));
    for id in ["m1", "m2"] {
        world.send(with(id, json!({"files": name}))).await;
        assert!(!world.accepted(id).await);
    }
    for envelope in world.posted_times(2).await {
        assert_eq!(zip_in(&envelope), zip);
        world.assert_signed(&envelope, NOW);
    }
    assert_eq!(files(&world, "m1").await.unwrap(), zip, "its sender may look, too");
}

#[tokio::test]
async fn sealed_files_open_with_the_recipients_key_alone() {
    let mut world = World::new().await;
    let bob = NodeKeys::generate(&SystemRandom);
    world.relay.set_key(BOB, &bob);
    let zip = zip_of(&[("a.txt", b"one")]);
    let name = upload(&world, &zip).await.unwrap();
    world.send(with("m1", json!({"files": name}))).await;
    assert!(world.accepted("m1").await);
    let envelope = world.posted_times(1).await.remove(0);
    world.assert_signed(&envelope, NOW);
    let enc = Enc::from_body(&envelope["body"]).unwrap();
    let travelled = zip_in(&envelope);
    assert_ne!(travelled, zip);
    assert_eq!(*open_files(&bob.enc, "m1", "request", &enc, &travelled).unwrap(), zip);
    assert!(open_files(&world.keys.enc, "m1", "request", &enc, &travelled).is_err());
}

#[tokio::test]
async fn what_is_no_upload_is_refused_and_a_retry_is_a_duplicate() {
    let mut world = World::new().await;
    assert_eq!(upload(&world, b"PK-bytes").await.unwrap_err().status(), 400);
    assert_eq!(upload(&world, &zip_of(&[("../x", b"")])).await.unwrap_err().status(), 400);
    let unknown = world.try_send(with("m1", json!({"files": "ab".repeat(32)}))).await;
    assert_eq!(unknown.unwrap_err().status(), 400);
    let name = upload(&world, &zip_of(&[("a.txt", b"one")])).await.unwrap();
    world.send(with("m1", json!({"files": name}))).await;
    world.accepted("m1").await;
    world.execute("DELETE FROM uploads").await;
    assert!(world.try_send(with("m1", json!({"files": name}))).await.unwrap().duplicate);
}

#[tokio::test]
async fn a_long_body_travels_in_the_zip_and_five_megabytes_are_the_end() {
    let mut world = World::new().await;
    let long = json!({"rows": vec!["ñ"; 30_000]});
    let mut message = request("m1");
    message.body = json_text(&long);
    world.send(message).await;
    world.accepted("m1").await;
    let envelope = world.posted_times(1).await.remove(0);
    assert_eq!(envelope["body"]["type"], "text/plain");
    assert_eq!(envelope["refs"][0]["url"], "urn:dsh-agent-relay:body:1");
    assert_eq!(
        serde_json::from_slice::<Value>(&member_of(&zip_in(&envelope), "dsh-body.json")).unwrap(),
        long
    );

    let mut noise = vec![0; 5 * 1024 * 1024 - 2000];
    redsyn_bridge::domain::random::Random::fill(&SystemRandom, &mut noise);
    let name = upload(&world, &zip_of(&[("noise", &noise)])).await.unwrap();
    let mut message = with("m2", json!({"files": name}));
    let digests: Vec<String> = (0..2000_u32).map(|n| sha256::hex(&n.to_be_bytes())).collect();
    message.body = json_text(&json!({"digests": digests}));
    let refused = world.try_send(message).await.unwrap_err();
    assert_eq!(refused.status(), 413);
    assert!(refused.to_string().contains("5 MB"), "{refused}");
}

#[tokio::test]
async fn a_body_that_came_in_the_zip_is_put_back() {
    let mut world = World::new().await;
    for (id, member, content, body, left) in [
        ("q1", "dsh-body.json", "{\"a\":[1]}", json!({"a": [1]}), false),
        ("q2", "dsh-body.txt", "a long text", json!({"text": "a long text"}), true),
    ] {
        let mut members = vec![(member, content.as_bytes())];
        members.extend(left.then_some(("a.txt", &b"one"[..])));
        let zip = zip_of(&members);
        let envelope = Remote::new().signed(id, |envelope| {
            envelope.insert("refs".into(), json!([{"url": "urn:dsh-agent-relay:body:1", "note": member}]));
            envelope.insert("files".into(), json!({"bytes": zip.len(), "sha256": sha256::hex(&zip)}));
            envelope.insert("from".into(), json!(format!("globex/erp/{id}/billing")));
        });
        world
            .relay
            .script(&format!("GET /messages/{id}/files"), Say::Json(200, json!({"zip": zip_encode(&zip)})));
        world.relay.deliver(CLOSE, [envelope]);
        world.delivered(id).await;
        let inbox = world.inbox().await;
        let message = inbox.last().unwrap();
        let redsyn = message.redsyn.as_ref().unwrap();
        assert_eq!((body_of(message), &redsyn["refs"]), (body, &json!([])));
        if left {
            let fetched = files(&world, id).await.unwrap();
            assert_eq!(member_of(&fetched, "a.txt"), b"one");
            assert_eq!(redsyn["files"], json!({"bytes": fetched.len(), "sha256": sha256::hex(&fetched)}));
        } else {
            assert_eq!(
                (&redsyn["files"], files(&world, id).await.unwrap_err().status()),
                (&Value::Null, 404)
            );
        }
    }
}

#[tokio::test]
async fn files_that_would_harm_whoever_unpacks_them_are_refused() {
    let mut world = World::new().await;
    let zip = zip_of(&[("../../x", b"")]);
    let envelope = Remote::new().signed("q1", |envelope| {
        envelope.insert("files".into(), json!({"bytes": zip.len(), "sha256": sha256::hex(&zip)}));
    });
    world.relay.script("GET /messages/q1/files", Say::Json(200, json!({"zip": zip_encode(&zip)})));
    world.relay.deliver(CLOSE, [envelope]);
    assert!(world.refused("q1").await.contains("leaves the folder"));
    assert_eq!(world.acked().await, ["q1"]);
    assert!(world.inbox().await.is_empty());
}

#[tokio::test]
async fn one_message_may_choose_whether_it_is_sealed() {
    let mut world = World::new().await;
    let bob = NodeKeys::generate(&SystemRandom);
    world.send(with("m1", json!({"encrypt": "require"}))).await;
    assert_eq!(world.failed("m1").await, "no_key");
    world.relay.set_key(BOB, &bob);
    world.send(with("m2", json!({"encrypt": "never"}))).await;
    assert!(!world.accepted("m2").await);
    world.send(with("m3", json!({"encrypt": "prefer"}))).await;
    assert!(world.accepted("m3").await);
    let envelope = world.posted_times(2).await.remove(1);
    open(&bob.enc, "m3", "request", &Enc::from_body(&envelope["body"]).unwrap()).unwrap();
    world.send(with("m4", json!({"encrypt": "never"}))).await;
    assert!(world.held_out("m4").await.contains("plain text waits"), "sealed once, sealed always");
}

#[tokio::test]
async fn no_message_asks_for_less_than_the_configuration_requires() {
    let world = World::with("encrypt: require\nagents: {close: {hold: true}}").await;
    for less in ["never", "prefer"] {
        let refused = world.try_send(with("m1", json!({"encrypt": less}))).await.unwrap_err();
        assert_eq!(refused.status(), 400);
    }
}

#[tokio::test]
async fn a_request_that_nobody_took_is_taken_back() {
    let mut world = World::new().await;
    world.send(request("m1")).await;
    world.accepted("m1").await;
    world.relay.script("POST /messages/m1/cancel", Say::Json(200, json!({"cancelled": true})));
    withdraw(&world, "m1").await.unwrap();
    world.assert_status("m1", Status::Failed).await;
    assert!(world.inbox().await.is_empty());

    world.send(request("m2")).await;
    world.accepted("m2").await;
    world.relay.script("POST /messages/m2/cancel", Say::error(409, "taken"));
    assert_eq!(withdraw(&world, "m2").await.unwrap_err().status(), 409);
    world.assert_status("m2", Status::Leased).await;
    assert_eq!(withdraw(&world, "m9").await.unwrap_err().status(), 404);
}

#[tokio::test]
async fn a_request_that_waits_in_the_outbox_is_taken_back_before_it_leaves() {
    let mut world = World::new().await;
    world.relay.script("POST /messages", Say::error(503, "away"));
    world.send(request("m1")).await;
    world.postponed("m1").await;
    world.relay.script("POST /messages/m1/cancel", Say::error(503, "away"));
    world.relay.script("POST /messages", Say::error(503, "away"));
    assert_eq!(withdraw(&world, "m1").await.unwrap_err().status(), 503, "nobody knows: it goes on");
    world.postponed("m1").await;
    world.assert_status("m1", Status::Queued).await;
    // The friendly relay has never heard of it: 404.
    withdraw(&world, "m1").await.unwrap();
    world.assert_status("m1", Status::Failed).await;
    world.holds("SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM outbox)").await;
    let posts = world.relay.summary().into_iter().filter(|call| call == "POST /messages").count();
    assert_eq!(posts, 2);
}

#[tokio::test]
async fn a_request_goes_on_whose_sender_went_away_while_it_wanted_it_back() {
    let mut world = World::new().await;
    world.relay.script("POST /messages", Say::error(503, "away"));
    world.send(request("m1")).await;
    world.postponed("m1").await;
    world.relay.script("POST /messages/m1/cancel", Say::error(503, "away"));
    assert!(futures_util::poll!(std::pin::pin!(withdraw(&world, "m1"))).is_pending());
    assert!(!world.accepted("m1").await);
}
