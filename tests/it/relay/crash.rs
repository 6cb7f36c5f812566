//! Killed again and again under load: what was answered 201 is delivered, what was confirmed never comes back, and a
//! retry under the same id is no second message. So it is for mailboxes, for topics, and for webhooks, where a push
//! that a kill has cut short comes again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::target::{Node, ids, request, soon, with};
use crate::support::process::{Process, run};
use crate::support::receiver::Receiver;
use crate::support::world::write;

const ROUNDS: usize = 6;
const SENDERS: usize = 8;
/// How many answers each round waits for before it kills.
const PER_ROUND: usize = 60;
/// How many pushes of one agent are under way at once.
const PUSHES_AT_ONCE: usize = 8;
pub(super) const FROM: &str = "acme/general/ana/out";
pub(super) const TO: &str = "acme/general/ana/in";
/// Has a webhook.
pub(super) const HOOKED: &str = "acme/general/ana/hooked";
const TOPIC: &str = "topic:acme/general/news";

/// What is sent under an id.
type Letter = fn(&str) -> Value;

fn to_the_mailbox(id: &str) -> Value {
    request(id, FROM, TO)
}

/// By turns an event for both who listen, and a request for the one with the webhook.
fn to_the_topic_or_the_webhook(id: &str) -> Value {
    if is_event(id) {
        return with(request(id, FROM, TOPIC), json!({"kind": "event"}));
    }
    request(id, FROM, HOOKED)
}

fn is_event(id: &str) -> bool {
    numbered(id).1.is_multiple_of(2)
}

/// Who has sent it, and as which of theirs.
fn numbered(id: &str) -> (&str, u32) {
    let (name, count) = id.rsplit_once('-').unwrap();
    (name, count.parse().unwrap())
}

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

pub(super) fn start(folder: &Path, token: &str) -> (Process, Node) {
    started(Process::start(folder, &["relay", "--config", "relay.yaml", "serve"]), token)
}

pub(super) fn started(mut process: Process, token: &str) -> (Process, Node) {
    let lines = process.wait_for("listening on http://127.0.0.1:");
    let url = lines.last().unwrap().split(' ').next_back().unwrap().to_owned();
    (process, Node::new(&format!("{url}/redsyn/v1"), token))
}

fn one_line(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, &[&["relay", "--config", "relay.yaml"], arguments].concat());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Sends until the relay is gone.
async fn send(node: Node, name: String, letter: Letter, seen: Shared) {
    for count in 0.. {
        let id = format!("{name}-{count}");
        let sent = node.request(reqwest::Method::POST, "/messages").json(&letter(&id)).send().await;
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

pub(super) fn made() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let config = "listen: 127.0.0.1:0\nwebhooks: {allow_insecure_targets: true}\n";
    write(folder.path(), "relay.yaml", config);
    one_line(folder.path(), &["user", "add", "--email", "ana@acme.example", "--plan", "enterprise"]);
    let token = one_line(folder.path(), &["node", "add", "--user", "p1", "--name", "a"]);
    (folder, token)
}

pub(super) async fn furnish(node: &Node) {
    node.post("/orgs", json!({"handle": "acme", "me": "ana"})).await.is(201);
    for agent in [FROM, TO, HOOKED] {
        node.announce(agent, json!({})).await.is(201);
    }
}

/// Load until enough was answered, and a kill in the midst of it.
async fn round(number: usize, process: Process, node: Node, letter: Letter, seen: &Shared) {
    let before = seen.lock().unwrap().accepted.len();
    let mut tasks = tokio::task::JoinSet::new();
    for sender in 0..SENDERS {
        tasks.spawn(send(node.clone(), format!("r{number}-{sender}"), letter, Arc::clone(seen)));
    }
    tasks.spawn(take(node, Arc::clone(seen)));
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

/// Sends again, under its id, what got no answer.
async fn retry(node: &Node, letter: Letter, seen: &Shared) {
    let unsure: Vec<String> = seen.lock().unwrap().unsure.iter().cloned().collect();
    for id in unsure {
        node.send(&letter(&id)).await.is(201);
        seen.lock().unwrap().accepted.insert(id);
    }
}

/// Takes the rest of the mailbox, where everything of `all` is found that was not confirmed, once.
async fn drain(node: &Node, all: &BTreeSet<String>, seen: &Shared) {
    let mut left: BTreeSet<String> = {
        let seen = seen.lock().unwrap();
        all.difference(&seen.confirmed).cloned().collect()
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
    left.retain(|id| !seen.lock().unwrap().unsure_confirmed.contains(id));
    assert!(left.is_empty(), "lost: {left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_survives_every_kill() {
    let (folder, token) = made();
    let seen = Shared::default();
    for number in 0..ROUNDS {
        let (process, node) = start(folder.path(), &token);
        if number == 0 {
            furnish(&node).await;
        }
        round(number, process, node, to_the_mailbox, &seen).await;
    }
    let (_process, node) = start(folder.path(), &token);
    retry(&node, to_the_mailbox, &seen).await;
    let all = seen.lock().unwrap().accepted.clone();
    drain(&node, &all, &seen).await;
    assert!(all.len() >= ROUNDS * PER_ROUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_published_or_is_pushed_survives_every_kill() {
    let (folder, token) = made();
    let (seen, mut receiver) = (Shared::default(), Receiver::start().await);
    let webhook = format!("/agents/{HOOKED}/webhook");
    for number in 0..ROUNDS {
        let (process, node) = start(folder.path(), &token);
        if number == 0 {
            furnish(&node).await;
            for agent in [TO, HOOKED] {
                node.put("/subscriptions", json!({"agent": agent, "topic": TOPIC})).await.is(200);
            }
        }
        // Set anew, it does not wait until the pushes of the dead would have ended.
        node.put(&webhook, json!({"url": receiver.url})).await.is(200);
        round(number, process, node, to_the_topic_or_the_webhook, &seen).await;
    }
    let (_process, node) = start(folder.path(), &token);
    node.put(&webhook, json!({"url": receiver.url})).await.is(200);
    retry(&node, to_the_topic_or_the_webhook, &seen).await;
    let all = seen.lock().unwrap().accepted.clone();
    let events: BTreeSet<String> = all.iter().filter(|id| is_event(id)).cloned().collect();
    drain(&node, &events, &seen).await;

    let (mut pushed, mut latest, mut again) = (BTreeSet::new(), BTreeMap::new(), 0);
    while pushed.len() < all.len() {
        let push = receiver.next().await;
        let id = push.id().to_owned();
        assert!(all.contains(&id), "nobody has sent {id}");
        if !pushed.insert(id.clone()) {
            again += 1;
        } else if is_event(&id) {
            let (name, count) = numbered(&id);
            let before = latest.insert(name.to_owned(), count);
            assert!(before < Some(count), "{id} was overtaken");
        }
    }
    // At the most those that were under way at a kill, and when the webhook was set anew.
    assert!(again <= ROUNDS * 2 * PUSHES_AT_ONCE, "{again} came again");
    assert!(events.len() >= ROUNDS && all.len() >= ROUNDS * PER_ROUND);
}
