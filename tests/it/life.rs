//! How a broker ends, and what it answers when its database is somebody else's or a clock is wrong.

#[cfg(unix)]
use std::time::Duration;

use redsyn_bridge::crypto::hmac;
use redsyn_bridge::domain::clock::{Clock, SystemClock};
#[cfg(unix)]
use redsyn_bridge::dsh_client::DshClient;
use redsyn_bridge::dsh_client::DshError;
use rusqlite::Connection;
use serde_json::{Value, json};
#[cfg(unix)]
use tokio::sync::watch;

use crate::support::local::LocalBroker;
use crate::support::process::run;
use crate::support::proxy::http;
#[cfg(unix)]
use crate::support::v2::V2Agent;

async fn started(storage: &str) -> (tempfile::TempDir, LocalBroker) {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = LocalBroker::new(folder.path(), storage);
    broker.start();
    broker.register(&["alpha", "beta"]).await;
    (folder, broker)
}

/// Resolves once a pull of each generation is under way.
#[cfg(unix)]
async fn until_both_pull(broker: &LocalBroker) {
    let both = async {
        loop {
            let page = http().get(format!("{}/metrics", broker.base())).send().await.unwrap();
            let page = page.text().await.unwrap();
            let pulls = |generation: &str| {
                let line = format!("redsyn_broker_pulling_agents{{generation=\"{generation}\"}} 1");
                page.lines().any(|one| one == line)
            };
            if pulls("v1") && pulls("v2") {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), both).await.expect("nobody pulls");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_to_stop_answers_held_pulls_empty_and_loses_nothing() {
    for storage in ["sqlite", "jsonl"] {
        let (_folder, mut broker) = started(storage).await;
        broker.send("m1", "hi").await.unwrap();
        let (v1, v2) = (broker.agent("alpha"), V2Agent::new(&broker.base(), "s", "alpha"));
        let v1 = tokio::spawn(async move { v1.post("/v1/pull", &json!({"waitSeconds": 25})).await });
        let v2 = tokio::spawn(async move { v2.post("/v1/pull", &json!({"wait_seconds": 25})).await });
        until_both_pull(&broker).await;
        assert_eq!(broker.terminate(), Some(0));
        assert_eq!(v1.await.unwrap().unwrap()["messages"], json!([]));
        assert_eq!(v2.await.unwrap().unwrap(), (200, json!({"messages": []})));
        broker.start();
        assert_eq!(broker.statuses(&["m1".into()]).await, ["queued"]);
    }
}

/// Sends until the broker is gone; gives the ids that were answered.
#[cfg(unix)]
async fn write(alpha: DshClient, name: String, count: watch::Sender<usize>) -> Vec<String> {
    let mut answered = Vec::new();
    loop {
        let id = format!("{name}-{}", answered.len());
        match alpha.post("/messages", &json!({"to": "beta", "id": id})).await {
            Ok(_) => answered.push(id),
            // A request that crosses the end of its connection is not read any more.
            Err(DshError::NoAnswer(_)) => return answered,
            Err(error) => panic!("{id}: {error}"),
        }
        count.send_modify(|count| *count += 1);
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_to_stop_under_load_loses_nothing_that_was_answered() {
    for storage in ["sqlite", "jsonl"] {
        let (_folder, mut broker) = started(storage).await;
        let count = watch::Sender::new(0);
        let writers: Vec<_> = (0..4)
            .map(|n| tokio::spawn(write(broker.agent("alpha"), format!("w{n}"), count.clone())))
            .collect();
        count.subscribe().wait_for(|count| *count >= 100).await.unwrap();
        assert_eq!(broker.terminate(), Some(0));
        let mut answered = Vec::new();
        for writer in writers {
            answered.push(writer.await.unwrap());
        }
        broker.start();
        for answered in answered {
            assert!(broker.statuses(&answered).await.iter().all(|status| status == "queued"));
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_second_signal_ends_at_once() {
    use std::io::Write;
    for signals in [["-TERM", "-TERM"], ["-INT", "-INT"], ["-TERM", "-INT"]] {
        let (_folder, mut broker) = started("sqlite").await;
        // What it would wait for.
        let mut half = std::net::TcpStream::connect(broker.base().strip_prefix("http://").unwrap()).unwrap();
        half.write_all(b"POST /messages HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{").unwrap();
        let process = broker.process();
        process.signal(signals[0]);
        process.wait_for_log("stopping");
        process.signal(signals[1]);
        assert_eq!(broker.ended(), Some(130), "{signals:?}");
    }
}

#[tokio::test]
async fn whose_clock_is_wrong_is_told_the_time() {
    let (_folder, broker) = started("sqlite").await;
    let wrong = (SystemClock.now().secs() - 3600).to_string();
    let v1 = hmac::sha256_hex(b"s", &[format!("GET\n/peers\n{wrong}\n").as_bytes()]);
    for (prefix, signature) in [("X-Relay", v1.as_str()), ("X-Agent-Relay", "any")] {
        let answer = http()
            .get(format!("{}/peers", broker.base()))
            .header(format!("{prefix}-Agent"), "alpha")
            .header(format!("{prefix}-Timestamp"), &wrong)
            .header(format!("{prefix}-Signature"), signature)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 401);
        let date = answer.headers()["date"].to_str().unwrap().to_owned();
        let body: Value = answer.json().await.unwrap();
        assert_eq!(body, json!({"error": {"code": "unauthenticated", "message": "timestamp skew"}}));
        let told = httpdate::parse_http_date(&date).unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
        // Right enough to sign with.
        assert!(told.as_secs().abs_diff(SystemClock.now().secs().unsigned_abs()) < 300, "{date}");
    }
}

#[tokio::test]
async fn who_asks_for_a_status_is_told_the_stages_and_the_root_names_us() {
    let (_folder, broker) = started("sqlite").await;
    broker.send("m1", "hi").await.unwrap();
    broker.agent("beta").post("/v1/pull", &json!({})).await.unwrap();
    let status = broker.agent("alpha").post("/v1/status", &json!({"messageIds": ["m1"]})).await.unwrap();
    let stages = &status["messages"][0]["stages"];
    assert!(stages["stored"].is_string() && stages["leased"].is_string(), "{status}");
    let about = broker.agent("alpha").get("/").await.unwrap();
    assert_eq!(about["broker"], json!("dsh-agent-relay"));
    let ours = concat!("redsyn-bridge/", env!("CARGO_PKG_VERSION"));
    assert_eq!((&about["implementation"], &about["protocol"]), (&json!(ours), &json!("1.0")));
}

#[tokio::test]
async fn who_was_known_before_a_restart_is_known_after_it() {
    for storage in ["sqlite", "jsonl"] {
        let (_folder, mut broker) = started(storage).await;
        broker.kill();
        broker.start();
        broker.send("m1", "hi").await.unwrap();
        let peers = broker.agent("alpha").get("/peers").await.unwrap();
        assert_eq!(peers["peers"].as_array().unwrap().len(), 2, "{peers}");
    }
}

#[tokio::test]
async fn a_database_that_somebody_else_holds_is_named_at_the_start_and_is_busy_later() {
    let (folder, mut broker) = started("sqlite").await;
    let other = Connection::open(broker.data().join("broker.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (one, two) = tokio::join!(broker.send("m1", "hi"), broker.send("m2", "hi"));
    for answer in [one, two] {
        match answer {
            Err(DshError::Refused { status, body }) => {
                assert_eq!((status, body["error"]["code"].as_str()), (503, Some("busy")), "{body}");
            }
            other => panic!("{other:?}"),
        }
    }
    other.execute_batch("ROLLBACK").unwrap();
    for id in ["m1", "m2"] {
        broker.send(id, "hi").await.unwrap();
    }
    let log = broker.process().wait_for_log("store_recovered");
    let failures: Vec<_> = log.iter().filter(|line| line.contains("store_failed")).collect();
    assert_eq!(failures.len(), 1, "one line, not one for each request: {failures:?}");
    assert_eq!(broker.statuses(&["m1".into(), "m2".into()]).await, ["queued", "queued"]);
    broker.kill();
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
    let output = run(folder.path(), &["serve", "--config", "config.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    let sentence = String::from_utf8(output.stderr).unwrap();
    assert!(sentence.contains("stop the other process"), "{sentence}");
}
