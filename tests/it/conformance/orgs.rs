//! «Organizaciones».

use serde_json::json;

use super::relay::{Relay, done, refused};

#[tokio::test]
async fn whoever_founds_an_organisation_is_its_admin_in_the_team_general() {
    let relay = Relay::start().await;
    let org = relay.name("initech");
    done(relay.dora.post("/orgs", json!({"handle": org, "me": "boss"})).await);
    refused(relay.ana.post("/orgs", json!({"handle": org, "me": "boss"})).await, 409);
    for wrong in [
        json!({"handle": "Initech", "me": "eva"}),
        json!({"handle": "x"}),
        json!({"handle": "x", "me": "a b"}),
    ] {
        refused(relay.dora.post("/orgs", wrong).await, 422);
    }
    done(relay.dora.announce(&format!("{org}/general/boss/a"), json!({})).await);
    let teams = format!("/orgs/{org}/teams");
    done(relay.dora.post(&teams, json!({"handle": "erp"})).await);
    refused(relay.dora.post(&teams, json!({"handle": "erp"})).await, 409);
    refused(relay.dora.post(&teams, json!({"handle": "ERP"})).await, 422);
    refused(relay.ana.post(&teams, json!({"handle": "x"})).await, 404);
}

#[tokio::test]
async fn a_member_joins_a_team_by_an_admins_hand() {
    let relay = Relay::start().await;
    let team = relay.name("night");
    let org = relay.ana.org();
    done(relay.ana.post(&format!("/orgs/{org}/teams"), json!({"handle": team})).await);
    let agent = format!("{org}/{team}/{}/a", relay.beto.user());
    refused(relay.beto.announce(&agent, json!({})).await, 403);
    let members = format!("/orgs/{org}/teams/{team}/members");
    let who = json!({"who": relay.beto.user()});
    refused(relay.beto.post(&members, who.clone()).await, 403);
    refused(relay.ana.post(&members, json!({"who": relay.name("nobody")})).await, 404);
    let nowhere = format!("/orgs/{org}/teams/{}/members", relay.name("none"));
    refused(relay.ana.post(&nowhere, who.clone()).await, 404);
    for _ in 0..2 {
        done(relay.ana.post(&members, who.clone()).await);
    }
    done(relay.beto.announce(&agent, json!({})).await);
}

#[tokio::test]
async fn an_invitation_is_an_admins_and_names_a_team() {
    let relay = Relay::start().await;
    let invites = format!("/orgs/{}/invites", relay.ana.org());
    let invite = json!({"email": format!("{}@new.example", relay.name("gina")), "team": relay.ana.team()});
    refused(relay.beto.post(&invites, invite.clone()).await, 403);
    refused(relay.dora.post(&invites, invite.clone()).await, 404);
    done(relay.ana.post(&invites, invite).await);
    refused(relay.ana.post(&invites, json!({"email": 5, "team": relay.ana.team()})).await, 422);
    let stranger = relay.dora.post(&format!("/orgs/{}/join", relay.ana.org()), json!({"me": "dora"})).await;
    refused(stranger, 404);
}

#[tokio::test]
async fn usage_is_shown_to_members() {
    let relay = Relay::start().await;
    let usage = format!("/orgs/{}/usage", relay.ana.org());
    assert!(done(relay.ana.get(&usage).await).is_object());
    refused(relay.dora.get(&usage).await, 404);
}
