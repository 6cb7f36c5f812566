//! Ten thousand agents hold a poll at one relay. What does that cost, and how fast does a message wake its own?

use std::time::Instant;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::client::{Client, agent};
use super::server::Server;
use crate::common::measured::percentiles;
use crate::common::memory::{NOW, resident, told};

const HELD: usize = 10_000;
const WAKES: usize = 1_000;

type Woken = (usize, Instant);

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub async fn measure() {
    let server = Server::relay(HELD).await;
    let before = resident(server.process.id(), NOW);
    let (tell, mut woken) = mpsc::unbounded_channel();
    let mut holders = JoinSet::new();
    for worker in 0..HELD {
        let client = Client::connect(&server).await;
        holders.spawn(hold(client, worker, tell.clone()));
    }
    let mut sender = Client::connect(&server).await;
    // All hold once the relay says so: its own count of mailboxes somebody waits at.
    while held(&mut sender).await < HELD {
        tokio::task::yield_now().await;
    }
    let during = resident(server.process.id(), NOW);
    let mut latencies = Vec::with_capacity(WAKES);
    for wake in 0..WAKES {
        // Spread over all of them.
        let worker = wake * 7919 % HELD;
        let start = Instant::now();
        sender.send(worker).await;
        loop {
            let (who, at) = woken.recv().await.unwrap();
            if who == worker {
                latencies.push(at.duration_since(start));
                break;
            }
        }
    }
    holders.shutdown().await;
    let (middle, high) = percentiles(latencies);
    println!("{HELD} polls held by one relay");
    let each = before.zip(during).map(|(before, during)| (during - before) * 1024.0 / HELD as f64);
    println!(
        "memory: {} before, {} while held, {} a poll",
        told(before, "MiB"),
        told(during, "MiB"),
        told(each, "KiB")
    );
    println!("from the send to its taker's answer, {WAKES} times: p50 {middle:.2} ms, p99 {high:.2} ms");
}

/// Polls without end, and tells when something came.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
async fn hold(mut client: Client, worker: usize, tell: mpsc::UnboundedSender<Woken>) {
    let path = format!("/redsyn/v1/inbox/{}?wait=25", agent(worker));
    loop {
        let answer = client.call("GET", &path, "").await;
        let at = Instant::now();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        if answer["items"].as_array().is_some_and(|items| !items.is_empty())
            && tell.send((worker, at)).is_err()
        {
            return;
        }
    }
}

async fn held(client: &mut Client) -> usize {
    let metrics = String::from_utf8(client.call("GET", "/metrics", "").await).unwrap();
    let line = metrics.lines().find_map(|line| line.strip_prefix("redsyn_relay_held_mailboxes "));
    line.unwrap().parse().unwrap()
}
