//! SIGKILL again and again while agents of both generations write, pull and complete: whatever was answered is there
//! afterwards, what was completed does not come back, and no lease is given twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redsyn_bridge::dsh_client::{DshClient, DshError};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::support::local::LocalBroker;
use crate::support::v2::V2Agent;

const ROUNDS: usize = 6;
/// Of each generation.
const WRITERS: usize = 3;
const WORKERS: usize = 2;

/// What is known of a message from the answers.
#[derive(Clone, Debug, PartialEq)]
enum Known {
    Sent,
    /// Pulled, under this lease.
    Leased(String),
    /// The same, and completed in a call whose answer did not come.
    LeasedOrDone(String),
    Done,
}

impl Known {
    /// A pull may have happened whose answer was lost.
    fn fits(&self, status: &str) -> bool {
        match self {
            Self::Sent => matches!(status, "queued" | "leased"),
            Self::Leased(_) => status == "leased",
            Self::LeasedOrDone(_) => matches!(status, "leased" | "done" | "completed"),
            Self::Done => matches!(status, "done" | "completed"),
        }
    }
}

/// All answers of one generation.
#[derive(Debug, Default)]
struct Answers {
    known: Mutex<BTreeMap<String, Known>>,
    /// Two workers never got the same message: the leases outlast the test.
    twice: Mutex<BTreeSet<String>>,
    /// How many messages are known.
    count: watch::Sender<usize>,
}

impl Answers {
    fn sent(&self, id: String) {
        // A worker may have been faster.
        self.known.lock().unwrap().entry(id).or_insert(Known::Sent);
        self.grown();
    }

    fn leased(&self, id: &str, lease: &str) {
        let before = self.known.lock().unwrap().insert(id.to_owned(), Known::Leased(lease.to_owned()));
        if before.is_some_and(|before| before != Known::Sent) {
            self.twice.lock().unwrap().insert(id.to_owned());
        }
        self.grown();
    }

    fn became(&self, id: &str, known: Known) {
        self.known.lock().unwrap().insert(id.to_owned(), known);
    }

    fn grown(&self) {
        self.count.send_replace(self.known.lock().unwrap().len());
    }

    /// What was leased: id, lease, and whether it may be done already.
    fn unfinished(&self) -> Vec<(String, String, bool)> {
        let known = self.known.lock().unwrap().clone();
        let lease = |(id, known)| match known {
            Known::Leased(lease) => Some((id, lease, false)),
            Known::LeasedOrDone(lease) => Some((id, lease, true)),
            Known::Sent | Known::Done => None,
        };
        known.into_iter().filter_map(lease).collect()
    }
}

/// The broker has gone.
struct Gone;

/// An agent of either generation.
#[derive(Clone, Debug)]
enum Agent {
    V1(DshClient),
    V2(V2Agent),
}

impl Agent {
    fn both(broker: &LocalBroker, name: &str) -> [Self; 2] {
        [Self::V1(broker.agent(name)), Self::V2(V2Agent::new(&broker.base(), "s", name))]
    }

    /// The answer, or the code of the refusal.
    async fn post(&self, path: &str, body: &Value) -> Result<Result<Value, String>, Gone> {
        let (is_done, answer) = match self {
            Self::V1(agent) => match agent.post(path, body).await {
                Ok(answer) => (true, answer),
                Err(DshError::Refused { body, .. }) if !body.is_null() => (false, body),
                Err(_) => return Err(Gone),
            },
            Self::V2(agent) => {
                let (status, answer) = agent.post(path, body).await.map_err(|_| Gone)?;
                (status == 200, answer)
            }
        };
        let code = || answer["error"]["code"].as_str().unwrap().to_owned();
        Ok(if is_done { Ok(answer) } else { Err(code()) })
    }

    async fn send(&self, name: &str) -> Result<String, Gone> {
        let (path, body, id) = match self {
            Self::V1(_) => ("/messages", json!({"to": "beta", "id": name}), "id"),
            Self::V2(_) => {
                let body = json!({
                    "origin": "alpha", "target": "beta", "kind": "request", "body": "do it",
                    "idempotency_key": name, "execution_mode": "read",
                });
                ("/v1/messages", body, "message_id")
            }
        };
        let sent = self.post(path, &body).await?.unwrap();
        Ok(sent[id].as_str().unwrap().to_owned())
    }

    /// Ids and leases.
    async fn pull(&self) -> Result<Vec<(String, String)>, Gone> {
        let pulled = self.post("/v1/pull", &json!({"limit": 3})).await?.unwrap();
        let (id, lease) = match self {
            Self::V1(_) => ("id", "leaseId"),
            Self::V2(_) => ("message_id", "lease_token"),
        };
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let messages = pulled["messages"].as_array().unwrap();
        Ok(messages.iter().map(|message| (text(&message[id]), text(&message[lease]))).collect())
    }

