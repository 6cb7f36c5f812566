//! A disk without room: clients are told to come back, and nothing that was answered is lost. A limit on the size of
//! files stands for the full disk, since a small file system cannot be mounted without special rights. A folder that
//! cannot be written is tried at the start (`serve.rs`): while it runs, the broker creates files only to compact.

#![cfg(unix)]

use std::process::Command;

use redsyn_bridge::dsh_client::DshError;
use serde_json::{Value, json};

use crate::support::local::LocalBroker;
use crate::support::process::Process;
use crate::support::proxy::http;

/// In blocks of 512 bytes: what a file may hold while the limit is on.
const LIMIT: usize = 2400;

/// A broker whose files cannot grow beyond the limit. Beyond it the system sends a signal that ends a process, unless
/// it is ignored; the broker inherits that from the shell.
fn limited(broker: &LocalBroker) -> Process {
    let script = format!(
        "trap '' XFSZ; ulimit -f {LIMIT}; exec '{}' serve --config config.yaml",
        env!("CARGO_BIN_EXE_redsyn-bridge")
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).env("RUST_LOG", "off");
    Process::spawn(shell, &broker.folder)
}

/// SQLite takes the limit for a write that failed, and can tell only a disk without room; lines say both.
#[track_caller]
fn is_full(storage: &str, status: u16, body: &Value) {
    assert_eq!((status, body["error"]["code"].as_str()), (503, Some("busy")), "{body}");
    let told = body["error"]["message"].as_str().unwrap();
    assert!(storage == "sqlite" || told.contains("disk is full"), "{told}");
    assert!(!told.contains(['/', '\\']), "no paths: {told}");
}

/// What anybody is told who asks how the broker is.
async fn health_of(broker: &LocalBroker) -> (u16, Value) {
    let answer = http().get(format!("{}/healthz", broker.base())).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

async fn a_full_disk_loses_nothing(storage: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = LocalBroker::new(folder.path(), storage);
    let process = limited(&broker);
    broker.start_as(process);
    broker.register(&["alpha", "beta"]).await;
    let body = "x".repeat(20_000);
    let (mut answered, mut refused) = (Vec::new(), Vec::new());
    for number in 0..120 {
        let id = format!("m{number}");
        match broker.send(&id, &body).await {
            Ok(_) => answered.push(id),
            Err(DshError::Refused { status, body }) => {
                is_full(storage, status, &body);
                refused.push(id);
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(answered.len() > 10 && refused.len() > 10, "{} and {}", answered.len(), refused.len());
    let health = health_of(&broker).await;
    assert_eq!(health.1["ok"], json!(false), "{health:?}");
    is_full(storage, health.0, &health.1);
    // What is there can still be read.
    assert!(broker.statuses(&answered).await.iter().all(|status| status == "queued"));
    broker.kill();

    // There is room again.
    broker.start();
    assert_eq!(health_of(&broker).await.0, 200);
    assert!(broker.statuses(&answered).await.iter().all(|status| status == "queued"));
    broker.register(&["alpha", "beta"]).await;
    for id in &refused {
        // A refused message may be there or not, but never half: sending it again is right in both cases.
        broker.send(id, &body).await.unwrap();
    }
    let all: Vec<_> = answered.iter().chain(&refused).cloned().collect();
    assert!(broker.statuses(&all).await.iter().all(|status| status == "queued"));
}

#[tokio::test]
async fn a_full_disk_under_a_database() {
    a_full_disk_loses_nothing("sqlite").await;
}

#[tokio::test]
async fn a_full_disk_under_lines() {
    a_full_disk_loses_nothing("jsonl").await;
}
