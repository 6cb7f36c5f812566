//! How a broker ends, and what it answers when its database is somebody else's or a clock is wrong.

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
use crate::support::v2::V2Agent;

async fn started(storage: &str) -> (tempfile::TempDir, LocalBroker) {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = LocalBroker::new(folder.path(), storage);
    broker.start();
    broker.register(&["alpha", "beta"]).await;
    (folder, broker)
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
        broker.until_pulling(&["v1", "v2"], 1).await;
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

/// The bytes of a signed message, and where its body begins.
#[cfg(unix)]
fn message(id: &str) -> (Vec<u8>, usize) {
    let body = format!(r#"{{"to":"beta","id":"{id}","body":{{"text":"begun before the end"}}}}"#);
    let timestamp = SystemClock.now().secs();
    let signed = format!("POST\n/messages\n{timestamp}\n{body}");
    let signature = hmac::sha256_hex(b"s", &[signed.as_bytes()]);
    let head = format!(
        "POST /messages HTTP/1.1\r\nhost: localhost\r\nx-relay-agent: alpha\r\n\
         x-relay-timestamp: {timestamp}\r\nx-relay-signature: {signature}\r\n\
         expect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    (format!("{head}{body}").into_bytes(), head.len())
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_was_begun_before_a_signal_to_stop_is_taken_to_its_end() {
    use std::io::{Read, Write};
    for storage in ["sqlite", "jsonl"] {
        for signal in ["-TERM", "-INT"] {
            let (_folder, mut broker) = started(storage).await;
            let (bytes, head) = message("m1");
            let mut half =
                std::net::TcpStream::connect(broker.base().strip_prefix("http://").unwrap()).unwrap();
            half.set_nodelay(true).unwrap();
            half.write_all(&bytes[..head]).unwrap();
            let mut leave = [0; 25];
            half.read_exact(&mut leave).unwrap();
            assert!(leave.starts_with(b"HTTP/1.1 100 "), "the body is waited for");
            half.write_all(&bytes[head..head + 20]).unwrap();
            let pull = broker.agent("beta");
            let pull = tokio::spawn(async move { pull.post("/v1/pull", &json!({"waitSeconds": 25})).await });
            broker.until_pulling(&["v1"], 1).await;
            let process = broker.process();
            process.signal(signal);
            process.wait_for_log("stopping");
            assert_eq!(pull.await.unwrap().unwrap()["messages"], json!([]));
            half.write_all(&bytes[head + 20..]).unwrap();
            let mut answer = String::new();
            half.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 201 "), "{storage}: {answer}");
            assert_eq!(broker.ended(), Some(0));
            broker.start();
            assert_eq!(broker.statuses(&["m1".into()]).await, ["queued"]);
        }
    }
}

/// What does not come is not waited for: the process has told in its exit code that it ended by itself.
#[cfg(unix)]
#[tokio::test]
async fn half_a_message_does_not_keep_a_broker_from_its_end() {
    use std::io::{Read, Write};
    let (_folder, mut broker) = started("sqlite").await;
    let (bytes, head) = message("m1");
    let mut half = std::net::TcpStream::connect(broker.base().strip_prefix("http://").unwrap()).unwrap();
    half.write_all(&bytes[..head]).unwrap();
    half.read_exact(&mut [0; 25]).unwrap();
    assert_eq!(broker.terminate(), Some(0));
    broker.start();
    assert_eq!(broker.statuses(&["m1".into()]).await, ["not_found"]);
}

/// `waitSeconds` and `wait_seconds` on the wire; how they are read is tested with their parsers.
#[tokio::test]
async fn a_wait_that_is_no_time_is_refused_and_none_is_answered_at_once() {
    let (_folder, broker) = started("sqlite").await;
    let (v1, v2) = (broker.agent("alpha"), V2Agent::new(&broker.base(), "s", "alpha"));
    for none in [json!(0), json!(0.9), json!("0"), Value::Null] {
        let pulled = v1.post("/v1/pull", &json!({ "waitSeconds": none })).await.unwrap();
        assert_eq!(pulled["messages"], json!([]), "{none}");
        let pulled = v2.post("/v1/pull", &json!({ "wait_seconds": none })).await.unwrap();
        assert_eq!(pulled, (200, json!({"messages": []})), "{none}");
    }
    assert_eq!(v2.post("/v1/pull", &json!({"wait_seconds": -1})).await.unwrap().0, 200);
    for wrong in [json!("soon"), json!("NaN"), json!({}), json!([1, 2])] {
        let refused = v1.post("/v1/pull", &json!({ "waitSeconds": wrong })).await;
        assert!(matches!(refused, Err(DshError::Refused { status: 400, .. })), "{wrong} {refused:?}");
        assert_eq!(v2.post("/v1/pull", &json!({ "wait_seconds": wrong })).await.unwrap().0, 400, "{wrong}");
    }
    let refused = v1.post("/v1/pull", &json!({"waitSeconds": -1})).await;
    assert!(matches!(refused, Err(DshError::Refused { status: 400, .. })), "{refused:?}");
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
