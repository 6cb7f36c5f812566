//! Killed again and again under load: what was answered 201 is delivered, what was confirmed never comes back, and a
//! retry under the same id is no second message.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::target::{Node, ids, request, soon};
use crate::support::process::{Process, run};
use crate::support::world::write;

const ROUNDS: usize = 6;
const SENDERS: usize = 8;
/// How many answers each round waits for before it kills.
const PER_ROUND: usize = 60;
const FROM: &str = "acme/general/ana/out";
const TO: &str = "acme/general/ana/in";

#[derive(Debug, Default)]
struct Seen {
    accepted: BTreeSet<String>,
    /// Sent without an answer: may or may not have been accepted.
    unsure: BTreeSet<String>,
    confirmed: BTreeSet<String>,
    /// Confirmed without an answer.
    unsure_confirmed: BTreeSet<String>,
}

type Shared = Arc<Mutex<Seen>>;

fn start(folder: &Path, token: &str) -> (Process, Node) {
    let mut process = Process::start(folder, &["relay", "--config", "relay.yaml", "serve"]);
    let lines = process.wait_for("listening on http://127.0.0.1:");
    let url = lines.last().unwrap().split(' ').next_back().unwrap().to_owned();
    (process, Node::new(&format!("{url}/redsyn/v1"), token))
}

fn one_line(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, &[&["relay", "--config", "relay.yaml"], arguments].concat());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Sends until the relay is gone.
async fn send(node: Node, name: String, seen: Shared) {
    for count in 0.. {
        let id = format!("{name}-{count}");
        let sent =
            node.request(reqwest::Method::POST, "/messages").json(&request(&id, FROM, TO)).send().await;
        let mut seen = seen.lock().unwrap();
        match sent {
            Ok(answer) if answer.status() == 201 => seen.accepted.insert(id),
            Ok(answer) => panic!("{id}: {}", answer.status()),
            Err(_) => {
                seen.unsure.insert(id);
                return;
            }
        };
    }
}

/// Takes for a second, and confirms, until the relay is gone.
async fn take(node: Node, seen: Shared) {
    loop {
        let taken = node.request(reqwest::Method::GET, &format!("/inbox/{TO}?wait=1&lease=1")).send().await;
        let Ok(taken) = taken else { return };
        let Ok(taken) = taken.json::<serde_json::Value>().await else { return };
        let taken = ids(taken["items"].as_array().unwrap());
        for id in &taken {
            assert!(!seen.lock().unwrap().confirmed.contains(id), "{id} came back");
        }
        let path = format!("/inbox/{TO}/ack");
        let acked = node.request(reqwest::Method::POST, &path).json(&json!({"ids": taken})).send().await;
        let mut seen = seen.lock().unwrap();
        match acked {
            Ok(answer) if answer.status() == 200 => seen.confirmed.extend(taken),
            _ => {
                seen.unsure_confirmed.extend(taken);
                return;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_survives_every_kill() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "relay.yaml", "listen: 127.0.0.1:0\n");
    one_line(folder.path(), &["user", "add", "--email", "ana@acme.example", "--plan", "enterprise"]);
    let token = one_line(folder.path(), &["node", "add", "--user", "p1", "--name", "a"]);
    let seen = Shared::default();
    for round in 0..ROUNDS {
        let (process, node) = start(folder.path(), &token);
        if round == 0 {
            node.post("/orgs", json!({"handle": "acme", "me": "ana"})).await.is(201);
            node.announce(FROM, json!({})).await.is(201);
            node.announce(TO, json!({})).await.is(201);
        }
        let before = seen.lock().unwrap().accepted.len();
        let mut tasks = tokio::task::JoinSet::new();
        for sender in 0..SENDERS {
            tasks.spawn(send(node.clone(), format!("r{round}-{sender}"), Arc::clone(&seen)));
        }
        tasks.spawn(take(node, Arc::clone(&seen)));
        soon(async {
            while seen.lock().unwrap().accepted.len() < before + PER_ROUND {
                tokio::task::yield_now().await;
            }
        })
        .await;
        process.kill();
        soon(async {
            while let Some(ended) = tasks.join_next().await {
                ended.unwrap();
            }
        })
        .await;
    }
    let (_process, node) = start(folder.path(), &token);
    let retried: Vec<String> = seen.lock().unwrap().unsure.iter().cloned().collect();
    for id in retried {
        node.send(&request(&id, FROM, TO)).await.is(201);
        seen.lock().unwrap().accepted.insert(id);
    }
    let mut left: BTreeSet<String> = {
        let seen = seen.lock().unwrap();
        seen.accepted.difference(&seen.confirmed).cloned().collect()
    };
    let mut delivered = BTreeSet::new();
    // The last leases end within a second; a poll that waits longer and comes back empty has nothing more.
    loop {
        let taken = ids(&node.take_with(TO, "wait=3").await);
        if taken.is_empty() {
            break;
        }
        let acked: Vec<&str> = taken.iter().map(String::as_str).collect();
        node.ack(TO, &acked).await;
        for id in taken {
            assert!(!seen.lock().unwrap().confirmed.contains(&id), "{id} came back");
            assert!(delivered.insert(id.clone()), "{id} is there twice");
            left.remove(&id);
        }
    }
    let seen = seen.lock().unwrap();
    left.retain(|id| !seen.unsure_confirmed.contains(id));
    assert!(left.is_empty(), "lost: {left:?}");
    assert!(seen.accepted.len() >= ROUNDS * PER_ROUND);
}
