//! Broker, bridge and relay in one process, killed again and again while requests go both ways between it and another
//! node, and answers come back: whatever was answered 201 is there afterwards, once, and in its conversation's order.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redsyn_bridge::crypto::secret::Secret;
use redsyn_bridge::dsh_client::{DshClient, DshError};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::golden::broker::free_port;
use crate::support::bridge::BridgeProcess;
use crate::support::process::run;
use crate::support::world::{Member, found, link, write};

const ROUNDS: usize = 4;
/// On each side, each in a conversation of its own.
const WRITERS: usize = 2;
/// What each of them sends in a round at the most: about as much as crosses before the kill.
const EACH: u32 = 12;
const HANG: Duration = Duration::from_secs(120);

/// What one side has said.
#[derive(Debug, Default)]
struct Said {
    answered: BTreeSet<String>,
    /// Sent without an answer.
    unsure: BTreeSet<String>,
}

type Shared = Arc<Mutex<Said>>;

fn letter(id: &str, to: &str) -> Value {
    let (writer, _) = id.rsplit_once('-').unwrap();
    json!({"id": id, "to": to, "kind": "request", "rootId": format!("{writer}-0"), "body": {"text": id}})
}

/// Sends until the broker is gone, or it was enough.
async fn says(client: DshClient, writer: String, to: String, said: Shared) {
    for count in 0..EACH {
        let id = format!("{writer}-{count}");
        let sent = client.post("/messages", &letter(&id, &to)).await;
        let mut said = said.lock().unwrap();
        match sent {
            Ok(_) => said.answered.insert(id),
            Err(DshError::Refused { status, body }) => panic!("{id}: {status} {body}"),
            Err(DshError::NoAnswer(_)) => {
                said.unsure.insert(id);
                return;
            }
        };
    }
}

/// What an agent has been given, in order: id and text.
type Given = Arc<Mutex<Vec<(String, String)>>>;

/// Takes the next message, if one comes, and is done with it. A request gets an answer.
async fn deals(client: &DshClient, given: &Given) {
    let pulled = client.post("/v1/pull", &json!({"limit": 1, "waitSeconds": 5})).await.unwrap();
    let Some(message) = pulled["messages"].as_array().unwrap().first() else { return };
    let (id, text) = (message["id"].as_str().unwrap(), message["body"]["text"].as_str().unwrap());
    given.lock().unwrap().push((id.to_owned(), text.to_owned()));
    if message["kind"] == "request" {
        let answer = json!({"id": format!("re-{id}"), "to": message["from"], "kind": "reply", "parentId": id,
                            "body": {"text": format!("re-{text}")}});
        client.post("/messages", &answer).await.unwrap();
    }
    let ack = json!({"messageId": id, "leaseId": message["leaseId"], "outcome": "completed"});
    client.post("/v1/ack", &ack).await.unwrap();
}

/// What was in the hands of the dead comes again at once, as it would after a quarter of an hour.
fn end_leases(home: &Path) {
    let relay = Connection::open(home.join("data/relay/relay.db")).unwrap();
    relay.execute("UPDATE deliveries SET lease_until = 1 WHERE lease_until IS NOT NULL", []).unwrap();
}

