//! «Límites», as far as they are met in a few calls: on the free plan.

use serde_json::json;

use super::relay::{Relay, done, now, skipped};
use crate::support::redsyn::with;

#[tokio::test]
async fn agents_beyond_the_plan_are_403_with_quota() {
    let relay = Relay::start().await;
    let Some(free) = &relay.free else { return skipped("nobody on the free plan") };
    let org = relay.name("small");
    done(free.post("/orgs", json!({"handle": org, "me": "me"})).await);
    for agent in 0..5 {
        done(free.announce(&format!("{org}/general/me/a{agent}"), json!({})).await);
    }
    let more = free.announce(&format!("{org}/general/me/a5"), json!({})).await.is(403);
    assert_eq!(more["quota"], true);
    done(free.announce(&format!("{org}/general/me/a0"), json!({})).await);
}

#[tokio::test]
async fn the_plan_caps_how_long_a_message_may_wait() {
    let relay = Relay::start().await;
    let Some(free) = &relay.free else { return skipped("nobody on the free plan") };
    let org = relay.name("small");
    done(free.post("/orgs", json!({"handle": org, "me": "me"})).await);
    let agent = format!("{org}/general/me/a");
    done(free.announce(&agent, json!({})).await);
    free.send(&with(relay.request("m1", &agent, &agent), json!({"ttl": 9_000_000}))).await.is(201);
    let expires = free.take(&agent).await[0]["expires"].as_f64().unwrap();
    assert!((expires - now() as f64 - 86_400.0).abs() < 60.0, "a day, not {expires}");
}

#[tokio::test]
async fn a_days_messages_end_with_429_and_quota() {
    let relay = Relay::start().await;
    let Some(free) = &relay.free else { return skipped("nobody on the free plan") };
    let org = relay.name("small");
    done(free.post("/orgs", json!({"handle": org, "me": "me"})).await);
    let agent = format!("{org}/general/me/a");
    done(free.announce(&agent, json!({})).await);
    let mut last = 201;
    for at in 0..1001 {
        let sent = free.send(&relay.request(&format!("m{at}"), &agent, &agent)).await;
        last = sent.status;
        if last != 201 {
            assert_eq!((at, sent.is(429)["quota"].clone()), (1000, json!(true)));
        }
    }
    assert_eq!(last, 429);
}
