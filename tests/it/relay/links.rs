//! Between organisations nothing is seen or written without an active link, and then only what is exposed.

use serde_json::{Value, json};

use super::target::{Bench, answer, key, link_openly, request, signed_by};

const BILLING: &str = "globex/general/dora/billing";
const CLI: &str = "acme/general/ana/cli";

async fn pair() -> Bench {
    let bench = Bench::start().await;
    bench.ana.announce(CLI, json!({})).await.is(201);
    bench.dora.announce(BILLING, json!({"allow": ["org:acme"]})).await.is(201);
    bench
}

async fn linked(bench: &Bench) {
    bench.ana.post("/orgs/acme/links", json!({"other": "globex"})).await.is(201);
    bench.dora.post("/orgs/globex/links", json!({"other": "acme"})).await.is(200);
}

async fn expose(bench: &Bench, pattern: &str, on: bool) -> Value {
    let body = json!({"kind": "agent", "pattern": pattern, "on": on});
    bench.dora.put("/orgs/globex/links/acme/expose", body).await.is(200)
}

async fn signed_request(bench: &Bench, id: &str) -> super::target::Reply {
    bench.ana.send(&signed_by(&key(1), request(id, CLI, BILLING))).await
}

async fn with_key(bench: &Bench) {
    let public_key = key(1).verifying_key().to_string();
    bench.ana.put("/nodes/key", json!({"public_key": public_key})).await.is(200);
}

#[tokio::test]
async fn without_a_link_the_other_side_does_not_exist() {
    let bench = pair().await;
    with_key(&bench).await;
    let hidden = signed_request(&bench, "m1").await.refused(404);
    let missing = bench.ana.send(&request("m1", CLI, "nowhere/general/dora/billing")).await.refused(404);
    assert_eq!(hidden.replace("globex", "ORG"), missing.replace("nowhere", "ORG"));
    bench.ana.get(&format!("/agents/{BILLING}")).await.refused(404);
    bench.ana.get(&format!("/agents/{BILLING}/key")).await.refused(404);
}

#[tokio::test]
async fn a_proposal_is_not_yet_a_link_and_a_link_exposes_nothing() {
    let bench = pair().await;
    with_key(&bench).await;
    let proposed = bench.ana.post("/orgs/acme/links", json!({"other": "globex"})).await.is(201);
    assert_eq!(proposed["state"], "proposed");
    bench.ana.post("/orgs/acme/links", json!({"other": "globex"})).await.is(200);
    expose(&bench, "*", true).await;
    signed_request(&bench, "m1").await.refused(404);
    let active = bench.dora.post("/orgs/globex/links", json!({"other": "acme"})).await.is(200);
    assert_eq!(active["state"], "active");
    signed_request(&bench, "m1").await.is(201);
    expose(&bench, "*", false).await;
    signed_request(&bench, "m2").await.refused(404);
    bench.ana.get(&format!("/agents/{BILLING}")).await.refused(404);
}

#[tokio::test]
async fn by_default_only_signed_messages_enter_and_addresses_can_be_listed() {
    let bench = pair().await;
    with_key(&bench).await;
    linked(&bench).await;
    expose(&bench, "*", true).await;
    bench.ana.send(&request("m1", CLI, BILLING)).await.refused(403);
    signed_request(&bench, "m1").await.is(201);
    let rules = "/orgs/globex/links/acme/rules";
    bench.dora.put(rules, json!({"signed_only": false})).await.is(200);
    bench.ana.send(&request("m2", CLI, BILLING)).await.is(201);
    let set = bench.dora.put(rules, json!({"ips": "203.0.113.7, 198.51.100.2"})).await.is(200);
    assert_eq!(set["rules"]["globex"], json!({"signed_only": false, "ips": "203.0.113.7,198.51.100.2"}));
    bench.ana.send(&request("m3", CLI, BILLING)).await.refused(403);
    bench.dora.put(rules, json!({"ips": "203.0.113.7,127.0.0.1"})).await.is(200);
    bench.ana.send(&request("m3", CLI, BILLING)).await.is(201);
    for wrong in [json!({"ips": "acme.example"}), json!({"ips": ["127.0.0.1"]}), json!({"signed_only": "no"})]
    {
        bench.dora.put(rules, wrong).await.refused(422);
    }
}

#[tokio::test]
async fn the_policy_still_decides_over_a_link() {
    let bench = pair().await;
    link_openly(&bench).await;
    bench.dora.announce(BILLING, json!({"allow": ["org"]})).await.is(200);
    let refused = bench.ana.send(&request("m1", CLI, BILLING)).await.refused(403);
    assert_eq!(refused, format!("{BILLING} takes requests only from its organization"));
    // A handle is one of the agent's own organisation.
    bench.dora.announce(BILLING, json!({"allow": ["ana"]})).await.is(200);
    bench.ana.send(&request("m1", CLI, BILLING)).await.refused(403);
    bench.dora.announce(BILLING, json!({})).await.is(200);
    bench.ana.send(&request("m1", CLI, BILLING)).await.refused(403);
    bench.dora.announce(BILLING, json!({"allow": ["org:acme"]})).await.is(200);
    bench.ana.send(&request("m1", CLI, BILLING)).await.is(201);
}

