//! Databases as the Node broker leaves them: with a write-ahead log, with rows that are broken, from older versions.

use serde_json::json;

use super::*;

fn payload(id: &str) -> String {
    json!({"id": id, "from": "alpha", "to": "beta", "ts": "2024-04-05T19:34:38.000Z"}).to_string()
}

/// A `relay.db` whose writer is still running: the last rows stand in the write-ahead log alone.
fn running(path: &Path) -> Connection {
    let conn = Connection::open(path).unwrap();
    conn.execute_batch(&format!("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; {V1_SCHEMA}"))
        .unwrap();
    conn.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    for seq in [1, 2] {
        conn.execute("INSERT INTO messages VALUES (?1, ?2)", (seq, payload(&seq.to_string()))).unwrap();
    }
    conn
}

fn contents(folder: &Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<_> =
        entries.map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap())).collect();
    files.sort();
    files
}

#[test]
fn what_stands_only_in_the_log_is_read_and_nothing_is_touched() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = folder.path().join("relay.db");
    let conn = running(&path);
    conn.execute("INSERT INTO messages VALUES (3, 'nonsense'), (4, x'00'), (5, '{}')", []).unwrap();
    let before = contents(folder.path());
    let (found, broken) = read_v1(&path, scratch.path(), &CancellationToken::new()).unwrap().unwrap().split();
    assert_eq!(contents(folder.path()), before);
    assert_eq!(found.iter().map(|kept| kept.stored.message.id.as_str()).collect::<Vec<_>>(), ["1", "2"]);
    let broken: Vec<_> = broken.iter().map(|broken| (broken.place, broken.why)).collect();
    assert_eq!(
        broken,
        [
            (Place::Row(3), "the message is no JSON object"),
            (Place::Row(4), "no text"),
            (Place::Row(5), "no recipient")
        ]
    );
    assert_eq!(contents(scratch.path()), [], "the copy is gone");
    assert!(
        read_v1(&folder.path().join("none.db"), scratch.path(), &CancellationToken::new()).unwrap().is_none()
    );
}

#[test]
fn what_is_no_such_database_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relay.db");
    std::fs::write(&path, vec![b'x'; 4096]).unwrap();
    assert!(matches!(read_v1(&path, folder.path(), &CancellationToken::new()), Err(StoreError::Damaged(_))));
}

#[test]
fn a_fingerprint_tells_that_somebody_has_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relay.db");
    assert_eq!(fingerprint(&path).unwrap(), None);
    let conn = running(&path);
    let before = fingerprint(&path).unwrap();
    assert_eq!(fingerprint(&path).unwrap(), before);
    conn.execute("INSERT INTO messages VALUES (3, '{}')", []).unwrap();
    assert_ne!(fingerprint(&path).unwrap(), before);
}

#[test]
fn what_was_written_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relay.db");
    let message = StoredMessage { seq: 7, ..v1::parse(&payload("m"), Timestamp::default()).unwrap() };
    let database = NodeDatabase::v1(&path).unwrap();
    database.add_v1(&message).unwrap();
    assert!(!path.exists());
    database.written().unwrap().finish().unwrap();
    let (found, _) = read_v1(&path, folder.path(), &CancellationToken::new()).unwrap().unwrap().split();
    assert_eq!(found, [v1::kept(message)]);
    assert!(NodeDatabase::v1(&path).unwrap().written().unwrap().finish().is_err(), "nothing is overwritten");
    assert_eq!(read_v1(&path, folder.path(), &CancellationToken::new()).unwrap().unwrap().split().0.len(), 1);
    drop(NodeDatabase::v1(&folder.path().join("other.db")).unwrap());
    assert_eq!(contents(folder.path()).len(), 1, "what was not finished is gone");
}

#[test]
fn the_second_generation_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relay-v2.db");
    let message = v2::parse(
        &json!({
            "message_id": "m", "root_id": "r", "origin": "a", "target": "b", "kind": "request", "body": "é",
            "idempotency_key": "k", "created_at": 1.5, "expires_at": 9, "status": "leased", "attempts": 2,
            "lease_until": 3.25, "lease_token": "t", "allow_shared_write": true
        })
        .to_string(),
    )
    .unwrap();
    let database = NodeDatabase::v2(&path).unwrap();
    database.add_v2(&message).unwrap();
    database.written().unwrap().finish().unwrap();
    assert_eq!(
        read_v2(&path, folder.path(), &CancellationToken::new()).unwrap().unwrap().split().0,
        std::slice::from_ref(&message)
    );
    // As version 2 has left it, with a row that is broken.
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(
        "ALTER TABLE relay_v2_messages DROP COLUMN lease_token;
        ALTER TABLE relay_v2_messages DROP COLUMN allow_shared_write;
        INSERT INTO relay_v2_messages (message_id, root_id, origin, target, kind, body, idempotency_key, status,
            created_at, expires_at) VALUES ('n', 'r', 'a', 'b', 'request', '', 'l', 'lost', 1, 2)",
    )
    .unwrap();
    drop(conn);
    let (found, broken) = read_v2(&path, folder.path(), &CancellationToken::new()).unwrap().unwrap().split();
    assert_eq!(found.len(), 1);
    assert!(!found[0].message.allow_shared_write);
    assert_eq!(broken, [Broken { place: Place::Row(2), why: "unknown status" }]);
}
