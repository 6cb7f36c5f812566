//! «Webhooks», on relays that let one point at this machine.

use redsyn_bridge::crypto::secret::Secret;
use redsyn_bridge::crypto::webhook;
use reqwest::Method;
use serde_json::{Value, json};

use super::relay::{Relay, done, now, refused, skipped};
use crate::support::receiver::Receiver;
use crate::support::redsyn::soon;

fn path(agent: &str) -> String {
    format!("/agents/{agent}/webhook")
}

async fn set(relay: &Relay, agent: &str, receiver: &Receiver) -> String {
    let set = done(relay.ana.put(&path(agent), json!({"url": receiver.url})).await);
    secret_in(&set).expect("the secret is in the answer")
}

/// The document does not name the field.
fn secret_in(answer: &Value) -> Option<String> {
    let fields = answer.as_object()?;
    let (_, secret) = fields.iter().find(|(name, _)| name.contains("secret"))?;
    secret.as_str().map(str::to_owned)
}

async fn delete(relay: &Relay, agent: &str) {
    done(relay.ana.send_request(relay.ana.request(Method::DELETE, &path(agent))).await);
}

#[tokio::test]
async fn a_delivery_is_the_envelope_signed_with_the_secret_and_2xx_takes_it() {
    let relay = Relay::start().await;
    if !relay.hooks {
        return skipped("webhooks may not point here");
    }
    let (asked, asker) = relay.pair().await;
    let mut receiver = Receiver::start().await;
    let secret = Secret::new(set(&relay, &asked, &receiver).await);
    relay.beto.send(&relay.request("m1", &asker, &asked)).await.is(201);
    let push = receiver.next().await;
    assert_eq!(push.headers["redsyn-delivery"], relay.name("m1"));
    assert_eq!(push.headers["redsyn-version"], "2026-09-25");
    let signature = push.headers["redsyn-signature"].to_str().unwrap();
    assert!(webhook::verify(&secret, signature, &push.raw, now()));
    assert_eq!((&push.body["kind"], &push.body["from"]), (&json!("request"), &json!(asker)));
    let taken = async || relay.ana.take_with(&asked, "peek=1").await.is_empty();
    soon(async { while !taken().await {} }).await;
    relay.ana.send(&relay.answer("reply", "r1", &asked, "m1")).await.is(201);
    assert_eq!(relay.beto.take_ids(&asker).await, [relay.name("r1")]);
    delete(&relay, &asked).await;
}

#[tokio::test]
async fn the_secret_is_shown_once() {
    let relay = Relay::start().await;
    if !relay.hooks {
        return skipped("webhooks may not point here");
    }
    let (asked, _) = relay.pair().await;
    let receiver = Receiver::start().await;
    let first = set(&relay, &asked, &receiver).await;
    assert!(!done(relay.ana.get(&format!("/agents/{asked}")).await).to_string().contains(&first));
    assert_ne!(set(&relay, &asked, &receiver).await, first);
    delete(&relay, &asked).await;
}

#[tokio::test]
async fn delete_returns_to_the_mailbox() {
    let relay = Relay::start().await;
    if !relay.hooks {
        return skipped("webhooks may not point here");
    }
    let (asked, asker) = relay.pair().await;
    let mut receiver = Receiver::start().await;
    set(&relay, &asked, &receiver).await;
    delete(&relay, &asked).await;
    relay.beto.send(&relay.request("m1", &asker, &asked)).await.is(201);
    assert_eq!(relay.ana.take_ids(&asked).await, [relay.name("m1")]);
    assert!(receiver.nothing_came());
}

#[tokio::test]
async fn an_agent_with_a_webhook_has_no_key() {
    let relay = Relay::start().await;
    if !relay.hooks {
        return skipped("webhooks may not point here");
    }
    let (asked, _) = relay.pair().await;
    relay.register(&relay.ana, &crate::support::redsyn::key(1)).await;
    relay.ana.take(&asked).await;
    let receiver = Receiver::start().await;
    set(&relay, &asked, &receiver).await;
    relay.beto.get(&format!("/agents/{asked}/key")).await.refused(404);
    delete(&relay, &asked).await;
}

#[tokio::test]
async fn only_the_owner_sets_one_and_only_to_a_url() {
    let relay = Relay::start().await;
    let (asked, _) = relay.pair().await;
    let url = json!({"url": "https://hooks.acme.example/redsyn"});
    refused(relay.beto.put(&path(&asked), url.clone()).await, 403);
    refused(relay.dora.put(&path(&asked), url).await, 404);
    for wrong in
        [json!({}), json!({"url": 5}), json!({"url": "ftp://hooks.acme.example/"}), json!({"url": ""})]
    {
        refused(relay.ana.put(&path(&asked), wrong).await, 422);
    }
}
