//! «Enlaces»: between organisations nothing is seen or written without an active link.

use serde_json::json;

use super::relay::{Relay, done, refused, signed};
use crate::support::redsyn::key;

/// ana's agent, which asks, and dora's, which lets ana's organisation ask.
async fn pair(relay: &Relay) -> (String, String) {
    let asker = relay.listening(&relay.ana, "cli", json!({})).await;
    let allow = json!({"allow": [format!("org:{}", relay.ana.org())]});
    let asked = relay.listening(&relay.dora, "billing", allow).await;
    (asker, asked)
}

#[tokio::test]
async fn without_a_link_nothing_is_seen_or_written() {
    let relay = Relay::start().await;
    relay.unlinked().await;
    let (asker, asked) = pair(&relay).await;
    refused(relay.ana.send(&relay.request("m1", &asker, &asked)).await, 404);
    refused(relay.ana.get(&format!("/agents/{asked}")).await, 404);
    assert!(!done(relay.ana.get("/directory").await).to_string().contains(&asked));
}

#[tokio::test]
async fn an_admin_of_each_side_accepts_and_each_side_exposes_only_what_it_chooses() {
    let relay = Relay::start().await;
    let (asker, asked) = pair(&relay).await;
    relay.unlinked().await;
    let links = format!("/orgs/{}/links", relay.ana.org());
    refused(relay.beto.post(&links, json!({"other": relay.dora.org()})).await, 403);
    done(relay.ana.post(&links, json!({"other": relay.dora.org()})).await);
    refused(relay.ana.send(&relay.request("m1", &asker, &asked)).await, 404);
    relay.linked().await;
    relay.trusts(&relay.dora).await;
    refused(relay.ana.send(&relay.request("m1", &asker, &asked)).await, 404);
    let (team, user) = (relay.dora.team(), relay.dora.user());
    let patterns = [
        "*".to_owned(),
        format!("{team}/*"),
        format!("{team}/{user}/*"),
        format!("{team}/{user}/{}", relay.name("billing")),
    ];
    for (at, pattern) in patterns.iter().enumerate() {
        relay.expose(&relay.dora, "agent", pattern, true).await;
        relay.ana.send(&relay.request(&format!("m{at}"), &asker, &asked)).await.is(201);
        done(relay.ana.get(&format!("/agents/{asked}")).await);
        relay.expose(&relay.dora, "agent", pattern, false).await;
        refused(relay.ana.send(&relay.request("no", &asker, &asked)).await, 404);
    }
    for pattern in ["other/*".to_owned(), format!("{team}/other/*"), format!("{team}/{user}/other")] {
        relay.expose(&relay.dora, "agent", &pattern, true).await;
        refused(relay.ana.send(&relay.request("no", &asker, &asked)).await, 404);
    }
    // What the other side exposes is its own alone.
    relay.expose(&relay.ana, "agent", "*", true).await;
    refused(relay.ana.send(&relay.request("no", &asker, &asked)).await, 404);
}

#[tokio::test]
async fn by_default_only_signed_messages_enter() {
    let relay = Relay::start().await;
    let (asker, asked) = pair(&relay).await;
    relay.linked().await;
    relay.expose(&relay.dora, "agent", "*", true).await;
    refused(relay.ana.send(&relay.request("m1", &asker, &asked)).await, 403);
    relay.register(&relay.ana, &key(1)).await;
    relay.ana.send(&signed(&key(1), relay.request("m2", &asker, &asked))).await.is(201);
    relay.trusts(&relay.dora).await;
    relay.ana.send(&relay.request("m3", &asker, &asked)).await.is(201);
}

#[tokio::test]
async fn ips_list_the_addresses_that_may_enter() {
    let relay = Relay::start().await;
    let (asker, asked) = pair(&relay).await;
    relay.linked().await;
    relay.expose(&relay.dora, "agent", "*", true).await;
    let rules = |ips: &str| {
        let rules = json!({"signed_only": false, "ips": ips});
        let path = relay.link_of(&relay.dora, "rules");
        let dora = relay.dora.clone();
        async move { done(dora.put(&path, rules).await) }
    };
    rules("203.0.113.7,198.51.100.2").await;
    refused(relay.ana.send(&relay.request("m1", &asker, &asked)).await, 403);
    rules("").await;
    relay.ana.send(&relay.request("m2", &asker, &asked)).await.is(201);
}

#[tokio::test]
async fn the_policy_still_decides() {
    let relay = Relay::start().await;
    let (asker, asked) = pair(&relay).await;
    relay.linked().await;
    relay.expose(&relay.dora, "agent", "*", true).await;
    relay.trusts(&relay.dora).await;
    done(relay.dora.announce(&asked, json!({"allow": ["org"]})).await);
    relay.ana.send(&relay.request("m1", &asker, &asked)).await.refused(403);
}

#[tokio::test]
async fn either_side_ends_it() {
    let relay = Relay::start().await;
    let (asker, asked) = pair(&relay).await;
    for (at, member) in [&relay.ana, &relay.dora].into_iter().enumerate() {
        relay.linked().await;
        relay.expose(&relay.dora, "agent", "*", true).await;
        relay.trusts(&relay.dora).await;
        relay.ana.send(&relay.request(&format!("m{at}"), &asker, &asked)).await.is(201);
        done(member.post(&relay.link_of(member, "revoke"), json!({})).await);
        refused(relay.ana.send(&relay.request("no", &asker, &asked)).await, 404);
    }
}

#[tokio::test]
async fn both_sides_see_the_link_and_its_record() {
    let relay = Relay::start().await;
    relay.linked().await;
    let pattern = format!("{}/{}/{}", relay.dora.team(), relay.dora.user(), relay.name("billing"));
    relay.expose(&relay.dora, "agent", &pattern, true).await;
    for member in [&relay.ana, &relay.dora] {
        let links = done(member.get("/links").await).to_string();
        for word in [relay.ana.org(), relay.dora.org(), "active", pattern.as_str()] {
            assert!(links.contains(word), "{word}: {links}");
        }
    }
}

#[tokio::test]
async fn only_admins_change_a_link() {
    let relay = Relay::start().await;
    relay.linked().await;
    let exposure = json!({"kind": "agent", "pattern": "*", "on": true});
    refused(relay.beto.put(&relay.link_of(&relay.ana, "expose"), exposure.clone()).await, 403);
    refused(relay.beto.put(&relay.link_of(&relay.ana, "rules"), json!({"signed_only": false})).await, 403);
    refused(relay.beto.post(&relay.link_of(&relay.ana, "revoke"), json!({})).await, 403);
    refused(relay.dora.put(&relay.link_of(&relay.ana, "expose"), exposure).await, 404);
    let wrong = json!({"kind": "topic", "pattern": "*", "on": true});
    refused(relay.ana.put(&relay.link_of(&relay.ana, "expose"), wrong).await, 422);
}
