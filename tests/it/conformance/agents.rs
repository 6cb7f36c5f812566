//! «Agentes y presencia».

use serde_json::json;

use super::relay::{Relay, done, refused};

#[tokio::test]
async fn the_first_announcement_creates_an_agent_and_later_ones_change_it() {
    let relay = Relay::start().await;
    let agent = relay.agent(&relay.ana, "close");
    let path = format!("/agents/{agent}");
    relay.ana.get(&path).await.refused(404);
    done(relay.ana.announce(&agent, json!({"description": "closes"})).await);
    assert!(done(relay.beto.get(&path).await).to_string().contains("closes"));
    done(relay.ana_server.announce(&agent, json!({"description": "opens"})).await);
    let shown = done(relay.beto.get(&path).await);
    assert!(shown.to_string().contains("opens"));
    for field in ["online", "last_seen", "node", "accepts", "trust", "encrypted_only"] {
        assert!(shown.get(field).is_some(), "{field}: {shown}");
    }
}

#[tokio::test]
async fn one_announces_only_ones_own_agents() {
    let relay = Relay::start().await;
    let agent = relay.agent(&relay.ana, "close");
    refused(relay.beto.announce(&agent, json!({})).await, 403);
    refused(relay.dora.announce(&agent, json!({})).await, 404);
    let elsewhere = format!("{}/{}/{}/x", relay.ana.org(), relay.name("no-team"), relay.ana.user());
    refused(relay.ana.announce(&elsewhere, json!({})).await, 404);
}

#[tokio::test]
async fn names_are_small_letters_digits_dots_dashes_and_underscores() {
    let relay = Relay::start().await;
    done(relay.ana.announce(&relay.agent(&relay.ana, "a.b_c-9"), json!({})).await);
    for name in ["A", "a%20b", "a%23s1", "%C3%B1"] {
        refused(relay.ana.announce(&format!("{}/{name}", relay.ana.scope), json!({})).await, 422);
    }
}

#[tokio::test]
async fn each_take_is_a_heartbeat() {
    let relay = Relay::start().await;
    let agent = relay.listening(&relay.ana, "close", json!({})).await;
    let path = format!("/agents/{agent}");
    relay.ana.take_with(&agent, "peek=1").await;
    relay.ana_server.take(&agent).await;
    let shown = done(relay.beto.get(&path).await);
    assert_eq!(shown["online"], true);
    assert!(!shown["last_seen"].is_null());
}

#[tokio::test]
async fn the_directory_has_ones_own_and_those_of_the_organisation() {
    let relay = Relay::start().await;
    relay.unlinked().await;
    let (asked, asker) = relay.pair().await;
    let foreign = relay.listening(&relay.dora, "billing", json!({})).await;
    let directory = done(relay.beto.get("/directory").await).to_string();
    assert!(directory.contains(&asked) && directory.contains(&asker) && !directory.contains(&foreign));
    relay.ana.take(&asked).await;
    let online = done(relay.beto.get("/directory?online=1&sessions=1").await).to_string();
    assert!(online.contains(&asked) && !online.contains(&asker));
    let theirs = done(relay.dora.get("/directory").await).to_string();
    assert!(theirs.contains(&foreign) && !theirs.contains(&asked));
}

#[tokio::test]
async fn what_another_organisation_does_not_expose_is_not_there() {
    let relay = Relay::start().await;
    relay.unlinked().await;
    let (asked, _) = relay.pair().await;
    refused(relay.dora.get(&format!("/agents/{asked}")).await, 404);
    refused(relay.dora.get(&format!("/agents/{asked}/key")).await, 404);
    refused(relay.dora.get(&format!("/inbox/{asked}")).await, 404);
}
