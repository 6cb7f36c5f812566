//! A database that is damaged under a running relay: callers are told to try again, the log says why, and the next start
//! refuses in a sentence instead of serving half of the mail.

#![cfg(unix)]

use redsyn_bridge::proto::redsyn::ids::PREFIX;

use super::crash::{FROM, TO, furnish, made, start};
use super::target::{Node, ids, request, with};
use crate::storage::damaged::damage;
use crate::support::process::run;

#[tokio::test]
async fn a_database_that_is_damaged_under_the_relay_is_named_in_the_log_and_at_the_next_start() {
    let (folder, token) = made();
    let (process, node) = start(folder.path(), &token);
    furnish(&node).await;
    let sent: Vec<String> = (0..60).map(|number| format!("m{number:02}")).collect();
    let letter = |id: &str| {
        let body = serde_json::json!({"type": "text/plain", "text": "x".repeat(20_000)});
        with(request(id, FROM, TO), serde_json::json!({"body": body, "thread": id}))
    };
    for id in &sent {
        node.send(&letter(id)).await.is(201);
    }
    assert_eq!(process.terminate(), Some(0));
    let file = folder.path().join("data").join("relay.db");
    let whole = std::fs::read(&file).unwrap();

    let (mut process, node) = start(folder.path(), &token);
    damage(&file);
    for _ in 0..3 {
        node.get(&format!("/inbox/{TO}")).await.is(500);
        node.send(&letter("another")).await.is(500);
    }
    let nobody = Node::new(node.base_url.trim_end_matches(PREFIX), "");
    nobody.get("/healthz").await.refused(500);
    let log = process.wait_for_log("is damaged");
    assert!(log.last().unwrap().contains("ERROR"), "{log:#?}");
    process.terminate();

    let refused = run(folder.path(), &["relay", "--config", "relay.yaml", "serve"]);
    let sentence = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(sentence.contains("the database is damaged") && sentence.contains("move it away"), "{sentence}");

    // What the damaged one had not yet moved into its file belongs to it alone.
    for companion in ["relay.db-wal", "relay.db-shm"] {
        let _ = std::fs::remove_file(file.with_file_name(companion));
    }
    std::fs::write(&file, whole).unwrap();
    let (_process, node) = start(folder.path(), &token);
    let mut found = Vec::new();
    while found.len() < sent.len() {
        let taken = ids(&node.take_with(TO, "").await);
        assert!(!taken.is_empty(), "{found:?}");
        found.extend(taken);
    }
    found.sort();
    assert_eq!(found, sent);
}
