//! A database that is damaged under a running relay: callers are told to try again, the log says why, and the next start
//! refuses in a sentence instead of serving half of the mail.

#![cfg(unix)]

use redsyn_bridge::proto::redsyn::ids::PREFIX;
use redsyn_bridge::relay::metrics::Counter;
use rusqlite::Connection;
use serde_json::json;

use super::crash::{FROM, HOOKED, TO, furnish, made, start};
use super::target::{Bench, Node, ids, request, settled, soon, text, with};
use crate::storage::damaged::damage;
use crate::support::process::run;
use crate::support::receiver::Receiver;

#[tokio::test]
async fn a_database_that_is_damaged_under_the_relay_is_named_in_the_log_and_at_the_next_start() {
    let (folder, token) = made();
    let (process, node) = start(folder.path(), &token);
    furnish(&node).await;
    let sent: Vec<String> = (0..60).map(|number| format!("m{number:02}")).collect();
    let letter = |id: &str| {
        let body = json!({"type": "text/plain", "text": "x".repeat(20_000)});
        with(request(id, FROM, TO), json!({"body": body, "thread": id}))
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

/// The same row by row, as a disk does that loses a sector: the file is one that can be opened.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_cannot_be_read_is_told_of_once_and_keeps_nobody_waiting() {
    let (folder, token) = made();
    let (process, node) = start(folder.path(), &token);
    furnish(&node).await;
    for (to, ids) in [(TO, 0..7), (HOOKED, 7..9)] {
        for number in ids {
            let letter =
                with(request(&format!("m{number}"), FROM, to), json!({"thread": format!("of {to}")}));
            node.send(&with(letter, json!({"body": text("SPOKEN-WORDS")}))).await.is(201);
        }
    }
    assert_eq!(process.terminate(), Some(0));
    let file = folder.path().join("data").join("relay.db");
    let database = Connection::open(&file).unwrap();
    let cut = "CAST(substr(CAST(body AS BLOB), 1, 20) || x'ff' AS TEXT)";
    for (id, table, damage) in [
        ("m1", "messages", format!("body = {cut}")),
        ("m2", "messages", "body = substr(body, 1, 20)".to_owned()),
        ("m3", "messages", "kind = 'SPOKEN-WORDS'".to_owned()),
        ("m4", "messages", "refs = '[', body = '{}'".to_owned()),
        ("m5", "deliveries", "to_text = CAST(x'ff' AS TEXT)".to_owned()),
        ("m7", "messages", format!("body = {cut}")),
    ] {
        let row = if table == "messages" { "seq" } else { "message" };
        let sql =
            format!("UPDATE {table} SET {damage} WHERE {row} = (SELECT seq FROM messages WHERE id = ?1)");
        assert_eq!(database.execute(&sql, [id]).unwrap(), 1);
    }
    drop(database);

    let (mut process, node) = start(folder.path(), &token);
    assert_eq!(node.take_ids_with(TO, "peek=1").await, ["m0", "m6"]);
    assert_eq!(node.take_ids(TO).await, ["m0", "m6"]);
    node.ack(TO, &["m0", "m6"]).await;
    assert!(node.take(TO).await.is_empty());
    let thread = node.get(&format!("/threads/of%20{}", TO.replace('/', "%2F"))).await.is(200);
    let shown: Vec<_> =
        ids(thread["items"].as_array().unwrap()).into_iter().filter(|id| id.len() == 2).collect();
    assert_eq!(shown, ["m0", "m5", "m6"]);
    node.get(&format!("/agents/{TO}/sessions/s1")).await.is(200);
    let mut receiver = Receiver::start().await;
    node.put(&format!("/agents/{HOOKED}/webhook"), json!({"url": receiver.url})).await.is(200);
    assert_eq!(receiver.next().await.id(), "m8");

    // Whoever sent them is told, as far as it can be read who that was.
    let told = node.take(FROM).await;
    let of: Vec<&str> = told.iter().map(|reply| reply["reply_to"].as_str().unwrap()).collect();
    assert_eq!(of, ["m1", "m2", "m4", "m5", "m7"]);
    for reply in &told {
        let words = reply["body"]["text"].as_str().unwrap();
        assert!(
            reply["error"] == true && words.starts_with("not delivered: the relay cannot read it"),
            "{reply}"
        );
    }
    process.signal("-TERM");
    let log = process.rest_of_log().join("\n");
    assert_eq!(log.matches("relay_message_unreadable").count(), 6, "{log}");
    assert!(!log.contains("SPOKEN"), "{log}");

    let database = Connection::open(&file).unwrap();
    let kept = "SELECT count(*) FROM messages JOIN deliveries ON message = messages.seq
        WHERE done = 'unreadable' AND waiting = 1 AND ended IS NULL";
    assert_eq!(database.query_row(kept, [], |row| row.get::<_, i64>(0)).unwrap(), 6);
}

/// Of a message whose thread cannot be read nobody can be told, but what else is due happens.
#[tokio::test]
async fn a_damaged_row_stops_neither_the_sweep_nor_the_retention() {
    let bench = Bench::start().await;
    let (cli, close) = ("acme/general/beto/cli", "acme/general/ana/close");
    bench.ana.announce(close, json!({})).await.is(201);
    bench.beto.announce(cli, json!({})).await.is(201);
    for id in ["m1", "m2"] {
        bench.beto.send(&with(request(id, cli, close), json!({"ttl": 60}))).await.is(201);
    }
    let database = Connection::open(bench.folder.path().join("relay.db")).unwrap();
    database.execute("UPDATE messages SET thread = CAST(x'ff' AS TEXT) WHERE id = 'm1'", []).unwrap();
    bench.advance(61);
    settled(&bench, Counter::MessagesExpired, 2).await;
    let told = bench.beto.take(cli).await;
    assert_eq!((told.len(), &told[0]["reply_to"]), (1, &json!("m2")));
    soon(async {
        while bench.service.metrics().get(Counter::MessagesForgotten) < 2 {
            bench.advance(86_400);
            tokio::task::yield_now().await;
        }
    })
    .await;
    let left = "SELECT id FROM messages WHERE id LIKE 'm_' AND id_until IS NULL AND ended IS NULL";
    assert_eq!(database.query_row(left, [], |row| row.get::<_, String>(0)).unwrap(), "m1");
}
