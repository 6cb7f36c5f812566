//! «Autenticación y nodos», `GET /me`, and the keys of nodes.

use redsyn_bridge::crypto::enc_key::check_enc_key;
use serde_json::{Value, json};

use super::relay::{Relay, done, keys_of, refused};
use crate::support::redsyn::{Node, key};

#[tokio::test]
async fn every_call_carries_a_known_token() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    for token in ["", "nonsense", "rsn_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
        let stranger = Node::new(&relay.ana.base_url, token);
        refused(stranger.get("/me").await, 401);
        refused(stranger.send(&relay.request("m1", &asker, &asked)).await, 401);
        refused(stranger.get(&format!("/inbox/{asked}")).await, 401);
    }
}

#[tokio::test]
async fn me_says_who_one_is_with_organisations_teams_and_versions() {
    let relay = Relay::start().await;
    let me = done(relay.ana.get("/me").await).to_string();
    for word in [relay.ana.org(), relay.ana.team(), relay.ana.user(), "2026-09-25"] {
        assert!(me.contains(word), "{word}: {me}");
    }
}

#[tokio::test]
async fn a_node_speaks_for_all_agents_of_its_person() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.asks("m1").await;
    assert_eq!(relay.ana_server.take_ids(&asked).await, [relay.name("m1")]);
    relay.ana_server.send(&relay.answer("reply", "r1", &asked, "m1")).await.is(201);
    assert_eq!(relay.beto.take_ids(&asker).await, [relay.name("r1")]);
}

#[tokio::test]
async fn replacing_a_key_requires_rotate() {
    let relay = Relay::start().await;
    relay.register(&relay.ana, &key(1)).await;
    done(relay.ana.put("/nodes/key", keys_of(&key(1))).await);
    refused(relay.ana.put("/nodes/key", keys_of(&key(2))).await, 409);
    relay.register(&relay.ana, &key(2)).await;
}

#[tokio::test]
async fn what_is_no_key_is_refused() {
    let relay = Relay::start().await;
    let good = keys_of(&key(1));
    for (field, value) in [
        ("public_key", json!("short")),
        ("public_key", json!(5)),
        ("public_key", Value::Null),
        ("enc_key", json!("AAAA")),
        ("enc_sig", keys_of(&key(2))["enc_sig"].clone()),
    ] {
        let mut wrong = good.clone();
        (wrong[field], wrong["rotate"]) = (value, true.into());
        refused(relay.ana.put("/nodes/key", wrong).await, 422);
    }
}

#[tokio::test]
async fn the_key_of_an_agent_is_that_of_the_node_that_listened_last() {
    let relay = Relay::start().await;
    let asked = relay.listening(&relay.ana, "close", json!({})).await;
    let path = format!("/agents/{asked}/key");
    relay.register(&relay.ana, &key(1)).await;
    relay.register(&relay.ana_server, &key(2)).await;
    relay.ana.take(&asked).await;
    let answer = done(relay.beto.get(&path).await);
    let text = |name: &str| answer[name].as_str().unwrap();
    assert_eq!(text("signing_key"), key(1).verifying_key().to_string());
    assert!(check_enc_key(&text("signing_key").parse().unwrap(), text("enc_key"), text("enc_sig")).is_ok());
    assert!(!text("fingerprint").is_empty() && !text("node").is_empty());
    relay.ana_server.take(&asked).await;
    assert_eq!(done(relay.beto.get(&path).await)["signing_key"], key(2).verifying_key().to_string());
}

#[tokio::test]
async fn an_agent_without_a_key_answers_404() {
    let relay = Relay::start().await;
    relay.beto.get(&format!("/agents/{}/key", relay.agent(&relay.ana, "none"))).await.refused(404);
    let (asked, _) = relay.pair().await;
    relay.register(&relay.ana, &key(1)).await;
    relay.ana.take(&asked).await;
    // A new signing key vouches for no P-256 key of the old one.
    let rotated = json!({"public_key": key(3).verifying_key().to_string(), "rotate": true});
    done(relay.ana.put("/nodes/key", rotated).await);
    relay.beto.get(&format!("/agents/{asked}/key")).await.refused(404);
}
