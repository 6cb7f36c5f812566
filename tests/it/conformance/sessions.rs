//! «Sesiones».

use serde_json::{Value, json};

use super::relay::{Member, Relay, done, refused, skipped};
use crate::support::redsyn::with;

async fn session_of(relay: &Relay, id: &str, asker: &str, asked: &str, fields: Value) -> String {
    let sent = relay.beto.send(&with(relay.request(id, asker, asked), fields)).await.is(201);
    sent["to"].as_str().unwrap().split_once('#').unwrap().1.to_owned()
}

fn page(agent: &str, session: &str) -> String {
    format!("/agents/{agent}/sessions/{session}")
}

#[tokio::test]
async fn a_new_thread_has_a_new_session_and_new_forces_one() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    let thread = json!({"thread": relay.name("m1")});
    let first = session_of(&relay, "m1", &asker, &asked, json!({})).await;
    let second = session_of(&relay, "m2", &asker, &asked, json!({})).await;
    assert_ne!(first, second);
    assert_eq!(session_of(&relay, "m3", &asker, &asked, thread).await, first, "a follow-up");
    let forced = session_of(&relay, "m4", &asker, &format!("{asked}#new"), json!({})).await;
    assert!(forced != first && forced != second);
    assert_eq!(session_of(&relay, "m5", &asker, &format!("{asked}#{second}"), json!({})).await, second);
    refused(relay.beto.send(&relay.request("m6", &asker, &format!("{asked}#s999"))).await, 404);
}

#[tokio::test]
async fn the_owner_sees_all_a_participant_theirs_the_rest_that_it_exists() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    let session = session_of(&relay, "m1", &asker, &asked, json!({})).await;
    let own = relay.request("own", &asked, &format!("{asked}#{session}"));
    relay.ana.send(&own).await.is(201);
    let shown = async |member: &Member| done(member.get(&page(&asked, &session)).await).to_string();
    let (owner, participant) = (shown(&relay.ana).await, shown(&relay.beto).await);
    assert!(owner.contains(&relay.name("m1")) && owner.contains(&relay.name("own")));
    assert!(participant.contains(&relay.name("m1")) && !participant.contains(&relay.name("own")));
    refused(relay.dora.get(&page(&asked, &session)).await, 404);
    let Some(caro) = &relay.caro else { return skipped("nobody else in the organisation") };
    let existence = shown(caro).await;
    assert!(existence.contains(&session) && !existence.contains(&relay.name("m1")));
}

#[tokio::test]
async fn only_the_owner_gives_a_title() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    let session = session_of(&relay, "m1", &asker, &asked, json!({})).await;
    done(relay.ana.put(&page(&asked, &session), json!({"title": "March"})).await);
    assert!(done(relay.beto.get(&page(&asked, &session)).await).to_string().contains("March"));
    refused(relay.beto.put(&page(&asked, &session), json!({"title": "Mine"})).await, 403);
    refused(relay.dora.put(&page(&asked, &session), json!({"title": "Mine"})).await, 404);
}

#[tokio::test]
async fn a_closed_session_refuses_a_request_and_a_follow_up_opens_another() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    let session = session_of(&relay, "m1", &asker, &asked, json!({})).await;
    done(relay.ana.post(&format!("{}/close", page(&asked, &session)), json!({})).await);
    refused(relay.beto.send(&relay.request("m2", &asker, &format!("{asked}#{session}"))).await, 409);
    let next = session_of(&relay, "m3", &asker, &asked, json!({"thread": relay.name("m1")})).await;
    assert_ne!(next, session);
}