#[tokio::test]
async fn an_answer_needs_the_link_and_the_askers_rules_but_no_exposure() {
    let bench = pair().await;
    with_key(&bench).await;
    linked(&bench).await;
    expose(&bench, "*", true).await;
    signed_request(&bench, "m1").await.is(201);
    signed_request(&bench, "m2").await.is(201);
    bench.dora.send(&answer("reply", "r1", BILLING, "m1")).await.refused(403);
    let public_key = key(2).verifying_key().to_string();
    bench.dora.put("/nodes/key", json!({"public_key": public_key})).await.is(200);
    bench.dora.send(&signed_by(&key(2), answer("reply", "r1", BILLING, "m1"))).await.is(201);
    assert_eq!(bench.ana.take_ids(CLI).await, ["r1"]);
    bench.ana.post("/orgs/acme/links/globex/revoke", json!({})).await.is(200);
    bench.dora.send(&signed_by(&key(2), answer("reply", "r2", BILLING, "m2"))).await.refused(403);
}

#[tokio::test]
async fn revoking_ends_it_and_a_new_proposal_starts_from_nothing() {
    let bench = pair().await;
    link_openly(&bench).await;
    bench.ana.send(&request("m1", CLI, BILLING)).await.is(201);
    let revoked = bench.dora.post("/orgs/globex/links/acme/revoke", json!({})).await.is(200);
    assert_eq!(revoked["state"], "revoked");
    bench.ana.send(&request("m2", CLI, BILLING)).await.refused(404);
    bench.ana.put("/orgs/acme/links/globex/rules", json!({"signed_only": true})).await.refused(404);
    bench.ana.post("/orgs/acme/links/globex/revoke", json!({})).await.refused(404);
    bench.dora.post("/orgs/globex/links", json!({"other": "acme"})).await.is(201);
    let again = bench.ana.post("/orgs/acme/links", json!({"other": "globex"})).await.is(200);
    assert_eq!(again["state"], "active");
    assert_eq!(again["expose"], json!({"acme": [], "globex": []}));
    assert_eq!(again["rules"]["globex"], json!({"signed_only": true, "ips": ""}));
    bench.ana.send(&request("m2", CLI, BILLING)).await.refused(404);
}

#[tokio::test]
async fn both_sides_see_the_link_and_what_changed() {
    let bench = pair().await;
    link_openly(&bench).await;
    bench
        .dora
        .put("/orgs/globex/links/acme/expose", json!({"kind": "pub", "pattern": "erp/*"}))
        .await
        .is(200);
    for (node, org, other) in [(&bench.beto, "acme", "globex"), (&bench.dora, "globex", "acme")] {
        let links = node.get("/links").await.is(200)["links"].as_array().unwrap().clone();
        assert_eq!(links.len(), 1);
        let link = &links[0];
        assert_eq!(
            (&link["org"], &link["other"], &link["state"]),
            (&json!(org), &json!(other), &json!("active"))
        );
        let exposes = json!([{"kind": "agent", "pattern": "*"}, {"kind": "pub", "pattern": "erp/*"}]);
        assert_eq!(link["expose"]["globex"], exposes);
        let log = link["log"].as_array().unwrap();
        assert_eq!(log.len(), 7);
        assert_eq!((&log[0]["by"], &log[0]["what"]), (&json!("acme/ana"), &json!("acme proposed the link")));
        assert_eq!(log[6]["what"], "globex exposes pub erp/*");
    }
    assert_eq!(bench.eva.get("/links").await.is(200)["links"], json!([]));
}

#[tokio::test]
async fn only_admins_change_links() {
    let bench = pair().await;
    linked(&bench).await;
    let expose = json!({"kind": "agent", "pattern": "*", "on": true});
    let path = "/orgs/acme/links/globex";
    bench.beto.put(&format!("{path}/expose"), expose.clone()).await.refused(403);
    bench.beto.put(&format!("{path}/rules"), json!({"signed_only": false})).await.refused(403);
    bench.beto.post(&format!("{path}/revoke"), json!({})).await.refused(403);
    bench.beto.post("/orgs/acme/links", json!({"other": "solo"})).await.refused(403);
    bench.dora.put(&format!("{path}/expose"), expose.clone()).await.refused(404);
    for (method, call, body) in [
        (reqwest::Method::PUT, "expose", expose),
        (reqwest::Method::PUT, "rules", json!({"signed_only": false})),
        (reqwest::Method::POST, "revoke", json!({})),
    ] {
        let ask = async |other: &str| {
            let request = bench.ana.request(method.clone(), &format!("/orgs/acme/links/{other}/{call}"));
            bench.ana.send_request(request.json(&body)).await.refused(404)
        };
        assert_eq!(ask("solo").await.replace("solo", "nowhere"), ask("nowhere").await, "{call}");
    }
    bench.ana.post("/orgs/acme/links", json!({"other": "nowhere"})).await.refused(404);
    bench.ana.post("/orgs/acme/links", json!({"other": "acme"})).await.refused(422);
    bench.ana.post("/orgs/acme/links", json!({})).await.refused(422);
    for wrong in [
        json!({"kind": "agent", "pattern": "a/b"}),
        json!({"kind": "agent", "pattern": "*/b/c"}),
        json!({"kind": "topic", "pattern": "*"}),
        json!({"kind": "pub", "pattern": "a/b/c"}),
        json!({"kind": "agent", "pattern": "*", "on": 1}),
        json!({"kind": "agent"}),
    ] {
        bench.ana.put(&format!("{path}/expose"), wrong).await.refused(422);
    }
}
