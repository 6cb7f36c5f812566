//! «Cifrado de extremo a extremo»: what the relay does about sealed mail.

use serde_json::json;

use super::relay::{Relay, done, signed};
use crate::support::redsyn::{ids, key, sealed_body, with};

#[tokio::test]
async fn a_sealed_body_is_passed_on_unread() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    relay.register(&relay.beto, &key(1)).await;
    let sealed = with(relay.request("m1", &asker, &asked), json!({"body": sealed_body()}));
    relay.beto.send(&signed(&key(1), sealed)).await.is(201);
    assert_eq!(relay.ana.take(&asked).await[0]["body"], sealed_body());
}

#[tokio::test]
async fn a_sealed_request_is_kept_for_the_node_it_was_sealed_for() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    for (node, seed) in [(&relay.ana, 1), (&relay.ana_server, 2), (&relay.beto, 3)] {
        relay.register(node, &key(seed)).await;
    }
    relay.ana.take(&asked).await;
    let served = done(relay.beto.get(&format!("/agents/{asked}/key")).await);
    assert_eq!(served["signing_key"], key(1).verifying_key().to_string());
    let sealed = with(relay.request("m1", &asker, &asked), json!({"body": sealed_body()}));
    relay.beto.send(&signed(&key(3), sealed)).await.is(201);
    assert!(relay.ana_server.take(&asked).await.is_empty());
    assert_eq!(ids(&relay.ana.take(&asked).await), [relay.name("m1")]);
}

#[tokio::test]
async fn the_page_of_a_session_shows_that_a_message_is_sealed_and_not_what_it_says() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    relay.register(&relay.beto, &key(1)).await;
    let sealed = with(relay.request("m1", &asker, &asked), json!({"body": sealed_body()}));
    let sent = relay.beto.send(&signed(&key(1), sealed)).await.is(201);
    let session = sent["to"].as_str().unwrap().split_once('#').unwrap().1;
    let page = done(relay.ana.get(&format!("/agents/{asked}/sessions/{session}")).await).to_string();
    assert!(page.contains(&relay.name("m1")) && page.contains("encrypted"), "{page}");
}
