//! The way back: files that have the shape of the Node broker's own, and are taken over as such.

use std::path::Path;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::local::LocalBroker;
use crate::support::process::run;
use crate::support::v2::V2Agent;

/// What the Node broker puts into every message.
const FIELDS: [&str; 15] = [
    "id",
    "from",
    "to",
    "ts",
    "type",
    "body",
    "replyTo",
    "ack",
    "kind",
    "rootId",
    "parentId",
    "status",
    "attempts",
    "leaseUntil",
    "leaseId",
];

/// A broker that has messages in every state; stopped.
async fn filled(folder: &Path, storage: &str) -> LocalBroker {
    let mut broker = LocalBroker::new(folder, storage);
    broker.start();
    broker.register(&["alpha", "beta"]).await;
    for id in ["done", "leased", "retried", "queued"] {
        broker.send(id, "hi").await.unwrap();
    }
    let beta = broker.agent("beta");
    let pulled = beta.post("/v1/pull", &json!({"limit": 3})).await.unwrap();
    for (at, outcome) in [(0, "completed"), (2, "retry")] {
        let message = &pulled["messages"][at];
        let ack = json!({"messageId": message["id"], "leaseId": message["leaseId"], "outcome": outcome, "error": "why"});
        beta.post("/v1/ack", &ack).await.unwrap();
    }
    let ask = json!({"origin": "alpha", "target": "beta", "kind": "request", "body": "second", "idempotency_key": "k"});
    V2Agent::new(&broker.base(), "s", "alpha").post("/v1/messages", &ask).await.unwrap();
    broker.kill();
    broker
}

fn export(folder: &Path, format: &str) -> (Option<i32>, String) {
    let output = run(folder, &["export", "--format", format, "--to", "out", "--config", "config.yaml"]);
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

fn assert_shape(messages: &[Value]) {
    for message in messages {
        for field in FIELDS {
            assert!(message.get(field).is_some(), "no {field} in {message}");
        }
        let only_after_an_ack = |field: &str| field == "error";
        let known = |field: &String| FIELDS.contains(&field.as_str()) || only_after_an_ack(field);
        assert!(message.as_object().unwrap().keys().all(known), "{message}");
    }
    let states: Vec<_> = messages
        .iter()
        .map(|message| (message["id"].as_str().unwrap(), message["status"].as_str().unwrap()))
        .collect();
    assert_eq!(states, [("done", "done"), ("leased", "leased"), ("retried", "queued"), ("queued", "queued")]);
    assert_eq!((&messages[2]["attempts"], &messages[2]["error"]), (&json!(1), &json!("why")));
    assert!(messages[1]["leaseUntil"].is_i64() && messages[1]["leaseId"].is_string());
}

/// A new broker takes the files over and has the same messages in the same states.
async fn assert_taken_back(out: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = LocalBroker::new(folder.path(), "sqlite");
    std::fs::create_dir_all(broker.data()).unwrap();
    for entry in std::fs::read_dir(out).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), broker.data().join(entry.file_name())).unwrap();
    }
    broker.start();
    let ids = ["done", "leased", "retried", "queued"].map(str::to_owned);
    assert_eq!(broker.statuses(&ids).await, ["done", "leased", "queued", "queued"]);
}

#[tokio::test]
async fn a_database_for_the_node_broker() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path(), "jsonl").await;
    let (code, text) = export(folder.path(), "node-sqlite");
    assert!(code == Some(0) && text.contains("4 messages in"), "{text}");
    let out = folder.path().join("out");
    let conn = Connection::open(out.join("relay.db")).unwrap();
    let mut rows = conn.prepare("SELECT payload FROM messages ORDER BY seq").unwrap();
    let rows = rows.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let messages: Vec<Value> = rows.map(|row| serde_json::from_str(&row.unwrap()).unwrap()).collect();
    assert_shape(&messages);
    let v2 = Connection::open(out.join("relay-v2.db")).unwrap();
    let body = "SELECT body FROM relay_v2_messages WHERE status = 'queued'";
    assert_eq!(v2.query_row(body, [], |row| row.get::<_, String>(0)).unwrap(), "second");
    assert_taken_back(&out).await;
}

#[tokio::test]
async fn lines_for_the_node_broker() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path(), "sqlite").await;
    let (code, text) = export(folder.path(), "node-jsonl");
    assert!(code == Some(0) && text.contains("4 messages in"), "{text}");
    let out = folder.path().join("out");
    let text = std::fs::read_to_string(out.join("messages.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().all(|line| line["seq"].is_i64() && line.as_object().unwrap().len() == 2));
    assert_shape(&lines.into_iter().map(|line| line["message"].clone()).collect::<Vec<_>>());
    let text = std::fs::read_to_string(out.join("relay-v2.jsonl")).unwrap();
    let line: Value = serde_json::from_str(text.trim()).unwrap();
    assert_eq!((&line["message"]["body"], &line["message"]["status"]), (&json!("second"), &json!("queued")));
    assert_taken_back(&out).await;
}

#[tokio::test]
async fn nothing_is_overwritten_and_a_running_broker_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = filled(folder.path(), "sqlite").await;
    std::fs::create_dir(folder.path().join("out")).unwrap();
    std::fs::write(folder.path().join("out/relay-v2.db"), "mine").unwrap();
    let (code, text) = export(folder.path(), "node-sqlite");
    assert!(code == Some(1) && text.contains("relay-v2.db exists"), "{text}");
    assert!(!folder.path().join("out/relay.db").exists());
    assert_eq!(std::fs::read_to_string(folder.path().join("out/relay-v2.db")).unwrap(), "mine");
    let (code, text) = export(folder.path(), "node-yaml");
    assert_eq!(code, Some(2), "{text}");
    broker.start();
    let (code, text) = export(folder.path(), "node-jsonl");
    assert!(code == Some(1) && text.contains("belongs to process"), "{text}");
}
