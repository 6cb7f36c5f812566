//! The mailbox: «Buzón con arriendo» and `GET /inbox`.

use serde_json::json;

use super::relay::{Relay, refused};
use crate::support::redsyn::{ids, soon, with};

#[tokio::test]
async fn what_is_taken_is_leased_and_what_is_confirmed_is_gone() {
    let relay = Relay::start().await;
    let (asked, _) = relay.asks("m1").await;
    assert_eq!(relay.ana.take_ids(&asked).await, [relay.name("m1")]);
    assert!(relay.ana.take(&asked).await.is_empty());
    assert!(relay.ana_server.take(&asked).await.is_empty());
    relay.ana.ack(&asked, &[&relay.name("m1"), "unknown"]).await;
    assert!(relay.ana.take_with(&asked, "peek=1").await.is_empty());
}

/// A lease of one second: the case takes that long.
#[tokio::test]
async fn a_lease_that_ends_brings_the_message_back() {
    let relay = Relay::start().await;
    let (asked, _) = relay.asks("m1").await;
    assert_eq!(relay.ana.take_with(&asked, "lease=1").await[0]["attempts"], 1);
    let again = relay.ana_server.take_with(&asked, "wait=25").await;
    assert_eq!((ids(&again), &again[0]["attempts"]), (vec![relay.name("m1")], &json!(2)));
}

#[tokio::test]
#[ignore = "waits for ten real leases of a second"]
async fn ten_takes_without_a_confirmation_abandon_it_and_tell_the_sender() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.asks("m1").await;
    for attempt in 1..=10 {
        assert_eq!(relay.ana.take_with(&asked, "lease=1&wait=25").await[0]["attempts"], attempt);
    }
    let told = relay.beto.take_with(&asker, &format!("wait=25&reply_to={}", relay.name("m1"))).await;
    let expected = format!("not delivered: {asked} took it 10 times and never confirmed it");
    assert_eq!((&told[0]["body"]["text"], &told[0]["error"]), (&json!(expected), &json!(true)));
    assert!(relay.ana.take(&asked).await.is_empty());
}

#[tokio::test]
async fn wait_holds_the_call_until_something_arrives() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    let held = tokio::spawn({
        let (ana, asked) = (relay.ana.clone(), asked.clone());
        async move { ana.take_ids_with(&asked, "wait=25").await }
    });
    let online = async || relay.beto.get(&format!("/agents/{asked}")).await.body["online"] == true;
    soon(async { while !online().await {} }).await;
    assert!(!held.is_finished());
    relay.beto.send(&relay.request("m1", &asker, &asked)).await.is(201);
    assert_eq!(soon(held).await.unwrap(), [relay.name("m1")]);
}

#[tokio::test]
async fn a_wait_in_which_nothing_comes_is_answered_empty() {
    let relay = Relay::start().await;
    let (asked, _) = relay.pair().await;
    assert!(relay.ana.take_with(&asked, "wait=1").await.is_empty());
}

#[tokio::test]
async fn reply_to_takes_only_the_answer_to_that_request() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    for id in ["m1", "m2"] {
        relay.beto.send(&relay.request(id, &asker, &asked)).await.is(201);
        relay.ana.send(&relay.answer("reply", &format!("r-{id}"), &asked, id)).await.is(201);
    }
    let query = format!("reply_to={}", relay.name("m2"));
    assert_eq!(ids(&relay.beto.take_with(&asker, &query).await), [relay.name("r-m2")]);
    assert_eq!(relay.beto.take_ids(&asker).await, [relay.name("r-m1")]);
}

#[tokio::test]
async fn peek_lists_without_taking() {
    let relay = Relay::start().await;
    let (asked, _) = relay.asks("m1").await;
    for _ in 0..2 {
        assert_eq!(ids(&relay.ana.take_with(&asked, "peek=1").await), [relay.name("m1")]);
    }
    assert_eq!(relay.ana.take(&asked).await[0]["attempts"], 1);
}

#[tokio::test]
async fn order_is_kept_in_a_session() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    let names: Vec<String> = (0..8).map(|at| format!("m{at}")).collect();
    for id in &names {
        let in_thread = json!({"thread": relay.name("t")});
        relay.beto.send(&with(relay.request(id, &asker, &asked), in_thread)).await.is(201);
    }
    let expected: Vec<String> = names.iter().map(|id| relay.name(id)).collect();
    assert_eq!(relay.ana.take_ids(&asked).await, expected);
}

#[tokio::test]
async fn only_its_owner_takes_and_confirms() {
    let relay = Relay::start().await;
    let (asked, _) = relay.asks("m1").await;
    let inbox = format!("/inbox/{asked}");
    refused(relay.beto.get(&inbox).await, 403);
    refused(relay.dora.get(&inbox).await, 404);
    refused(relay.beto.post(&format!("{inbox}/ack"), json!({"ids": [relay.name("m1")]})).await, 403);
    refused(relay.ana.get(&format!("/inbox/{}", relay.agent(&relay.ana, "none"))).await, 404);
    for wrong in ["wait=x", "lease=x"] {
        refused(relay.ana.get(&format!("{inbox}?{wrong}")).await, 422);
    }
    for wrong in [json!({}), json!({"ids": "m1"}), json!({"ids": [1]})] {
        refused(relay.ana.post(&format!("{inbox}/ack"), wrong).await, 422);
    }
    assert_eq!(relay.ana.take_ids(&asked).await, [relay.name("m1")]);
}
