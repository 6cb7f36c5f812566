//! Round trips, as many as go with 64 in flight.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::ceiling;
use crate::common::measured::Measured;
use crate::local::Local;
use crate::size::processor;
use crate::stage::{Side, Stage};

const IN_FLIGHT: usize = 64;
/// How many calls each agent makes at once to answer and to confirm.
const HANDS: usize = 16;
const ROUNDS: usize = 4;
const ROUND: Duration = Duration::from_secs(4);

pub async fn measure() {
    let stage = Stage::set().await;
    Local::connect(&stage.close).await.register().await;
    Local::connect(&stage.billing).await.register().await;
    run(&stage, Duration::from_secs(1)).await;
    let (mut ours, mut ceiling) = (Measured::default(), Measured::default());
    let (mut used, mut alone) = ([Duration::ZERO; 4], Duration::ZERO);
    for _ in 0..ROUNDS {
        let before = stage.processes().map(used_by);
        ceiling.add(ceiling::run(ROUND / 4));
        let between = stage.processes().map(used_by);
        ours.add(run(&stage, ROUND).await);
        let after = stage.processes().map(used_by);
        alone += between[3] - before[3];
        for (sum, (after, between)) in used.iter_mut().zip(after.into_iter().zip(between)) {
            *sum += after - between;
        }
    }
    println!(
        "round trips, {IN_FLIGHT} in flight: {:.0} a second, p50/p99 {} ms",
        ours.rate(),
        ours.latencies()
    );
    println!("their signatures and seals alone, on all cores: {:.0} a second", ceiling.rate());
    println!("ratio: {:.0}%", 100.0 * ours.rate() / ceiling.rate());
    let [close, billing, relay, agents] = used.map(|used| each(used, &ours));
    println!(
        "processor time of each, in ms: bridges {close:.2} and {billing:.2}, relay {relay:.2}, agents {agents:.2}; \
         its signatures and seals alone {:.2}\n",
        each(alone, &ceiling)
    );
}

/// Nothing on systems that do not tell.
fn used_by(process: u32) -> Duration {
    processor(process).unwrap_or_default()
}

/// Milliseconds for one of them.
fn each(used: Duration, trips: &Measured) -> f64 {
    used.as_secs_f64() * 1e3 / trips.latencies.len() as f64
}

/// Who waits for the answer to which request.
type Waiting = Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>;

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
async fn run(stage: &Stage, time: Duration) -> Measured {
    let waiting = Waiting::default();
    let (mut pulls, mut hands) = (JoinSet::new(), JoinSet::new());
    let answering = busy(&mut hands, &stage.billing, true).await;
    let confirming = busy(&mut hands, &stage.close, false).await;
    pulls.spawn(pull(Local::connect(&stage.billing).await, answering, Waiting::default()));
    pulls.spawn(pull(Local::connect(&stage.close).await, confirming, Arc::clone(&waiting)));
    let mut askers = Vec::new();
    let began = Instant::now();
    for _ in 0..IN_FLIGHT {
        let (mut asker, waiting) = (Local::connect(&stage.close).await, Arc::clone(&waiting));
        askers.push(tokio::spawn(async move {
            let mut latencies = Vec::new();
            while began.elapsed() < time {
                let start = Instant::now();
                let id = asker.ask().await;
                let (answered, answer) = oneshot::channel();
                // The answer may have come before the sender was told the id.
                let is_there = waiting.lock().unwrap().insert(id.clone(), answered).is_some();
                if is_there {
                    waiting.lock().unwrap().remove(&id);
                } else {
                    answer.await.unwrap();
                }
                latencies.push(start.elapsed());
            }
            latencies
        }));
    }
    let measured = Measured::gather(askers, began).await;
    pulls.shutdown().await;
    // Nobody gives them more: they end with what they have.
    while let Some(hand) = hands.join_next().await {
        hand.unwrap();
    }
    measured
}

/// The hands of an agent, each with its own connection: what they are given they answer, or only confirm.
async fn busy(hands: &mut JoinSet<()>, side: &Side, answers: bool) -> Vec<mpsc::UnboundedSender<Value>> {
    let mut given = Vec::new();
    for _ in 0..HANDS {
        let mut local = Local::connect(side).await;
        let (give, mut messages) = mpsc::unbounded_channel::<Value>();
        given.push(give);
        hands.spawn(async move {
            while let Some(message) = messages.recv().await {
                if answers {
                    local.answer(&message).await;
                }
                local.confirm(&message).await;
            }
        });
    }
    given
}

/// Pulls without end, tells who waits, and gives the messages to the hands in turn.
async fn pull(mut local: Local, hands: Vec<mpsc::UnboundedSender<Value>>, waiting: Waiting) {
    let mut turn = 0;
    loop {
        for message in local.pull().await {
            if let Some(request) = message["parentId"].as_str() {
                let mut waiting = waiting.lock().unwrap();
                match waiting.remove(request) {
                    Some(asker) => drop(asker.send(())),
                    // The mark of an answer that came first.
                    None => drop(waiting.insert(request.to_owned(), oneshot::channel().0)),
                }
            }
            turn += 1;
            hands[turn % HANDS].send(message).unwrap();
        }
    }
}
