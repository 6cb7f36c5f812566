//! A start in the data folder of a Node broker, with the files as it leaves them.

use std::path::Path;

use redsyn_bridge::proto::dsh::v1::iso::iso;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::local::LocalBroker;
use crate::support::process::run;
use crate::support::v2::V2Agent;

pub fn now_millis() -> i64 {
    use redsyn_bridge::domain::clock::{Clock, SystemClock};
    SystemClock.now().millis()
}

fn message(id: &str, status: &str) -> Value {
    let mut message = json!({
        "id": id, "from": "alpha", "to": "beta", "ts": iso(now_millis()), "type": "message", "body": {"of": id},
        "replyTo": null, "ack": false, "kind": "request", "rootId": null, "parentId": null, "status": status,
        "attempts": 1, "leaseUntil": null, "leaseId": null
    });
    if status == "leased" {
        message["leaseUntil"] = json!(now_millis() + 60_000);
        message["leaseId"] = json!(format!("lease of {id}"));
    }
    message
}

fn v2_message(id: &str, status: &str) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of today fit")]
    let now = now_millis() as f64 / 1000.0;
    json!({
        "message_id": id, "root_id": "r", "parent_id": null, "origin": "alpha", "target": "beta", "kind": "request",
        "body": format!("do {id}"), "session_ref": "", "execution_mode": "read", "allow_shared_write": false,
        "context": "", "topic": "t", "idempotency_key": format!("key of {id}"), "created_at": now,
        "expires_at": now + 3000.0, "status": status, "attempts": 0, "lease_until": null, "lease_token": null,
        "last_error": null, "completed_at": null, "notified_at": null
    })
}

/// The files of both generations. The database's writer was killed: its last rows stand in the write-ahead log.
fn node_folder(data: &Path) {
    std::fs::create_dir_all(data).unwrap();
    let live = data.join("live");
    std::fs::create_dir_all(&live).unwrap();
    let conn = Connection::open(live.join("relay.db")).unwrap();
    let schema = "CREATE TABLE messages (seq INTEGER PRIMARY KEY, payload TEXT NOT NULL)";
    conn.execute_batch(&format!("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; {schema}"))
        .unwrap();
    let mut stale = message("stale", "queued");
    stale["ts"] = json!(iso(now_millis() - 9 * 86_400_000));
    let rows = [
        message("queued", "queued").to_string(),
        message("leased", "leased").to_string(),
        "broken".into(),
        message("done", "done").to_string(),
        stale.to_string(),
    ];
    for (seq, row) in (1_i64..).zip(rows) {
        conn.execute("INSERT INTO messages VALUES (?1, ?2)", (seq, row)).unwrap();
    }
    for part in ["relay.db", "relay.db-wal"] {
        std::fs::copy(live.join(part), data.join(part)).unwrap();
    }
    drop(conn);
    std::fs::remove_dir_all(live).unwrap();
    // What was there before the database: one message that it knows better, and one that it does not know.
    let lines = [(1, message("done", "queued")), (2, message("older", "queued"))]
        .map(|(seq, message)| json!({"seq": seq, "message": message}).to_string());
    std::fs::write(data.join("messages.jsonl"), format!("{}\n{{\"seq\":3,\"mess", lines.join("\n"))).unwrap();
    let lines = [v2_message("a", "queued"), v2_message("b", "queued"), v2_message("a", "completed")]
        .map(|message| json!({ "message": message }).to_string());
    std::fs::write(data.join("relay-v2.jsonl"), format!("{}\nbroken\n", lines.join("\n"))).unwrap();
}

/// The Node broker's files and what they hold.
fn originals(data: &Path) -> Vec<(&'static str, Vec<u8>)> {
    ["relay.db", "relay.db-wal", "messages.jsonl", "relay-v2.jsonl"]
        .into_iter()
        .map(|name| (name, std::fs::read(data.join(name)).unwrap()))
        .collect()
}

async fn assert_taken(broker: &LocalBroker, older: &str) {
    let ids = ["queued", "leased", "done", "stale", "older"].map(str::to_owned);
    assert_eq!(broker.statuses(&ids).await, ["queued", "leased", "done", "not_found", older]);
}