    async fn complete(&self, id: &str, lease: &str) -> Result<Result<Value, String>, Gone> {
        let ack = match self {
            Self::V1(_) => json!({"messageId": id, "leaseId": lease, "outcome": "completed"}),
            Self::V2(_) => json!({"message_id": id, "lease_token": lease, "outcome": "completed"}),
        };
        self.post("/v1/ack", &ack).await
    }

    async fn statuses(&self, ids: &[String]) -> Vec<String> {
        let mut statuses = Vec::new();
        for ids in ids.chunks(50) {
            let Ok(answer) = self.post("/v1/status", &json!({"messageIds": ids, "message_ids": ids})).await
            else {
                panic!("the broker has gone");
            };
            let lines = answer.unwrap()["messages"].as_array().unwrap().clone();
            statuses.extend(lines.iter().map(|line| line["status"].as_str().unwrap().to_owned()));
        }
        statuses
    }
}

/// Sends messages until the broker is gone.
async fn write(alpha: Agent, name: String, answers: Arc<Answers>) -> Result<(), Gone> {
    for number in 0.. {
        let id = alpha.send(&format!("{name}-{number}")).await?;
        answers.sent(id);
    }
    Ok(())
}

/// Pulls and completes until the broker is gone.
async fn work(beta: Agent, answers: Arc<Answers>) -> Result<(), Gone> {
    loop {
        let pulled = beta.pull().await?;
        for (id, lease) in &pulled {
            answers.leased(id, lease);
        }
        for (id, lease) in pulled {
            // From here on either state is right until the answer is there.
            answers.became(&id, Known::LeasedOrDone(lease.clone()));
            beta.complete(&id, &lease).await?.unwrap();
            answers.became(&id, Known::Done);
        }
    }
}

/// A lease that was answered still holds after the kill, for whoever has it.
async fn finish(beta: &Agent, answers: &Answers) {
    for (id, lease, may_be_done) in answers.unfinished() {
        match beta.complete(&id, &lease).await {
            Ok(Ok(_)) => {}
            // It was done before the kill, and the answer was lost.
            Ok(Err(code)) => assert!(may_be_done, "{id}: {code}"),
            Err(Gone) => panic!("the broker has gone"),
        }
        answers.became(&id, Known::Done);
    }
}

async fn check(beta: &Agent, answers: &Answers) {
    let known = answers.known.lock().unwrap().clone();
    let ids: Vec<_> = known.keys().cloned().collect();
    let statuses = beta.statuses(&ids).await;
    let wrong: Vec<_> = known
        .iter()
        .zip(&statuses)
        .filter(|((_, known), status)| !known.fits(status))
        .map(|((id, known), status)| format!("{id}: answered {known:?}, is {status}"))
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(*answers.twice.lock().unwrap(), BTreeSet::new(), "leased twice");
}

/// Takes all that is left: nothing that was taken before is among it.
async fn drain(beta: &Agent, answers: &Answers) {
    loop {
        let Ok(pulled) = beta.pull().await else { panic!("the broker has gone") };
        if pulled.is_empty() {
            return;
        }
        for (id, lease) in pulled {
            answers.leased(&id, &lease);
        }
    }
}

async fn kills_under_load(storage: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = LocalBroker::new(folder.path(), storage);
    let answers = [Arc::<Answers>::default(), Arc::default()];
    for round in 0..ROUNDS {
        broker.start();
        broker.register(&["alpha", "beta"]).await;
        let mut agents = Vec::new();
        let mut enough = Vec::new();
        for ((alpha, beta), answers) in
            Agent::both(&broker, "alpha").into_iter().zip(Agent::both(&broker, "beta")).zip(&answers)
        {
            check(&beta, answers).await;
            finish(&beta, answers).await;
            // In the middle of the traffic, at another point each time.
            let known = answers.known.lock().unwrap().len();
            enough.push((answers.count.subscribe(), known + 40 + 17 * round));
            for writer in 0..WRITERS {
                let name = format!("r{round}w{writer}");
                agents.push(tokio::spawn(write(alpha.clone(), name, Arc::clone(answers))));
            }
            for _ in 0..WORKERS {
                agents.push(tokio::spawn(work(beta.clone(), Arc::clone(answers))));
            }
        }
        for (mut count, enough) in enough {
            let reached = count.wait_for(|count| *count >= enough);
            tokio::time::timeout(Duration::from_secs(60), reached).await.expect("no traffic").unwrap();
        }
        broker.kill();
        for agent in agents {
            let ended = tokio::time::timeout(Duration::from_secs(60), agent).await;
            assert!(ended.expect("an agent hangs").unwrap().is_err());
        }
    }
    broker.start();
    for (beta, answers) in Agent::both(&broker, "beta").into_iter().zip(&answers) {
        check(&beta, answers).await;
        drain(&beta, answers).await;
        check(&beta, answers).await;
        let known = answers.known.lock().unwrap().clone();
        assert!(known.len() > ROUNDS * 40);
        assert!(known.values().any(|known| *known == Known::Done), "nobody has worked");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_lose_nothing_from_a_database() {
    kills_under_load("sqlite").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_lose_nothing_from_lines() {
    kills_under_load("jsonl").await;
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
