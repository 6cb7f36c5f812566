//! Sessions: who sees how much of one, and what closing it means.

use serde_json::{Value, json};

use super::target::{Bench, answer, ids, link_openly, request, with};

const CLOSE: &str = "acme/finance/ana/close";
const BETO: &str = "acme/finance/beto/cli";
const DORA: &str = "globex/general/dora/erp";

fn path(session: &str) -> String {
    format!("/agents/{CLOSE}/sessions/{session}")
}

async fn pair() -> Bench {
    let bench = Bench::start().await;
    bench.ana.announce(CLOSE, json!({"allow": ["org", "org:globex"]})).await.is(201);
    bench.beto.announce(BETO, json!({})).await.is(201);
    bench.dora.announce(DORA, json!({})).await.is(201);
    bench
}

fn messages(page: &Value) -> Vec<String> {
    ids(page["messages"].as_array().unwrap())
}

#[tokio::test]
async fn the_owner_sees_all_a_participant_theirs_a_colleague_that_it_exists() {
    let bench = pair().await;
    link_openly(&bench).await;
    bench.beto.send(&request("m1", BETO, CLOSE)).await.is(201);
    bench.dora.send(&request("m2", DORA, &format!("{CLOSE}#s1"))).await.is(201);
    bench.ana.send(&answer("progress", "p1", CLOSE, "m1")).await.is(201);
    bench.ana.send(&answer("reply", "r2", CLOSE, "m2")).await.is(201);
    let owner = bench.ana.get(&path("s1")).await.is(200);
    assert_eq!(messages(&owner), ["m1", "m2", "p1", "r2"]);
    assert_eq!((&owner["id"], &owner["agent"], &owner["open"]), (&json!("s1"), &json!(CLOSE), &json!(true)));
    assert_eq!(owner["created"], super::target::NOW);
    assert_eq!(messages(&bench.beto.get(&path("s1")).await.is(200)), ["m1", "p1"]);
    assert_eq!(messages(&bench.dora.get(&path("s1")).await.is(200)), ["m2", "r2"]);
    assert_eq!(bench.caro.get(&path("s1")).await.is(200), json!({"id": "s1"}));
    bench.eva.get(&path("s1")).await.refused(404);
    bench.fede.get(&path("s1")).await.refused(404);
}

/// Between organisations nothing is seen without an active link, whatever there was before.
#[tokio::test]
async fn a_participant_from_elsewhere_sees_the_session_as_long_as_the_link_is_active() {
    let bench = pair().await;
    link_openly(&bench).await;
    bench.dora.send(&request("m1", DORA, CLOSE)).await.is(201);
    assert_eq!(messages(&bench.dora.get(&path("s1")).await.is(200)), ["m1"]);
    bench.ana.post("/orgs/acme/links/globex/revoke", json!({})).await.is(200);
    bench.ana.put(&path("s1"), json!({"title": "what we do without globex"})).await.is(200);
    let gone = bench.dora.get(&path("s1")).await.refused(404);
    assert_eq!(gone, bench.dora.get(&path("s9")).await.refused(404));
    bench.dora.get("/threads/m1").await.is(200);
}

#[tokio::test]
async fn strangers_learn_nothing_from_the_words_of_a_refusal() {
    let bench = pair().await;
    bench.beto.send(&request("m1", BETO, CLOSE)).await.is(201);
    let there = bench.dora.get(&path("s1")).await.refused(404);
    assert_eq!(there, bench.dora.get(&path("s9")).await.refused(404));
    link_openly(&bench).await;
    let exposed = bench.dora.get(&path("s1")).await.refused(404);
    assert_eq!(exposed.replace("s1", "s9"), bench.dora.get(&path("s9")).await.refused(404));
    for nothing in ["s2", "s01", "x"] {
        bench.ana.get(&path(nothing)).await.refused(404);
        bench.caro.get(&path(nothing)).await.refused(404);
    }
    bench.ana.get(&path("S1")).await.refused(422);
}

#[tokio::test]
async fn only_the_owner_names_and_closes_a_session() {
    let bench = pair().await;
    bench.beto.send(&request("m1", BETO, CLOSE)).await.is(201);
    let named = bench.ana_server.put(&path("s1"), json!({"title": "March"})).await.is(200);
    assert_eq!(named["title"], "March");
    assert_eq!(bench.beto.get(&path("s1")).await.is(200)["title"], "March");
    for (node, status) in [(&bench.beto, 403), (&bench.caro, 403), (&bench.dora, 404)] {
        node.put(&path("s1"), json!({"title": "Mine"})).await.refused(status);
        node.post(&format!("{}/close", path("s1")), json!({})).await.refused(status);
    }
    bench.ana.put(&path("s2"), json!({"title": "x"})).await.refused(404);
    let unnamed = bench.ana.put(&path("s1"), json!({"title": ""})).await.is(200);
    assert_eq!(unnamed["title"], "");
    for wrong in [json!({}), json!({"title": 5}), json!({"title": "x".repeat(201)})] {
        bench.ana.put(&path("s1"), wrong).await.refused(422);
    }
    let delete = bench.ana.request(reqwest::Method::DELETE, &path("s1"));
    bench.ana.send_request(delete).await.refused(405);
}

#[tokio::test]
async fn a_closed_session_takes_no_request_and_its_thread_opens_another() {
    let bench = pair().await;
    let asks = |id: &str, fields: Value| with(request(id, BETO, CLOSE), fields);
    bench.beto.send(&asks("m1", json!({"thread": "t"}))).await.is(201);
    for _ in 0..2 {
        let closed = bench.ana.post(&format!("{}/close", path("s1")), json!({})).await.is(200);
        assert_eq!(closed["open"], false);
    }
    let refused = bench.beto.send(&asks("m2", json!({"to": format!("{CLOSE}#s1")}))).await.refused(409);
    assert!(refused.contains("closed"), "{refused}");
    let next = bench.beto.send(&asks("m3", json!({"thread": "t"}))).await.is(201);
    assert_eq!(next["to"], format!("{CLOSE}#s2"));
    let after = bench.beto.send(&asks("m4", json!({"thread": "t"}))).await.is(201);
    assert_eq!(after["to"], format!("{CLOSE}#s2"));
    assert_eq!(bench.ana.take_ids(CLOSE).await, ["m1", "m3", "m4"], "what waited is still delivered");
    bench.ana.send(&answer("reply", "r1", CLOSE, "m1")).await.is(201);
    assert_eq!(bench.beto.take_ids(BETO).await, ["r1"]);
}
