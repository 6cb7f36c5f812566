//! What stands in the files: every table, every column, nothing that was rolled back, and not for ever.

use rusqlite::Connection;

use super::*;
use crate::store::sqlite::local_schema::STEPS;
use crate::store::sqlite::schema;

#[tokio::test]
async fn every_table_and_every_column_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    // A row of recognisable values in every table, whatever tables there will be.
    let filled = store.db().call("fill", |conn| {
        let mut tables = table::all(conn)?;
        // Others belong to a message.
        tables.sort_by_key(|table| !table.is_mail());
        for table in tables {
            fill(conn, table.name());
        }
        Ok(())
    });
    filled.await.unwrap();
    let before = dump(&store).await;
    assert!(before.values().all(|rows| !rows.is_empty()), "{before:?}");
    let store = reopened(store, folder.path()).await;
    assert_eq!(dump(&store).await, before);
    // Once more from the rewritten files.
    let store = reopened(store, folder.path()).await;
    assert_eq!(dump(&store).await, before);
}

/// Inserts a row with a value in each column that its constraints allow.
fn fill(conn: &Connection, table: &str) {
    let mut columns = conn
        .prepare("SELECT name, type FROM pragma_table_info(?1) WHERE name NOT IN ('lease_id', 'lease_token', 'lease_until')")
        .unwrap();
    let columns = columns.query_map([table], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let columns: Vec<(String, String)> = columns.collect::<Result<_, _>>().unwrap();
    let value = |(at, (name, kind)): (usize, &(String, String))| match (name.as_str(), kind.as_str()) {
        ("status", _) => "'queued'".to_owned(),
        ("direction", _) => "'in'".to_owned(),
        ("type", _) => "'message'".to_owned(),
        ("kind", _) => "'request'".to_owned(),
        ("inbox", _) => "'beta'".to_owned(),
        ("redsyn", _) => "'{\"a\":1}'".to_owned(),
        ("ack" | "redeliver" | "verified" | "closed" | "error" | "allow_shared_write", "INTEGER") => {
            "1".to_owned()
        }
        ("message", "INTEGER") => "(SELECT seq FROM messages)".to_owned(),
        (_, "INTEGER") => format!("{}", 1000 + at),
        (_, "REAL") => format!("{}.25", 1000 + at),
        (_, "BLOB") => "x'00ff80'".to_owned(),
        _ => format!("'\"text {at} é\"'"),
    };
    let values: Vec<_> = columns.iter().enumerate().map(value).collect();
    let names: Vec<_> = columns.iter().map(|(name, _)| name.as_str()).collect();
    let sql = format!("INSERT INTO {table} ({}) VALUES ({})", names.join(", "), values.join(", "));
    conn.execute(&sql, []).unwrap_or_else(|error| panic!("{error}: {sql}"));
}

#[tokio::test]
async fn what_was_rolled_back_stands_in_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let failed: Result<(), _> = store
        .db()
        .call("half", |conn| {
            conn.execute_batch(MIXED)?;
            Err(StoreError::Other("no".into()))
        })
        .await;
    assert!(failed.is_err());
    store.register(agent("beta"), NOW).await.unwrap();
    let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(text(MAIL), "");
    assert_eq!(text(ROWS).lines().count(), 2, "{}", text(ROWS));
}

#[tokio::test]
async fn looking_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    store.register(agent("beta"), NOW).await.unwrap();
    let len = || std::fs::metadata(folder.path().join(ROWS)).unwrap().len();
    let before = len();
    assert!(pull(&store, 5).await.is_empty());
    store.peers(NOW).await.unwrap();
    assert_eq!(len(), before);
}

#[tokio::test]
async fn a_number_is_given_once_even_when_its_message_is_long_gone() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    store.register(agent("beta"), NOW).await.unwrap();
    for id in ["one", "two", "three"] {
        send(&store, id).await;
    }
    execute(&store, "DELETE FROM messages WHERE id <> 'one'").await.unwrap();
    let mut store = store;
    for _ in 0..2 {
        store = reopened(store, folder.path()).await;
    }
    send(&store, "four").await;
    let kept = store.kept_after(0, 9).await.unwrap();
    assert_eq!(kept.iter().map(|kept| kept.stored.seq).collect::<Vec<_>>(), [1, 4]);
}

