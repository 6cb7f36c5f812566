//! `GET /metrics` of the broker: who may see it, and that its numbers are those of what happened.

use serde_json::json;

use crate::support::local::LocalBroker;
use crate::support::proxy::http;

/// An unsigned request, from this machine or as a proxy would forward it.
async fn ask(broker: &LocalBroker, path: &str, is_forwarded: bool) -> (u16, String) {
    let request = http().get(format!("{}{path}", broker.base()));
    let request = if is_forwarded { request.header("x-forwarded-for", "203.0.113.7") } else { request };
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

fn has(page: &str, lines: &[&str]) {
    for line in lines {
        assert!(page.lines().any(|one| one == *line), "no {line} in\n{page}");
    }
}

async fn numbers_are_those_of_what_happened(storage: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = LocalBroker::new(folder.path(), storage);
    broker.start();
    broker.register(&["alpha", "beta"]).await;
    for id in ["m1", "m2", "m3"] {
        broker.send(id, "hi").await.unwrap();
    }
    broker.agent("beta").post("/v1/pull", &json!({"limit": 1})).await.unwrap();
    broker
        .agent("beta")
        .post("/v1/ack", &json!({"messageId": "m3", "leaseId": "x", "outcome": "completed"}))
        .await
        .unwrap_err();
    broker.agent("alpha").get("/no/such/path/m1").await.unwrap_err();
    broker.agent("alpha").get("/nor/this/one").await.unwrap_err();
    let (status, page) = ask(&broker, "/metrics", false).await;
    assert_eq!(status, 200);
    has(
        &page,
        &[
            "redsyn_broker_requests_total{generation=\"v1\",route=\"POST /register\",outcome=\"done\"} 2",
            "redsyn_broker_requests_total{generation=\"v1\",route=\"POST /messages\",outcome=\"done\"} 3",
            "redsyn_broker_requests_total{generation=\"v1\",route=\"POST /v1/pull\",outcome=\"done\"} 1",
            "redsyn_broker_requests_total{generation=\"v1\",route=\"POST /v1/ack\",outcome=\"refused\"} 1",
            "redsyn_broker_requests_total{generation=\"v1\",route=\"other\",outcome=\"refused\"} 2",
            "redsyn_broker_refusals_total{code=\"not_leased\"} 1",
            "redsyn_broker_refusals_total{code=\"not_found\"} 2",
            "redsyn_broker_queued_messages{generation=\"v1\"} 2",
            "redsyn_broker_queued_messages{generation=\"v2\"} 0",
            "redsyn_broker_leased_messages{generation=\"v1\"} 1",
            "redsyn_broker_oldest_queued_seconds{generation=\"v2\"} 0",
            "redsyn_broker_commits_failed_total 0",
            "# TYPE redsyn_broker_commit_seconds histogram",
        ],
    );
    let sum = |name: &str| -> u64 {
        page.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().parse().unwrap()
    };
    assert!(sum("redsyn_broker_commit_calls_sum") >= sum("redsyn_broker_commit_calls_count"), "{page}");
    assert!(sum("redsyn_broker_commit_calls_count") > 5, "{page}");
    for name in ["alpha", "beta", "m1", "no/such"] {
        assert!(!page.contains(name), "{name} is nobody's business:\n{page}");
    }
    assert!(!page.contains("redsyn_bridge_"), "there is no bridge:\n{page}");
}

#[tokio::test]
async fn numbers_are_those_of_what_happened_in_a_database() {
    numbers_are_those_of_what_happened("sqlite").await;
}

#[tokio::test]
async fn numbers_are_those_of_what_happened_in_lines() {
    numbers_are_those_of_what_happened("jsonl").await;
}

#[tokio::test]
async fn from_elsewhere_there_is_no_such_route_unless_the_configuration_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = LocalBroker::new(folder.path(), "sqlite");
    broker.start();
    let unknown = ask(&broker, "/nowhere", true).await;
    assert_eq!((ask(&broker, "/metrics", true).await, unknown.0), (unknown, 401));
    let (_, page) = ask(&broker, "/metrics", false).await;
    has(&page, &["redsyn_broker_requests_total{generation=\"v1\",route=\"other\",outcome=\"refused\"} 2"]);
    broker.kill();
    broker.configure(
        "metrics: { allow_remote: true }\nredsyn: { relay: off, scope: home/it/me, agents: { a: {} } }\n",
    );
    broker.start();
    let (status, page) = ask(&broker, "/metrics", true).await;
    assert_eq!(status, 200);
    let bridge = ["redsyn_bridge_outbox_messages 0", "redsyn_bridge_held_messages{direction=\"in\"} 0"];
    has(&page, &bridge);
}
