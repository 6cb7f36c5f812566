//! Signals and kills in the middle of what takes long: a takeover, an import, an export.

#[cfg(unix)]
use std::fmt::Write as _;
use std::path::Path;

use redsyn_bridge::proto::dsh::v1::iso::iso;
use rusqlite::Connection;
use serde_json::{Value, json};

use super::takeover::now_millis;
use crate::support::local::LocalBroker;
use crate::support::process::Process;
#[cfg(unix)]
use crate::support::process::run;

/// So many that a signal at the first telling comes long before the end.
const MANY: usize = 60_000;

fn payload(number: usize) -> Value {
    json!({
        "id": format!("m{number}"), "from": "alpha", "to": "beta", "ts": iso(now_millis()), "body": {"n": number}
    })
}

/// Each message twice, as the Node broker writes it when it is sent and when it is done.
#[cfg(unix)]
fn lines(data: &Path) {
    std::fs::create_dir_all(data).unwrap();
    let mut text = String::new();
    for status in ["queued", "done"] {
        for number in 1..=MANY {
            let mut message = payload(number);
            message["status"] = json!(status);
            writeln!(text, "{}", json!({"seq": number, "message": message})).unwrap();
        }
    }
    std::fs::write(data.join("messages.jsonl"), text).unwrap();
}

fn database(data: &Path) {
    std::fs::create_dir_all(data).unwrap();
    let conn = Connection::open(data.join("relay.db")).unwrap();
    conn.execute_batch("CREATE TABLE messages (seq INTEGER PRIMARY KEY, payload TEXT NOT NULL); BEGIN")
        .unwrap();
    let mut insert = conn.prepare("INSERT INTO messages VALUES (?1, ?2)").unwrap();
    for number in 1..=MANY {
        insert.execute((i64::try_from(number).unwrap(), payload(number).to_string())).unwrap();
    }
    conn.execute_batch("COMMIT").unwrap();
}

fn serve(folder: &Path) -> Process {
    Process::start(folder, &["serve", "--config", "config.yaml"])
}

/// An import of the rest of `file`: together with what is known these are all.
#[cfg(unix)]
fn rest_of(data: &Path, folder: &Path, file: &str) {
    let from = data.to_str().unwrap();
    let output = run(folder, &["import", "--from", from, "--config", "config.yaml", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let counts: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [new, known] = ["new", "known"].map(|key| counts["files"][0][key].as_u64().unwrap());
    assert_eq!(counts["files"][0]["file"], json!(file));
    assert!(new > 0 && known > 0 && new + known == MANY as u64, "{counts}");
}

async fn assert_each_once(broker: &LocalBroker, status: &str) {
    let ids = ["m1".to_owned(), format!("m{MANY}")];
    assert_eq!(broker.statuses(&ids).await, [status, status]);
}

fn rows(data: &Path) -> i64 {
    let conn = Connection::open(data.join("broker.db")).unwrap();
    conn.query_row("SELECT count(*) FROM messages", [], |row| row.get(0)).unwrap()
}

#[cfg(unix)]
#[tokio::test]
async fn a_signal_ends_a_start_that_takes_over_and_the_next_one_takes_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = LocalBroker::new(folder.path(), "sqlite");
    lines(&broker.data());
    let mut start = serve(folder.path());
    start.wait_for_log("taken over 10000 of 60000 messages");
    start.signal("-TERM");
    start.wait_for_log("stopped while taking over");
    assert_eq!(start.ended(), Some(0));
    let screen = broker.start();
    assert!(screen.contains("messages.jsonl (") && screen.contains("known already"), "{screen}");
    assert_each_once(&broker, "done").await;
    broker.kill();
    assert_eq!(rows(&broker.data()), i64::try_from(MANY).unwrap());
}

#[tokio::test]
async fn a_start_after_one_that_was_killed_while_it_took_over_has_each_message_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = LocalBroker::new(folder.path(), "sqlite");
    database(&broker.data());
    let mut start = serve(folder.path());
    start.wait_for_log("taken over 10000 of 60000 messages");
    start.kill();
    assert!(broker.data().join("takeover.copy").exists(), "it was killed while it read");
    let screen = broker.start();
    assert!(screen.contains("relay.db (") && screen.contains("known already"), "{screen}");
    assert_each_once(&broker, "queued").await;
    assert!(!broker.data().join("takeover.copy").exists());
    broker.kill();
    assert_eq!(rows(&broker.data()), i64::try_from(MANY).unwrap());
}

#[cfg(unix)]
#[test]
fn a_signal_ends_an_import_that_goes_on_and_an_export_that_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let _broker = LocalBroker::new(folder.path(), "sqlite");
    let node = folder.path().join("node");
    lines(&node);
    let mut import = Process::start(folder.path(), &["import", "--from", "node", "--config", "config.yaml"]);
    import.wait_for_log("imported 10000 of 60000 messages");
    import.signal("-INT");
    import.wait_for_log("doing it again takes the rest");
    assert_eq!(import.ended(), Some(1));
    rest_of(&node, folder.path(), "messages.jsonl");
    for format in ["node-jsonl", "node-sqlite"] {
        let export = ["export", "--format", format, "--to", "out", "--config", "config.yaml"];
        let mut export = Process::start(folder.path(), &export);
        export.wait_for_log("exported 10000 messages");
        export.signal("-INT");
        export.wait_for_log("stopped: nothing was left in out");
        assert_eq!(export.ended(), Some(1));
        assert_eq!(std::fs::read_dir(folder.path().join("out")).unwrap().count(), 0);
    }
}
