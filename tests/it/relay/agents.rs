//! Announcing agents, their policy and presence, who sees whom.

use serde_json::{Value, json};

use super::target::{Bench, link_openly, request};

const CLOSE: &str = "acme/finance/ana/close";

#[tokio::test]
async fn the_first_announcement_makes_an_agent_and_later_ones_change_it() {
    let bench = Bench::start().await;
    let path = format!("/agents/{CLOSE}");
    bench.ana.get(&path).await.refused(404);
    let made = bench.ana.announce(CLOSE, json!({"description": "closes", "adapter": "cli"})).await.is(201);
    assert_eq!(made["address"], CLOSE);
    assert_eq!(made["accepts"], "team finance");
    assert_eq!(made["online"], false, "an announcement is no take");
    assert_eq!(made["node"], "laptop");
    let changed = bench.ana_server.put(&path, json!({"description": "closes more"})).await.is(200);
    assert_eq!((&changed["description"], &changed["adapter"]), (&json!("closes more"), &json!("cli")));
    assert_eq!(changed["node"], "laptop", "only listening changes the node");
}

#[tokio::test]
async fn a_policy_comes_only_with_listening() {
    let bench = Bench::start().await;
    let path = format!("/agents/{CLOSE}");
    let silent = bench.ana.put(&path, json!({"allow": ["org"], "signed_only": true})).await.is(201);
    assert_eq!((&silent["accepts"], &silent["signed_only"]), (&json!("team finance"), &json!(false)));
    let policy =
        json!({"allow": ["beto", "team:ops", "org:globex"], "trust": "full", "encrypted_only": true});
    let open = bench.ana.announce(CLOSE, policy).await.is(200);
    assert_eq!(open["accepts"], "beto, team ops, organization globex");
    assert_eq!((&open["trust"], &open["encrypted_only"]), (&json!("full"), &json!(true)));
    let replaced = bench.ana.announce(CLOSE, json!({})).await.is(200);
    assert_eq!((&replaced["trust"], &replaced["accepts"]), (&json!("none"), &json!("team finance")));
    let stopped = bench.ana.put(&path, json!({"listening": false})).await.is(200);
    assert_eq!(stopped["listening"], false);
}

#[tokio::test]
async fn wrong_announcements_are_refused() {
    let bench = Bench::start().await;
    for wrong in [
        json!({"trust": "full"}),
        json!({"trust": "some"}),
        json!({"allow": "org"}),
        json!({"allow": [1]}),
        json!({"allow": ["role:x"]}),
        json!({"allow": ["Ana"]}),
        json!({"signed_only": "yes"}),
        json!({"encrypted_only": 1}),
        json!({"listening": "yes"}),
        json!({"description": 5}),
        json!({"description": "x".repeat(10_001)}),
        json!({"adapter": []}),
    ] {
        bench.ana.announce(CLOSE, wrong).await.refused(422);
    }
    bench.ana.get(&format!("/agents/{CLOSE}")).await.refused(404);
}

#[tokio::test]
async fn one_announces_only_ones_own() {
    let bench = Bench::start().await;
    bench.beto.announce(CLOSE, json!({})).await.refused(403);
    bench.ana.announce("acme/nowhere/ana/a", json!({})).await.refused(404);
    bench.beto.announce("acme/ops/beto/a", json!({})).await.refused(403);
    // An organisation one is not in looks like one that does not exist.
    let foreign = bench.dora.announce(CLOSE, json!({})).await.refused(404);
    let missing = bench.dora.announce("nowhere/finance/ana/close", json!({})).await.refused(404);
    assert_eq!(foreign.replace("acme", "ORG"), missing.replace("nowhere", "ORG"));
}

#[tokio::test]
async fn an_agent_is_online_for_sixty_seconds_after_a_take() {
    let bench = Bench::start().await;
    bench.ana.announce(CLOSE, json!({})).await.is(201);
    let shown = async || bench.beto.get(&format!("/agents/{CLOSE}")).await.is(200);
    bench.ana_server.take_with(CLOSE, "peek=1").await;
    assert_eq!(shown().await["online"], false, "looking is no sign of life");
    bench.ana_server.take(CLOSE).await;
    let online = shown().await;
    assert_eq!((&online["online"], &online["node"]), (&json!(true), &json!("server")));
    assert_eq!(online["last_seen"], super::target::NOW);
    bench.advance(59);
    assert_eq!(shown().await["online"], true);
    bench.advance(1);
    let offline = shown().await;
    assert_eq!((&offline["online"], &offline["last_seen"]), (&json!(false), &json!(super::target::NOW)));
}

fn addresses(directory: &Value) -> Vec<&str> {
    directory["agents"].as_array().unwrap().iter().map(|agent| agent["address"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_directory_lists_the_organisation_and_what_links_expose() {
    let bench = Bench::start().await;
    let erp = "globex/general/dora/erp";
    bench.ana.announce(CLOSE, json!({})).await.is(201);
    bench.beto.announce("acme/general/beto/cli", json!({})).await.is(201);
    bench.dora.announce(erp, json!({})).await.is(201);
    let mine = bench.caro.get("/directory").await.is(200);
    assert_eq!(addresses(&mine), [CLOSE, "acme/general/beto/cli"]);
    assert!(mine["agents"][0].get("sessions").is_none());
    assert_eq!(addresses(&bench.dora.get("/directory").await.is(200)), [erp]);
    assert!(addresses(&bench.eva.get("/directory").await.is(200)).is_empty());
    link_openly(&bench).await;
    assert_eq!(addresses(&bench.caro.get("/directory").await.is(200)), [CLOSE, "acme/general/beto/cli", erp]);
    let narrow = json!({"kind": "agent", "pattern": "*", "on": false});
    bench.ana.put("/orgs/acme/links/globex/expose", narrow).await.is(200);
    let one = json!({"kind": "agent", "pattern": "finance/*", "on": true});
    bench.ana.put("/orgs/acme/links/globex/expose", one).await.is(200);
    assert_eq!(addresses(&bench.dora.get("/directory").await.is(200)), [CLOSE, erp]);
    bench.ana.take(CLOSE).await;
    assert_eq!(addresses(&bench.dora.get("/directory?online=1").await.is(200)), [CLOSE]);
    assert_eq!(addresses(&bench.beto.get("/directory?online=1&sessions=1").await.is(200)), [CLOSE]);
}

#[tokio::test]
async fn sessions_show_their_titles_only_to_those_who_take_part() {
    let bench = Bench::start().await;
    bench.ana.announce(CLOSE, json!({"allow": ["org"]})).await.is(201);
    bench.beto.announce("acme/finance/beto/cli", json!({})).await.is(201);
    bench.beto.send(&request("m1", "acme/finance/beto/cli", CLOSE)).await.is(201);
    let path = format!("/agents/{CLOSE}");
    for insider in [&bench.ana, &bench.beto] {
        assert_eq!(
            insider.get(&path).await.is(200)["sessions"],
            json!([{"id": "s1", "title": "", "open": true}])
        );
    }
    assert_eq!(bench.caro.get(&path).await.is(200)["sessions"], json!([{"id": "s1"}]));
    link_openly(&bench).await;
    assert_eq!(bench.dora.get(&path).await.is(200)["sessions"], json!([]));
}
