//! Many agents on one bridge.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::iter;
use redsyn_bridge::domain::clock::SystemClock;
use serde_json::json;

use crate::support::bridge::BridgeProcess;
use crate::support::proxy::Proxy;
use crate::support::world::{World, base};

const AGENTS: usize = 200;
/// Agents that nobody runs.
const ABSENT: usize = 10;
/// Only a test that has failed waits for it.
const HANG: Duration = Duration::from_secs(60);
/// How many do something at once.
const AT_ONCE: usize = 16;

async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let waited = tokio::time::timeout(HANG, async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    });
    assert!(waited.await.is_ok(), "never: {what}");
}

#[tokio::test]
async fn each_of_two_hundred_agents_has_one_held_call_while_it_is_alive_and_gets_its_mail() {
    let world = World::new().await;
    let bob = world.bob.relay(&world.url(), SystemClock::shared());
    let everybody = json!({"kind": "agent", "pattern": "*", "on": true});
    bob.put("/orgs/globex/links/acme/expose", &everybody).await.unwrap();
    let proxy = Proxy::start(world.relay.address()).await;
    let names: Vec<String> = (0..AGENTS).map(|n| format!("agent{n}")).collect();
    let agents: String =
        names.iter().map(|name| format!("\n    {name}: {{allow: [\"org:acme\"]}}")).collect();
    let folder = world.folder.path().join("globex");
    let mut many = BridgeProcess::start_with("sqlite", &folder, &world.bob, &base(proxy.address), &agents);
    let close = BridgeProcess::start(&world.folder.path().join("acme"), &world.ana, &world.bob, &world.url());
    close.register().await;
    many.log_of("relay_link_up").await;
    let directory = bob.get("/directory").await.unwrap();
    let is_one = |agent: &&serde_json::Value| agent["address"].as_str().unwrap().contains("/bob/agent");
    assert_eq!(
        directory["agents"].as_array().unwrap().iter().filter(is_one).count(),
        AGENTS,
        "all are announced"
    );

    let alive = &names[..AGENTS - ABSENT];
    iter(alive)
        .for_each_concurrent(AT_ONCE, async |name| {
            many.other(name).post("/register", &json!({"agent": name})).await.unwrap();
        })
        .await;
    until("each that is alive has a held call", async || {
        proxy.held().into_iter().filter(|(now, _)| *now == 1).count() == alive.len()
    })
    .await;

    iter(&names)
        .for_each_concurrent(AT_ONCE, async |name| {
            let to = format!("globex/erp/bob/{name}");
            close.send(&json!({"to": to, "kind": "request", "body": {"text": name}})).await;
        })
        .await;
    iter(alive)
        .for_each_concurrent(AT_ONCE, async |name| {
            let pulled = many.other(name).post("/v1/pull", &json!({"waitSeconds": 25})).await.unwrap();
            let messages = pulled["messages"].as_array().unwrap();
            assert_eq!(messages.len(), 1, "{name}: {pulled}");
            assert_eq!(messages[0]["body"], json!({"text": name}));
        })
        .await;
    let held = proxy.held();
    assert!(held.iter().all(|(_, most)| *most == 1), "never two for one mailbox");
    assert_eq!(held.len(), alive.len(), "and none for who is not there");
}