#[tokio::test]
async fn the_files_do_not_grow_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    store.register(agent("beta"), NOW).await.unwrap();
    let body = JsonText::from(&json!("x".repeat(100_000)));
    let large = NewMessage { body, ..message("large") };
    store.send(large, agent("beta"), |_| ()).await.unwrap().unwrap();
    for _ in 0..40 {
        let leased = pull(&store, 1).await;
        let State::Leased(_) = leased[0].delivery.state else { panic!("not leased") };
        execute(&store, "UPDATE messages SET status = 'queued', lease_id = NULL, lease_until = NULL")
            .await
            .unwrap();
    }
    let len = std::fs::metadata(folder.path().join(MAIL)).unwrap().len();
    assert!(len < 2 * crate::store::sqlite::journal::SMALL, "{len}");
    let before = dump(&store).await;
    let store = reopened(store, folder.path()).await;
    assert_eq!(dump(&store).await, before);
}

#[tokio::test]
async fn a_file_of_another_broker_is_taken_as_it_is_and_a_copy_kept() {
    let folder = tempfile::tempdir().unwrap();
    let line = |seq: i64, id: &str| {
        json!({"seq": seq, "message": {"id": id, "from": "alpha", "to": "beta"}}).to_string()
    };
    // The last line lacks its end; two have the same id.
    let text =
        [line(2, "two"), "nonsense".into(), line(1, "one"), line(7, "two"), line(5, "five")].join("\n");
    std::fs::write(folder.path().join(MAIL), &text).unwrap();
    let (store, loaded) = open(folder.path());
    assert!(loaded.is_foreign);
    assert_eq!(loaded.messages, 3);
    let broken: Vec<_> = loaded.broken.iter().map(|broken| broken.place.to_string()).collect();
    assert_eq!(broken, ["line 2", "line 4"]);
    assert_eq!(std::fs::read_to_string(loaded.copy.unwrap()).unwrap(), text);
    assert_eq!(ids(&store).await, ["one", "two", "five"]);
    store.register(agent("beta"), NOW).await.unwrap();
    send(&store, "new").await;
    store.close().await.unwrap();
    let (store, loaded) = open(folder.path());
    assert!(!loaded.is_foreign && loaded.broken.is_empty() && loaded.copy.is_none());
    assert_eq!(ids(&store).await, ["one", "two", "five", "new"]);
}

#[tokio::test]
async fn what_belongs_to_a_message_goes_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    store.register(agent("beta"), NOW).await.unwrap();
    send(&store, "one").await;
    send(&store, "two").await;
    execute(&store, "INSERT INTO files (message, zip) SELECT seq, x'00ff' FROM messages").await.unwrap();
    execute(&store, "DELETE FROM messages WHERE id = 'one'").await.unwrap();
    let before = dump(&store).await;
    assert_eq!(before["files"].len(), 1);
    let store = reopened(store, folder.path()).await;
    assert_eq!(dump(&store).await, before);
    store.close().await.unwrap();
    // Another broker has dropped the message.
    std::fs::write(folder.path().join(MAIL), "").unwrap();
    let (store, _) = open(folder.path());
    assert_eq!(dump(&store).await["files"], Vec::<Cells>::new());
}

