//! The policy of an agent: who may ask it, applied before a message is kept.

use serde_json::{Value, json};

use super::relay::{Relay, done, refused, signed, skipped};
use crate::support::redsyn::{key, sealed_body, with};

/// Asks from beto's agent under this policy of ana's; gives the words of the 403.
async fn refused_by(relay: &Relay, policy: Value, fields: Value) -> String {
    let (asked, asker) = relay.pair().await;
    done(relay.ana.announce(&asked, policy).await);
    let words = relay.beto.send(&with(relay.request("m1", &asker, &asked), fields)).await.refused(403);
    assert!(relay.ana.take(&asked).await.is_empty(), "nothing is kept");
    words
}

#[tokio::test]
async fn an_empty_allow_is_its_own_team() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    relay.beto.send(&relay.request("m1", &asker, &asked)).await.is(201);
    let Some(caro) = &relay.caro else { return skipped("nobody of another team") };
    let watch = relay.listening(caro, "watch", json!({})).await;
    let words = caro.send(&relay.request("m2", &watch, &asked)).await.refused(403);
    assert!(words.contains(&format!("takes requests only from team {}", relay.ana.team())), "{words}");
}

#[tokio::test]
async fn allow_lists_persons_teams_and_the_organisation() {
    let relay = Relay::start().await;
    let Some(caro) = &relay.caro else { return skipped("nobody of another team") };
    let asked = relay.listening(&relay.ana, "close", json!({})).await;
    let watch = relay.listening(caro, "watch", json!({})).await;
    for (at, allow) in
        [caro.user().to_owned(), format!("team:{}", caro.team()), "org".to_owned()].iter().enumerate()
    {
        done(relay.ana.announce(&asked, json!({"allow": [allow]})).await);
        caro.send(&relay.request(&format!("m{at}"), &watch, &asked)).await.is(201);
    }
    done(relay.ana.announce(&asked, json!({"allow": [relay.beto.user()]})).await);
    let words = caro.send(&relay.request("m9", &watch, &asked)).await.refused(403);
    assert!(words.contains(&format!("takes requests only from {}", relay.beto.user())), "{words}");
}

#[tokio::test]
async fn signed_only_takes_only_signed_requests() {
    let relay = Relay::start().await;
    refused_by(&relay, json!({"signed_only": true}), json!({})).await;
    let (asked, asker) = (relay.agent(&relay.ana, "close"), relay.agent(&relay.beto, "cli"));
    done(relay.ana.announce(&asked, json!({"signed_only": true})).await);
    relay.register(&relay.beto, &key(1)).await;
    relay.beto.send(&signed(&key(1), relay.request("m2", &asker, &asked))).await.is(201);
}

#[tokio::test]
async fn encrypted_only_takes_only_encrypted_requests() {
    let relay = Relay::start().await;
    refused_by(&relay, json!({"encrypted_only": true}), json!({})).await;
    let (asked, asker) = (relay.agent(&relay.ana, "close"), relay.agent(&relay.beto, "cli"));
    done(relay.ana.announce(&asked, json!({"encrypted_only": true})).await);
    relay.register(&relay.beto, &key(1)).await;
    let sealed = with(relay.request("m2", &asker, &asked), json!({"body": sealed_body()}));
    relay.beto.send(&signed(&key(1), sealed)).await.is(201);
}

#[tokio::test]
async fn full_trust_requires_allow_and_takes_only_signed_requests() {
    let relay = Relay::start().await;
    let agent = relay.agent(&relay.ana, "close");
    refused(relay.ana.announce(&agent, json!({"trust": "full"})).await, 422);
    refused_by(&relay, json!({"trust": "full", "allow": ["org"]}), json!({})).await;
}

#[tokio::test]
async fn a_policy_comes_only_with_listening() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    let silent = json!({"allow": [relay.ana.user()], "signed_only": true});
    done(relay.ana.put(&format!("/agents/{asked}"), silent).await);
    relay.beto.send(&relay.request("m1", &asker, &asked)).await.is(201);
}

#[tokio::test]
async fn what_is_no_policy_is_refused() {
    let relay = Relay::start().await;
    let agent = relay.agent(&relay.ana, "close");
    for wrong in [
        json!({"trust": "some"}),
        json!({"allow": "org"}),
        json!({"allow": [1]}),
        json!({"signed_only": "yes"}),
    ] {
        refused(relay.ana.announce(&agent, wrong).await, 422);
    }
}
