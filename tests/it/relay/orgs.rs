//! Invitations, joining, and what an organisation uses of its plan.

use redsyn_bridge::crypto::base64url;
use serde_json::{Value, json};

use super::target::{Bench, request, with};

async fn invites(node: &super::target::Node) -> Value {
    node.get("/me").await.is(200)["invites"].clone()
}

#[tokio::test]
async fn an_invited_person_joins_once_with_their_own_token() {
    let bench = Bench::start().await;
    assert_eq!(invites(&bench.eva).await, json!([]));
    let body = json!({"email": "Eva@Initech.example", "team": "finance"});
    bench.ana.post("/orgs/acme/invites", body.clone()).await.is(201);
    let again = bench.ana.post("/orgs/acme/invites", body).await.is(201);
    assert_eq!(again, json!({"org": "acme", "email": "eva@initech.example", "team": "finance"}));
    assert_eq!(invites(&bench.eva).await, json!([{"org": "acme", "team": "finance"}]));
    bench.eva.post("/orgs/acme/join", json!({"me": "ana"})).await.refused(409);
    for wrong in [json!({}), json!({"me": "Eva"}), json!({"me": "e".repeat(65)})] {
        bench.eva.post("/orgs/acme/join", wrong).await.refused(422);
    }
    let joined = bench.eva.post("/orgs/acme/join", json!({"me": "eva"})).await.is(200);
    assert_eq!(joined, json!({"org": "acme", "me": "eva", "team": "finance"}));
    let me = bench.eva.get("/me").await.is(200);
    assert_eq!(me["invites"], json!([]));
    assert_eq!(me["orgs"][0]["teams"], json!(["finance"]));
    assert_eq!(me["orgs"][0]["admin"], false);
    bench.eva.post("/orgs/acme/join", json!({"me": "eva2"})).await.refused(409);
    bench.eva.announce("acme/finance/eva/cli", json!({})).await.is(201);
    bench.eva.announce("acme/ops/eva/cli", json!({})).await.refused(403);
    assert_eq!(bench.service.invites().await.unwrap(), []);
}

#[tokio::test]
async fn the_latest_invitation_decides_the_team() {
    let bench = Bench::start().await;
    for team in ["finance", "ops"] {
        let body = json!({"email": "eva@initech.example", "team": team});
        bench.ana.post("/orgs/acme/invites", body).await.is(201);
    }
    assert_eq!(bench.service.invites().await.unwrap().len(), 1);
    assert_eq!(bench.eva.post("/orgs/acme/join", json!({"me": "eva"})).await.is(200)["team"], "ops");
}

#[tokio::test]
async fn only_admins_invite_and_only_the_invited_join() {
    let bench = Bench::start().await;
    let body = json!({"email": "eva@initech.example", "team": "finance"});
    bench.beto.post("/orgs/acme/invites", body.clone()).await.refused(403);
    bench.dora.post("/orgs/acme/invites", body.clone()).await.refused(404);
    bench.ana.post("/orgs/nowhere/invites", body).await.refused(404);
    for (wrong, status) in [
        (json!({"email": "eva@initech.example", "team": "nowhere"}), 404),
        (json!({"email": "dora@globex.example"}), 422),
        (json!({"team": "finance"}), 422),
        (json!({"email": "eva", "team": "finance"}), 422),
        (json!({"email": "@x", "team": "finance"}), 422),
        (json!({"email": "e va@initech.example", "team": "finance"}), 422),
        (json!({"email": format!("{}@x.example", "e".repeat(250)), "team": "finance"}), 422),
        (json!({"email": "Ana@Acme.example", "team": "finance"}), 409),
    ] {
        bench.ana.post("/orgs/acme/invites", wrong).await.refused(status);
    }
    // Without an invitation, an organisation reads like one that does not exist.
    let there = bench.eva.post("/orgs/acme/join", json!({"me": "eva"})).await.refused(404);
    let none = bench.eva.post("/orgs/nowhere/join", json!({"me": "eva"})).await.refused(404);
    assert_eq!(there.replace("acme", "ORG"), none.replace("nowhere", "ORG"));
    bench.beto.post("/orgs/acme/join", json!({"me": "beto2"})).await.refused(409);
}

#[tokio::test]
async fn usage_is_counted_and_shown_to_members() {
    let bench = Bench::start().await;
    let (a, b) = ("solo/general/fede/a", "solo/general/fede/b");
    bench.fede.announce(a, json!({})).await.is(201);
    bench.fede.announce(b, json!({})).await.is(201);
    let zip = json!({"files": {"zip": base64url::zip_encode(b"PK123456")}});
    bench.fede.send(&with(request("m1", a, "b"), zip)).await.is(201);
    bench.fede.send(&request("m2", a, "b")).await.is(201);
    bench.fede.send(&request("m2", a, "b")).await.is(201);
    bench.fede.post("/orgs/solo/links", json!({"other": "acme"})).await.is(201);
    let hook = format!("/agents/{a}/webhook");
    bench.fede.put(&hook, json!({"url": "https://hooks.solo.example/"})).await.is(200);
    let usage = bench.fede.get("/orgs/solo/usage").await.is(200);
    assert_eq!((&usage["org"], &usage["plan"]), (&json!("solo"), &json!("free")));
    assert_eq!(usage["used"], json!({"messages": 2, "files": 8, "agents": 2, "links": 1, "webhooks": 1}));
    let limits = json!({"messages": 1000, "files": 50 << 20, "agents": 5, "links": 1, "webhooks": 1,
                        "ttl": 86_400});
    assert_eq!(usage["limits"], limits);
    bench.advance(86_400);
    let tomorrow = bench.fede.get("/orgs/solo/usage").await.is(200);
    assert_eq!(tomorrow["used"]["messages"], 0);
    let unlimited = bench.beto.get("/orgs/acme/usage").await.is(200);
    assert_eq!(unlimited["limits"]["messages"], json!(null));
    bench.fede.get("/orgs/acme/usage").await.refused(404);
    bench.fede.get("/orgs/nowhere/usage").await.refused(404);
}

#[tokio::test]
async fn an_invitation_finds_its_person_however_either_was_typed() {
    let bench = Bench::start().await;
    let person = bench.service.create_person("Gina@Initech.example", "pro").await.unwrap();
    let token = bench.service.create_node(person, "pc").await.unwrap();
    let gina = super::target::Node::new(&bench.ana.base_url, token.expose());
    assert_eq!(gina.get("/me").await.is(200)["email"], "gina@initech.example");
    let body = json!({"email": "gINA@INITECH.example", "team": "finance"});
    bench.ana.post("/orgs/acme/invites", body).await.is(201);
    assert_eq!(invites(&gina).await, json!([{"org": "acme", "team": "finance"}]));
    gina.post("/orgs/acme/join", json!({"me": "gina"})).await.is(200);
    let again = json!({"email": "GINA@initech.example", "team": "ops"});
    bench.ana.post("/orgs/acme/invites", again).await.refused(409);
}