#[tokio::test]
async fn damage_in_the_middle_of_the_rows_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    for name in ["beta", "gamma"] {
        store.register(agent(name), NOW).await.unwrap();
    }
    store.close().await.unwrap();
    let path = folder.path().join(ROWS);
    let whole = std::fs::read_to_string(&path).unwrap();
    for (damaged, told) in [
        (whole.replace(r#"{"table":"agents","row":{"name":"beta""#, "{{"), "line 2"),
        (whole.replace("agents", "agencies"), "line 2"),
        (whole.replace("last_seen", "seen_last"), "line 2"),
        (String::new(), "line 1"),
    ] {
        std::fs::write(&path, damaged).unwrap();
        let error = LocalStore::open_jsonl(folder.path()).unwrap_err();
        assert!(matches!(&error, StoreError::Damaged(text) if text.contains(told)), "{error}");
    }
    std::fs::write(&path, whole.replace("\"schema\":", "\"schema\":9")).unwrap();
    let error = LocalStore::open_jsonl(folder.path()).unwrap_err();
    assert!(error.to_string().contains("newer version"), "{error}");
}

#[tokio::test]
async fn rows_of_an_older_version_go_through_the_steps_that_they_lack() {
    let folder = tempfile::tempdir().unwrap();
    let rows = concat!(
        r#"{"schema":1,"batch":3}"#,
        "\n",
        r#"{"table":"agents","row":{"name":"beta","last_seen":5}}"#,
        "\n"
    );
    std::fs::write(folder.path().join(ROWS), rows).unwrap();
    let (store, _) = open(folder.path());
    assert_eq!(dump(&store).await["agents"].len(), 1);
    store.close().await.unwrap();
    let first = std::fs::read_to_string(folder.path().join(ROWS)).unwrap();
    assert!(first.starts_with(&format!(r#"{{"schema":{},"batch":3}}"#, STEPS.len())), "{first}");
}

#[test]
fn every_column_of_a_message_is_kept() {
    let conn = Connection::open_in_memory().unwrap();
    schema::migrate(&conn, STEPS).unwrap();
    let columns = |sql: &str| {
        let statement = conn.prepare(sql).unwrap();
        let mut names: Vec<_> = statement.column_names().map(str::to_owned).collect();
        names.sort();
        names
    };
    let kept = crate::store::sqlite::local::keep::STATEMENT;
    assert_eq!(columns(kept), columns("SELECT * FROM messages"));
}

#[tokio::test]
async fn another_storage_in_the_configuration_takes_everything_along() {
    let folder = tempfile::tempdir().unwrap();
    let store = LocalStore::open(folder.path()).unwrap();
    store.register(agent("beta"), NOW).await.unwrap();
    for id in ["one", "two", "three"] {
        send(&store, id).await;
    }
    execute(&store, MIXED).await.unwrap();
    execute(&store, "DELETE FROM messages WHERE id = 'three'").await.unwrap();
    pull(&store, 1).await;
    let before = dump(&store).await;
    store.close().await.unwrap();

    let (store, loaded) = open(folder.path());
    assert!(!loaded.is_foreign);
    assert_eq!(dump(&store).await, before);
    assert!(!folder.path().join("broker.db").exists() && folder.path().join("broker.db.old").exists());
    let store = reopened(store, folder.path()).await;
    send(&store, "four").await;
    let before = dump(&store).await;
    store.close().await.unwrap();

    let store = LocalStore::open(folder.path()).unwrap();
    assert_eq!(dump(&store).await, before);
    for name in [MAIL, ROWS] {
        assert!(!folder.path().join(name).exists(), "{name}");
    }
    store.close().await.unwrap();
    // Back once more: what was set aside the last time is in nobody's way.
    let (store, _) = open(folder.path());
    assert_eq!(dump(&store).await, before);
}

#[tokio::test]
async fn lines_that_a_database_has_taken_over_do_not_come_to_life_again() {
    let folder = tempfile::tempdir().unwrap();
    let line = json!({"seq": 1, "message": {"id": "finished", "from": "alpha", "to": "beta"}});
    std::fs::write(folder.path().join(MAIL), format!("{line}\n")).unwrap();
    let store = LocalStore::open(folder.path()).unwrap();
    let print = crate::store::local::Fingerprint { size: 1, changed: NOW };
    store.taken_over(MAIL, print, NOW).await.unwrap();
    store.close().await.unwrap();
    let (store, loaded) = open(folder.path());
    assert!(!loaded.is_foreign);
    assert_eq!(ids(&store).await, Vec::<String>::new());
    assert!(folder.path().join("messages.jsonl.old").exists());
}
