//! SIGKILL again and again while agents write: whatever was answered is there afterwards.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::local::LocalBroker;

const ROUNDS: usize = 6;
const WRITERS: usize = 4;

/// What was answered: the state that a message must be in.
type Answered = Arc<Mutex<BTreeMap<String, &'static str>>>;

/// Sends messages under ids of its own until the broker is gone.
async fn writer(alpha: redsyn_bridge::dsh_client::DshClient, name: String, answered: Answered) {
    for number in 0.. {
        let id = format!("{name}-{number}");
        let sent = alpha.post("/messages", &json!({"to": "beta", "id": id, "body": {"n": number}})).await;
        if sent.is_err() {
            return;
        }
        answered.lock().unwrap().insert(id, "queued");
    }
}

/// Pulls and completes until the broker is gone.
async fn worker(beta: redsyn_bridge::dsh_client::DshClient, answered: Answered) {
    loop {
        let Ok(pulled) = beta.post("/v1/pull", &json!({"limit": 3})).await else { return };
        for message in pulled["messages"].as_array().unwrap() {
            let id = message["id"].as_str().unwrap().to_owned();
            answered.lock().unwrap().insert(id.clone(), "leased");
            let ack = json!({"messageId": id, "leaseId": message["leaseId"], "outcome": "completed"});
            // From here on either state is right until the answer is there.
            answered.lock().unwrap().insert(id.clone(), "leased or done");
            match beta.post("/v1/ack", &ack).await {
                Ok(_) => answered.lock().unwrap().insert(id, "done"),
                Err(_) => return,
            };
        }
    }
}

fn fits(expected: &str, status: &str) -> bool {
    match expected {
        // A pull or a send may have happened whose answer was lost.
        "queued" => matches!(status, "queued" | "leased"),
        "leased or done" => matches!(status, "leased" | "done"),
        other => other == status,
    }
}

async fn nothing_answered_is_missing(storage: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = LocalBroker::new(folder.path(), storage);
    let answered = Answered::default();
    for round in 0..ROUNDS {
        broker.start();
        check(&broker, &answered).await;
        broker.register(&["alpha", "beta"]).await;
        let mut agents: Vec<_> = (0..WRITERS)
            .map(|writer_of| {
                let name = format!("r{round}w{writer_of}");
                tokio::spawn(writer(broker.agent("alpha"), name, Arc::clone(&answered)))
            })
            .collect();
        agents.push(tokio::spawn(worker(broker.agent("beta"), Arc::clone(&answered))));
        let before = answered.lock().unwrap().len();
        // Kill in the middle of the traffic, at another point each time.
        while answered.lock().unwrap().len() < before + 60 + 17 * round {
            pause().await;
        }
        broker.kill();
        for agent in agents {
            tokio::time::timeout(Duration::from_secs(60), agent).await.expect("an agent hangs").unwrap();
        }
    }
    broker.start();
    check(&broker, &answered).await;
    assert!(answered.lock().unwrap().len() > ROUNDS * 60);
}

#[expect(clippy::disallowed_methods, reason = "the broker under test lives by the system clock")]
async fn pause() {
    tokio::time::sleep(Duration::from_millis(2)).await;
}

async fn check(broker: &LocalBroker, answered: &Answered) {
    let expected = answered.lock().unwrap().clone();
    let ids: Vec<_> = expected.keys().cloned().collect();
    let statuses = broker.statuses(&ids).await;
    let wrong: Vec<_> = expected
        .iter()
        .zip(&statuses)
        .filter(|((_, expected), status)| !fits(expected, status))
        .map(|((id, expected), status)| format!("{id}: answered {expected}, is {status}"))
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_lose_nothing_from_a_database() {
    nothing_answered_is_missing("sqlite").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_lose_nothing_from_lines() {
    nothing_answered_is_missing("jsonl").await;
}

#[tokio::test]
async fn after_a_kill_the_lines_hold_what_the_node_broker_would_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = LocalBroker::new(folder.path(), "jsonl");
    broker.start();
    broker.register(&["alpha", "beta"]).await;
    for number in 0..5 {
        broker.send(&format!("m{number}"), "hi").await.unwrap();
    }
    let pulled = broker.agent("beta").post("/v1/pull", &json!({"limit": 2})).await.unwrap();
    let lease = &pulled["messages"][0];
    let ack = json!({"messageId": lease["id"], "leaseId": lease["leaseId"], "outcome": "completed"});
    broker.agent("beta").post("/v1/ack", &ack).await.unwrap();
    broker.kill();
    let text = std::fs::read_to_string(broker.data().join("messages.jsonl")).unwrap();
    let mut last: BTreeMap<u64, Value> = BTreeMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        last.insert(line["seq"].as_u64().unwrap(), line["message"].clone());
    }
    let states: Vec<_> = last
        .values()
        .map(|message| (message["id"].as_str().unwrap(), message["status"].as_str().unwrap()))
        .collect();
    assert_eq!(
        states,
        [("m0", "done"), ("m1", "leased"), ("m2", "queued"), ("m3", "queued"), ("m4", "queued")]
    );
    assert_eq!(last[&2]["leaseId"], pulled["messages"][1]["leaseId"]);
}
