//! A disk without room under a relay with many callers: nothing that was answered is lost, nothing that was refused is
//! counted, and the log does not help to fill the disk. A limit on the size of files stands for the full disk.

#![cfg(unix)]

use std::collections::BTreeSet;
use std::process::Command;

use redsyn_bridge::proto::redsyn::ids::LEASE_DEFAULT_SECS;
use serde_json::json;

use super::crash::{FROM, TO, furnish, made, started};
use super::target::{Node, ids, request, with};
use crate::support::process::Process;

/// In blocks of 512 bytes: what a file may hold while the limit is on.
const LIMIT: usize = 2400;
const SENDERS: usize = 8;
const EACH: usize = 30;

/// A relay whose files cannot grow beyond the limit.
fn limited(folder: &std::path::Path) -> Process {
    let script = format!(
        "trap '' XFSZ; ulimit -f {LIMIT}; exec '{}' relay --config relay.yaml serve",
        env!("CARGO_BIN_EXE_redsyn-bridge")
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).env("RUST_LOG", "error");
    Process::spawn(shell, folder)
}

/// Sends large messages and, in between, one to nobody. Gives the ids that were accepted, and how many were not.
async fn send(node: Node, name: usize) -> (Vec<String>, usize) {
    let (mut accepted, mut failed) = (Vec::new(), 0);
    for count in 0..EACH {
        let id = format!("m{name}-{count}");
        let large = json!({"body": {"type": "text/plain", "text": "x".repeat(20_000)}});
        match node.post("/messages", with(request(&id, FROM, TO), large)).await.status {
            201 => accepted.push(id),
            500 | 503 | 507 => failed += 1,
            other => panic!("{id}: {other}"),
        }
        let to_nobody = request(&format!("n{name}-{count}"), FROM, "acme/general/ana/nobody");
        assert_ne!(node.post("/messages", to_nobody).await.status, 201);
    }
    (accepted, failed)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_loses_and_counts_nothing_and_is_told_of_once() {
    let (folder, token) = made();
    let (process, node) = started(limited(folder.path()), &token);
    furnish(&node).await;
    let mut senders = tokio::task::JoinSet::new();
    for name in 0..SENDERS {
        senders.spawn(send(node.clone(), name));
    }
    let sent = senders.join_all().await;
    let accepted: BTreeSet<String> = sent.iter().flat_map(|(accepted, _)| accepted.clone()).collect();
    let failed: usize = sent.iter().map(|(_, failed)| failed).sum();
    assert!(accepted.len() > 10 && failed > 10, "{} and {failed}", accepted.len());
    process.signal("-KILL");
    let mut process = process;
    let log = process.rest_of_log();
    assert!(!log.is_empty() && log.len() < 10, "{log:#?}");

    // There is room again.
    let (_process, node) = super::crash::start(folder.path(), &token);
    let used = node.get("/orgs/acme/usage").await.is(200)["used"].clone();
    assert_eq!(used["messages"], json!(accepted.len()));
    let mut taken = BTreeSet::new();
    loop {
        let items =
            node.get(&format!("/inbox/{TO}?lease={LEASE_DEFAULT_SECS}")).await.is(200)["items"].clone();
        let some = ids(items.as_array().unwrap());
        if some.is_empty() {
            break;
        }
        taken.extend(some);
    }
    assert_eq!(taken, accepted);
}
