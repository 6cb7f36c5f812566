//! The limits of plans: the day's messages (429), amounts and space (403), both with `quota`.

use redsyn_bridge::crypto::base64url;
use redsyn_bridge::domain::relay::plan::Plans;
use serde_json::json;

use super::target::{Bench, NOW, Reply, answer, request, with};

const A: &str = "solo/general/fede/a";

/// `free` with small limits.
async fn tight() -> Bench {
    let mut plans = Plans::default();
    let mut free = plans.get("free").clone();
    free.messages_per_day = Some(3);
    free.files_bytes = Some(10);
    free.agents = Some(2);
    plans.set("free", free);
    let bench = Bench::start_with(plans).await;
    bench.fede.announce(A, json!({})).await.is(201);
    bench
}

#[track_caller]
fn quota(reply: Reply, status: u16) {
    assert_eq!(reply.is(status)["quota"], true);
}

#[tokio::test]
async fn the_days_messages_come_back_at_midnight() {
    let bench = tight().await;
    bench.fede.send(&request("m1", A, "a")).await.is(201);
    bench.fede.send(&request("m1", A, "a")).await.is(201);
    bench.fede.send(&request("bad", A, "nobody")).await.refused(404);
    bench.fede.send(&answer("progress", "p1", A, "m1")).await.is(201);
    bench.fede.send(&answer("reply", "r1", A, "m1")).await.is(201);
    quota(bench.fede.send(&request("m2", A, "a")).await, 429);
    // NOW is 14:13:20 UTC.
    bench.advance(9 * 3600 + 46 * 60 + 39);
    quota(bench.fede.send(&request("m2", A, "a")).await, 429);
    bench.advance(1);
    bench.fede.send(&request("m2", A, "a")).await.is(201);
}

#[tokio::test]
async fn space_for_files_comes_back_with_the_delivery() {
    let bench = tight().await;
    let files = |bytes: usize| json!({"files": {"zip": base64url::zip_encode(&vec![b'P'; bytes])}});
    quota(bench.fede.send(&with(request("m1", A, "a"), files(11))).await, 403);
    bench.fede.send(&with(request("m1", A, "a"), files(6))).await.is(201);
    quota(bench.fede.send(&with(request("m2", A, "a"), files(5))).await, 403);
    bench.fede.take(A).await;
    bench.fede.ack(A, &["m1"]).await;
    bench.fede.send(&with(request("m2", A, "a"), files(10))).await.is(201);
}

#[tokio::test]
async fn agents_and_links_are_counted() {
    let bench = tight().await;
    bench.fede.announce("solo/general/fede/b", json!({})).await.is(201);
    quota(bench.fede.announce("solo/general/fede/c", json!({})).await, 403);
    bench.fede.announce("solo/general/fede/b", json!({})).await.is(200);
    bench.fede.post("/orgs/solo/links", json!({"other": "acme"})).await.is(201);
    quota(bench.fede.post("/orgs/solo/links", json!({"other": "globex"})).await, 403);
    bench.fede.post("/orgs/solo/links/acme/revoke", json!({})).await.is(200);
    bench.fede.post("/orgs/solo/links", json!({"other": "globex"})).await.is(201);
    // Being asked costs nothing, accepting does.
    bench.ana.post("/orgs/acme/links", json!({"other": "solo"})).await.is(201);
    quota(bench.fede.post("/orgs/solo/links", json!({"other": "acme"})).await, 403);
}

#[tokio::test]
async fn a_longer_wait_than_the_plan_allows_is_shortened() {
    let bench = tight().await;
    bench.fede.send(&with(request("m1", A, "a"), json!({"ttl": 9_000_000}))).await.is(201);
    let item = &bench.fede.take(A).await[0];
    assert_eq!((&item["ttl"], &item["expires"]), (&json!(86_400), &json!(NOW + 86_400)));
}
