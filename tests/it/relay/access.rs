//! Tokens, versions, and the form of every answer.

use reqwest::Method;
use serde_json::json;

use super::target::{Bench, NOW, Node, request};

#[tokio::test]
async fn the_date_is_the_relays_and_moves_with_its_clock() {
    let bench = Bench::start().await;
    assert_eq!(bench.ana.get("/me").await.headers["date"], "Mon, 21 Sep 2026 14:13:20 GMT");
    bench.advance(40);
    assert_eq!(bench.ana.get("/nothing").await.headers["date"], "Mon, 21 Sep 2026 14:14:00 GMT");
    assert_eq!(NOW, 1_790_000_000);
}

#[tokio::test]
async fn an_unknown_version_is_400_with_the_known_ones() {
    let bench = Bench::start().await;
    let dated = |date: &'static str| {
        let asked = bench.ana.request(Method::GET, "/me").header("redsyn-version", date);
        bench.ana.send_request(asked)
    };
    dated("2026-09-25").await.is(200);
    for unknown in ["2020-01-01", "2026-09-26", "latest", ""] {
        let refused = dated(unknown).await.is(400);
        assert_eq!(refused["versions"], json!(["2026-09-25"]));
    }
}

#[tokio::test]
async fn me_tells_who_calls() {
    let bench = Bench::start().await;
    let me = bench.ana.get("/me").await.is(200);
    assert_eq!(me["email"], "ana@acme.example");
    assert_eq!(me["node"], "laptop");
    assert_eq!(me["versions"], json!(["2026-09-25"]));
    let org = &me["orgs"][0];
    assert_eq!((&org["handle"], &org["me"], &org["admin"]), (&json!("acme"), &json!("ana"), &json!(true)));
    assert_eq!(org["teams"], json!(["general", "finance", "ops"]));
    assert_eq!(bench.eva.get("/me").await.is(200)["orgs"], json!([]));
}

#[tokio::test]
async fn unknown_calls_and_wrong_methods_answer_json() {
    let bench = Bench::start().await;
    for path in ["/nothing", "/agents/acme/general/ana", "/agents/a/b/c/d/e/f", "/inbox", "/topics/x"] {
        bench.ana.get(path).await.refused(404);
    }
    let outside = Node::new(bench.ana.base_url.trim_end_matches("/redsyn/v1"), "x");
    outside.get("/").await.refused(404);
    bench.ana.get("/messages").await.refused(405);
    bench.ana.post("/me", json!({})).await.refused(405);
    let delete = bench.ana.request(Method::DELETE, "/agents/acme/general/ana/a");
    bench.ana.send_request(delete).await.refused(405);
}

#[tokio::test]
async fn a_head_of_an_inbox_takes_nothing() {
    let bench = Bench::start().await;
    bench.ana.announce("acme/general/ana/a", json!({})).await.is(201);
    bench.ana.send(&request("m1", "acme/general/ana/a", "a")).await.is(201);
    let head = bench.ana.request(Method::HEAD, "/inbox/acme/general/ana/a");
    assert_eq!(bench.ana.send_request(head).await.status, 405);
    assert_eq!(bench.ana.take("acme/general/ana/a").await[0]["attempts"], 1);
}

#[tokio::test]
async fn what_is_not_json_is_400_and_what_is_no_object_422() {
    let bench = Bench::start().await;
    for raw in ["", "{", "{\"v\": 1,}", "\u{1}", "{\"v\":1,\"v\":1}", "nul"] {
        let call = bench.ana.request(Method::POST, "/messages").body(raw);
        bench.ana.send_request(call).await.refused(400);
    }
    for value in [json!([]), json!("x"), json!(null)] {
        bench.ana.post("/messages", value.clone()).await.refused(422);
        bench.ana.put("/agents/acme/general/ana/a", value).await.refused(422);
    }
    let lone_surrogate = bench.ana.request(Method::POST, "/messages").body("{\"id\": \"\\ud800\"}");
    bench.ana.send_request(lone_surrogate).await.refused(400);
}

#[tokio::test]
async fn over_eight_megabytes_are_413_before_they_are_parsed() {
    let bench = Bench::start().await;
    let call = bench.ana.request(Method::POST, "/messages").body(vec![b'x'; 8 * 1024 * 1024 + 1]);
    // The relay may close before it has read everything; then no answer arrives at all.
    if let Ok(answer) = call.send().await {
        assert_eq!(answer.status(), 413);
    }
    let call = bench.ana.request(Method::POST, "/messages").body(vec![b'x'; 8 * 1024 * 1024]);
    assert_eq!(bench.ana.send_request(call).await.status, 400);
}

#[tokio::test]
async fn names_in_paths_are_checked() {
    let bench = Bench::start().await;
    for agent in ["acme/general/ana/A", "acme/general/ana/a%20b", "acme/general/ana/a%23s1"] {
        bench.ana.announce(agent, json!({})).await.refused(422);
    }
    bench.ana.announce(&format!("acme/general/ana/{}", "a".repeat(65)), json!({})).await.refused(422);
    bench.ana.announce(&format!("acme/general/ana/{}", "a".repeat(64)), json!({})).await.is(201);
}