#[tokio::test]
async fn the_first_start_takes_everything_over_and_the_second_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = LocalBroker::new(folder.path(), "sqlite");
    node_folder(&broker.data());
    let before = originals(&broker.data());
    let screen = broker.start();
    assert!(screen.contains("3 messages from relay.db (1 expired, 1 broken, see the log)"), "{screen}");
    assert!(
        screen.contains("1 message from messages.jsonl (1 known already, 1 broken, see the log)"),
        "{screen}"
    );
    assert!(screen.contains("2 messages from relay-v2.jsonl (1 broken, see the log)"), "{screen}");
    assert_eq!(originals(&broker.data()), before, "the originals are untouched");
    assert_taken(&broker, "queued").await;
    // A worker that had a message before finishes it after.
    let ack = json!({"messageId": "leased", "leaseId": "lease of leased", "outcome": "completed"});
    let beta = broker.agent("beta");
    assert_eq!(beta.post("/v1/ack", &ack).await.unwrap()["status"], json!("done"));
    // Whoever was sent something had registered.
    broker.send("new", "hi").await.unwrap();
    broker.kill();
    let screen = broker.start();
    assert!(!screen.contains("import"), "{screen}");
    assert_eq!(broker.statuses(&["leased".into(), "queued".into()]).await, ["done", "queued"]);
    assert_eq!(originals(&broker.data()), before);
}

/// The database of the second generation, one of its rows without what a message must have.
fn node_v2_database(data: &Path) {
    std::fs::create_dir_all(data).unwrap();
    let conn = Connection::open(data.join("relay-v2.db")).unwrap();
    conn.execute_batch(
        "CREATE TABLE relay_v2_messages (
            message_id TEXT PRIMARY KEY, root_id TEXT NOT NULL, parent_id TEXT, origin TEXT NOT NULL,
            target TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, session_ref TEXT,
            execution_mode TEXT NOT NULL DEFAULT 'read', context TEXT NOT NULL DEFAULT '',
            topic TEXT NOT NULL DEFAULT '', idempotency_key TEXT NOT NULL, status TEXT NOT NULL,
            attempts INTEGER NOT NULL DEFAULT 0, lease_until REAL, last_error TEXT, created_at REAL NOT NULL,
            expires_at REAL NOT NULL, completed_at REAL, notified_at REAL,
            allow_shared_write INTEGER NOT NULL DEFAULT 0, lease_token TEXT)",
    )
    .unwrap();
    let insert =
        "INSERT INTO relay_v2_messages (message_id, root_id, origin, target, kind, body, idempotency_key,
        status, attempts, lease_until, lease_token, created_at, expires_at)
        VALUES (?1, 'r', 'alpha', 'beta', ?2, 'do it', 'key of ' || ?1, ?3, 1, ?4, ?5, ?6, ?6 + 3000)";
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of today fit")]
    let now = now_millis() as f64 / 1000.0;
    let row = |id, kind, status, lease: Option<&str>| {
        let until = lease.map(|_| now + 600.0);
        conn.execute(insert, (id, kind, status, until, lease, now)).unwrap();
    };
    row("queued", "request", "queued", None);
    row("broken", "no kind", "queued", None);
    row("leased", "request", "leased", Some("token of leased"));
    row("completed", "request", "completed", None);
}

#[tokio::test]
async fn the_second_generations_database_is_taken_over_with_its_leases_and_keys() {
    for storage in ["sqlite", "jsonl"] {
        let folder = tempfile::tempdir().unwrap();
        let mut broker = LocalBroker::new(folder.path(), storage);
        node_v2_database(&broker.data());
        let original = std::fs::read(broker.data().join("relay-v2.db")).unwrap();
        let screen = broker.start();
        assert!(screen.contains("3 messages from relay-v2.db (1 broken, see the log)"), "{screen}");
        let [alpha, beta] = ["alpha", "beta"].map(|name| V2Agent::new(&broker.base(), "s", name));
        let ids = json!({"message_ids": ["queued", "leased", "completed", "broken"]});
        let (_, answer) = beta.post("/v1/status", &ids).await.unwrap();
        let statuses: Vec<_> = answer["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line["status"].as_str().unwrap())
            .collect();
        assert_eq!(statuses, ["queued", "leased", "completed", "not_found"]);
        let ack = json!({"message_id": "leased", "lease_token": "token of leased", "outcome": "completed"});
        assert_eq!(beta.post("/v1/ack", &ack).await.unwrap().0, 200);
        let again = json!({
            "origin": "alpha", "target": "beta", "kind": "request", "body": "do it",
            "idempotency_key": "key of queued", "execution_mode": "read",
        });
        let (_, created) = alpha.post("/v1/messages", &again).await.unwrap();
        assert_eq!((&created["created"], &created["message_id"]), (&json!(false), &json!("queued")));
        broker.kill();
        let screen = broker.start();
        assert!(!screen.contains("import"), "{screen}");
        assert_eq!(std::fs::read(broker.data().join("relay-v2.db")).unwrap(), original);
    }
}

#[tokio::test]
async fn lines_are_taken_over_where_they_lie_and_a_copy_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = LocalBroker::new(folder.path(), "jsonl");
    node_folder(&broker.data());
    let original = std::fs::read(broker.data().join("messages.jsonl")).unwrap();
    let screen = broker.start();
    assert!(screen.contains("2 messages from messages.jsonl"), "{screen}");
    assert!(screen.contains("2 messages from relay.db (1 known already"), "{screen}");
    assert_eq!(std::fs::read(broker.data().join("messages.jsonl.kept")).unwrap(), original);
    // The lines were the living store of a Node broker that was told to use lines.
    let ids = ["queued", "leased", "done", "older"].map(str::to_owned);
    assert_eq!(broker.statuses(&ids).await, ["queued", "leased", "queued", "queued"]);
    broker.kill();
    let screen = broker.start();
    assert!(!screen.contains("import"), "{screen}");
    assert_eq!(broker.statuses(&ids).await, ["queued", "leased", "queued", "queued"]);
}

