//! An event from one organisation's bridge to another's, through our own relay.

use serde_json::json;

use crate::support::bridge::BridgeProcess;
use crate::support::world::{Member, World};

#[tokio::test]
async fn an_event_reaches_a_linked_organisation_that_listens() {
    let world = World::new().await;
    let exposure = json!({"kind": "sub", "pattern": "finance/invoices", "on": true});
    let ana = world.ana.relay(&world.url(), std::sync::Arc::new(world.clock.clone()));
    ana.put("/orgs/acme/links/globex/expose", &exposure).await.unwrap();
    let start = |member: &Member, other| {
        BridgeProcess::start(&world.folder.path().join(member.org), member, other, &world.url())
    };
    let close = start(&world.ana, &world.bob);
    let mut billing = start(&world.bob, &world.ana);
    let topics = "      topics: ['topic:acme/finance/invoices']\n      allow:";
    billing.reconfigure("      allow:", topics);
    close.register().await;
    billing.register().await;
    billing.log_of("relay_link_up").await;

    close.send(&json!({"to": "topic:finance/invoices", "kind": "message", "body": {"invoice": 7}})).await;
    let event = billing.pull_one().await;
    assert_eq!((&event["body"], &event["kind"]), (&json!({"invoice": 7}), &json!("message")));
    let redsyn = &event["redsyn"];
    assert_eq!((&redsyn["kind"], &redsyn["verified"]), (&json!("event"), &json!(true)));
    assert_eq!(redsyn["topic"], "topic:acme/finance/invoices");
    assert_eq!(event["from"], "acme/finance/ana/close");
    billing.ack(&event).await;
}
