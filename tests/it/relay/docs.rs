//! The calls that docs/relay.md shows, as they stand there.

use redsyn_bridge::domain::clock::SystemClock;
use redsyn_bridge::domain::random::SystemRandom;
use redsyn_bridge::proto::redsyn::ids::VERSION;
use redsyn_bridge::redsyn_client::RelayClient;
use redsyn_bridge::runtime::relay_host::RelayHost;
use serde_json::{Value, json};

const PAGE: &str = include_str!("../../../docs/relay.md");

#[tokio::test]
async fn the_calls_of_the_page_make_a_link_that_mail_can_cross() {
    assert!(PAGE.contains(VERSION), "the page shows the version that is spoken");
    let folder = tempfile::tempdir().unwrap();
    let clock = SystemClock::shared();
    let relay = RelayHost::start(
        folder.path(),
        "127.0.0.1:0",
        "the test's port",
        clock.clone(),
        SystemRandom::shared(),
    )
    .await
    .unwrap();
    let base = crate::support::world::base(relay.address());
    let client = async |email: &str| {
        let token = relay.add_person(email, "enterprise", "laptop").await.unwrap();
        RelayClient::new(&base.parse().unwrap(), token, VERSION, clock.clone()).unwrap()
    };
    let (ana, bob) = (client("ana@acme.example").await, client("bob@globex.example").await);
    let mut calls = 0;
    for line in PAGE.lines().filter_map(|line| line.strip_prefix("    call ")) {
        let (head, body) = line.split_once('\'').unwrap();
        let body: Value = serde_json::from_str(body.strip_suffix('\'').unwrap()).unwrap();
        let [method, path, who] = head.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{line}") };
        let client = if who == "\"$ANA\"" { &ana } else { &bob };
        let answered = match method {
            "POST" => client.post(path, &body).await,
            _ => client.put(path, &body).await,
        };
        answered.unwrap_or_else(|error| panic!("{line}: {error}"));
        calls += 1;
    }
    assert!(calls >= 8, "{calls}");
    let listening = json!({"listening": true, "allow": ["org:globex"]});
    ana.put("/agents/acme/finance/ana/close", &listening).await.unwrap();
    // Without the link, or without the exposure, this agent would not be there for bob.
    bob.get("/agents/acme/finance/ana/close").await.unwrap();
    assert!(bob.get("/agents/acme/finance/ana/other").await.is_err());
}