#[tokio::test]
async fn a_folder_is_taken_over_by_hand_once_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = LocalBroker::new(folder.path(), "sqlite");
    let node = folder.path().join("node");
    node_folder(&node);
    let before = originals(&node);
    let import = |json: bool| {
        let mut arguments = vec!["import", "--from", "node", "--config", "config.yaml"];
        arguments.extend(json.then_some("--json"));
        let output = run(folder.path(), &arguments);
        assert!(output.status.success(), "{output:?}");
        let log = String::from_utf8(output.stderr).unwrap();
        assert_eq!(log.matches("message_skipped").count(), 3, "{log}");
        assert!(log.contains("row 3") && log.contains("line 3") && !log.contains("broken\""), "{log}");
        String::from_utf8(output.stdout).unwrap()
    };
    let first = import(false);
    assert!(first.contains("3 messages from relay.db"), "{first}");
    assert!(first.contains("\n  1 done\n  1 leased\n  1 queued\n"), "{first}");
    assert!(first.ends_with("\n  1 completed\n  1 queued\n  2 idempotency keys\n"), "{first}");
    let second: Value = serde_json::from_str(&import(true)).unwrap();
    assert_eq!(
        second["files"][0],
        json!({"file": "relay.db", "new": 0, "known": 3, "expired": 1, "broken": 1, "states": {},
            "idempotency_keys": 0})
    );
    assert_eq!(originals(&node), before);
    broker.start();
    assert_taken(&broker, "queued").await;
    let refused = run(folder.path(), &["import", "--from", "node", "--config", "config.yaml"]);
    let log = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(1) && log.contains("belongs to process"), "{log}");
}

#[test]
fn an_import_that_cannot_be_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let _broker = LocalBroker::new(folder.path(), "sqlite");
    let refused = |code: i32, part: &str| {
        let output = run(folder.path(), &["import", "--from", "node", "--config", "config.yaml"]);
        let log = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(code) && log.contains(part), "{log}");
    };
    refused(1, "holds nothing of a Node broker");
    std::fs::create_dir(folder.path().join("node")).unwrap();
    std::fs::write(folder.path().join("node/relay.db"), vec![b'x'; 4096]).unwrap();
    refused(1, "cannot take over");
    let config = std::fs::read_to_string(folder.path().join("config.yaml")).unwrap();
    std::fs::write(folder.path().join("config.yaml"), format!("{config}  persist: false\n")).unwrap();
    refused(2, "broker.persist");
}

#[tokio::test]
async fn a_file_that_has_changed_since_is_left_alone_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = LocalBroker::new(folder.path(), "sqlite");
    node_folder(&broker.data());
    broker.start();
    broker.kill();
    let path = broker.data().join("messages.jsonl");
    let line = json!({"seq": 9, "message": message("later", "queued")});
    std::fs::write(&path, format!("{line}\n")).unwrap();
    broker.start();
    assert_eq!(broker.statuses(&["later".into()]).await, ["not_found"]);
    broker.kill();
    let output = run(folder.path(), &["import", "--from", "data", "--config", "config.yaml"]);
    assert!(String::from_utf8(output.stdout).unwrap().contains("1 message from messages.jsonl"));
    broker.start();
    assert_eq!(broker.statuses(&["later".into()]).await, ["queued"]);
}