/// Another person at the relay that has just been made, while it does not run.
fn invite(home: &Path) -> Secret {
    write(home, "relay.yaml", "dataDir: data/relay\n");
    let line = |arguments: &[&str]| {
        let output = run(home, &[&["relay", "--config", "relay.yaml"], arguments].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let user = line(&["user", "add", "--email", "bob@globex.example", "--plan", "enterprise"]);
    let user = user.split_whitespace().next().unwrap().to_owned();
    Secret::new(line(&["node", "add", "--user", &user, "--name", "laptop"]))
}

fn assert_whole(given: &Given, expected: &BTreeSet<String>) {
    let given = given.lock().unwrap();
    let ids: BTreeSet<String> = given.iter().map(|(id, _)| id.clone()).collect();
    assert_eq!(&ids, expected);
    assert_eq!(given.len(), expected.len(), "something came twice");
    let mut latest = BTreeMap::new();
    for (id, text) in given.iter() {
        assert_eq!(id, text);
        let (conversation, count) = id.rsplit_once('-').unwrap();
        let count: u32 = count.parse().unwrap();
        assert!(latest.insert(conversation.to_owned(), count) < Some(count), "{id} was overtaken");
    }
}

async fn kills(storage: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (home, port) = (folder.path().join("home"), free_port());
    let url = format!("http://127.0.0.1:{port}/redsyn/v1");
    let agents = "\n    close: {hold: true, allow: [\"org:globex\"]}";
    let mut close = BridgeProcess::start_embedded(storage, &home, port, "close", agents);
    close.kill();
    let token = invite(&home);
    close.restart();
    let own = std::fs::read_to_string(home.join("data/relay/node.token")).unwrap();
    let me =
        Member { org: "home", team: "general", user: "me", agent: "close", token: Secret::new(own.trim()) };
    let bob = Member { org: "globex", team: "erp", user: "bob", agent: "billing", token };
    found(&bob, &url).await;
    link(&me, &bob, &url).await;
    link(&bob, &me, &url).await;
    let agents = "\n    billing: {hold: true, allow: [\"org:home\"]}";
    let billing = BridgeProcess::start_with(storage, &folder.path().join("globex"), &bob, &url, agents);
    billing.register().await;

    let (asked, asked_back, given) = (Shared::default(), Shared::default(), Given::default());
    let crossed = Arc::new(AtomicUsize::new(0));
    let worker = tokio::spawn({
        let (client, given, crossed) = (billing.client.clone(), Arc::clone(&given), Arc::clone(&crossed));
        async move {
            loop {
                deals(&client, &given).await;
                crossed.store(given.lock().unwrap().len(), Ordering::SeqCst);
            }
        }
    });
    for round in 0..ROUNDS {
        close.register().await;
        let before = crossed.load(Ordering::SeqCst);
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..WRITERS {
            let name = |side: &str| format!("{side}-r{round}w{writer}");
            writers.spawn(says(close.client.clone(), name("a"), bob.address(), Arc::clone(&asked)));
            writers.spawn(says(billing.client.clone(), name("b"), me.address(), Arc::clone(&asked_back)));
        }
        // In the midst of it, at another point each time.
        let enough = before + 3 + 4 * round;
        let reached = async {
            while crossed.load(Ordering::SeqCst) < enough {
                assert!(!worker.is_finished(), "the worker has ended");
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(HANG, reached).await.expect("nothing crosses");
        close.kill();
        while let Some(ended) = writers.join_next().await {
            ended.unwrap();
        }
        end_leases(&home);
        close.restart();
        let unsure = std::mem::take(&mut asked.lock().unwrap().unsure);
        for id in unsure {
            close.send(&letter(&id, &bob.address())).await;
            asked.lock().unwrap().answered.insert(id);
        }
    }
    let asked = asked.lock().unwrap().answered.clone();
    let mut back = asked_back.lock().unwrap().answered.clone();
    back.extend(asked.iter().map(|id| format!("re-{id}")));
    let came_back = Given::default();
    let whole = async {
        while came_back.lock().unwrap().len() < back.len() {
            deals(&close.client, &came_back).await;
        }
    };
    if tokio::time::timeout(HANG, whole).await.is_err() {
        let came: BTreeSet<String> = came_back.lock().unwrap().iter().map(|(id, _)| id.clone()).collect();
        panic!("lost: {:?}", back.difference(&came));
    }
    let answered = async {
        while given.lock().unwrap().len() < asked.len() + asked_back.lock().unwrap().answered.len() {
            assert!(!worker.is_finished(), "the worker has ended");
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(HANG, answered).await.expect("an answer is lost");
    // Whatever would come twice comes now.
    deals(&close.client, &came_back).await;
    worker.abort();
    assert_whole(&came_back, &back);
    let mut all = asked;
    all.extend(asked_back.lock().unwrap().answered.iter().map(|id| format!("re-{id}")));
    assert_whole(&given, &all);
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_a_process_with_its_own_relay_lose_nothing_from_a_database() {
    kills("sqlite").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_a_process_with_its_own_relay_lose_nothing_from_lines() {
    kills("jsonl").await;
}
