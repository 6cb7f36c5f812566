//! Ten thousand messages are sent while the relay is away. It comes back: how fast do they reach it, and what do they
//! cost the bridge?

use std::sync::Arc;
use std::time::{Duration, Instant};

use redsyn_bridge::bridge::keys::NodeKeys;
use redsyn_bridge::domain::random::SystemRandom;
use serde_json::json;

use crate::ceiling;
use crate::common::http::Connection;
use crate::common::memory::{NOW, resident, told};
use crate::local::Local;
use crate::stage::{Relay, Side, Stage, bearer, path_of};

const MESSAGES: usize = 10_000;
const SENDERS: usize = 64;
/// As many as a bridge sends at once.
const CONNECTIONS: usize = 32;
/// What was resident at the most.
const PEAK: &str = "VmHWM:";

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub async fn measure() {
    let mut stage = Stage::set().await;
    // Both bridges have announced their agents.
    let mut billing = Local::connect(&stage.billing).await;
    billing.register().await;
    Local::connect(&stage.close).await.ask().await;
    let request = billing.pull().await.swap_remove(0);
    billing.confirm(&request).await;
    // The mail is to wait at the relay: whoever took it there would compete with those who send.
    drop(stage.billing);
    let idle = resident(stage.close.bridge.id(), NOW);
    let direct = Direct::new(&stage.relay).await;
    let before = direct.pace(&stage.relay, MESSAGES / 2).await;

    stage.relay.kill();
    send(&stage.close).await;
    stage.relay.start();
    let began = Instant::now();
    let mut first = None;
    loop {
        let left = waiting(&stage.close).await;
        if left < MESSAGES && first.is_none() {
            first = Some(began.elapsed());
        }
        if left == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    let took = began.elapsed();
    let pace = (before + direct.pace(&stage.relay, MESSAGES / 2).await) / 2.0;
    let rate = MESSAGES as f64 / took.as_secs_f64();
    println!(
        "{MESSAGES} messages that waited for the relay reach it in {:.2} s, {rate:.0} a second (the first after {:.2} s)",
        took.as_secs_f64(),
        first.unwrap_or(took).as_secs_f64()
    );
    println!(
        "the relay takes {pace:.0} ready-made signed messages a second: ratio {:.0}%",
        100.0 * rate / pace
    );
    let peak = resident(stage.close.bridge.id(), PEAK);
    println!("memory of the bridge: {} idle, {} at the most", told(idle, "MiB"), told(peak, "MiB"));
}

async fn send(side: &Side) {
    let mut senders = Vec::new();
    for sender in 0..SENDERS {
        let mut local = Local::connect(side).await;
        senders.push(tokio::spawn(async move {
            for _ in (sender..MESSAGES).step_by(SENDERS) {
                local.ask().await;
            }
        }));
    }
    for sender in senders {
        sender.await.unwrap();
    }
}

/// How many messages are in the outbox.
async fn waiting(side: &Side) -> usize {
    let mut connection = Connection::open(side.broker).await;
    let metrics = String::from_utf8(connection.call("GET", "/metrics", "", "").await).unwrap();
    let line = metrics.lines().find_map(|line| line.strip_prefix("redsyn_bridge_outbox_messages "));
    line.unwrap().parse().unwrap()
}

/// A node without a bridge, whose messages are ready before they are sent.
struct Direct {
    keys: NodeKeys,
    to: NodeKeys,
    headers: Arc<str>,
}

impl Direct {
    async fn new(relay: &Relay) -> Self {
        let (keys, to) = (NodeKeys::generate(&SystemRandom), NodeKeys::generate(&SystemRandom));
        let registration = serde_json::to_value(keys.registration()).unwrap();
        relay.call(&relay.token, "PUT", "/nodes/key", &registration).await;
        relay.call(&relay.token, "PUT", "/agents/acme/finance/ana/other", &json!({"listening": true})).await;
        Self { keys, to, headers: bearer(&relay.token).into() }
    }

    /// How many messages a second the relay takes.
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
    async fn pace(&self, relay: &Relay, messages: usize) -> f64 {
        let mut ready = Vec::new();
        for _ in 0..CONNECTIONS {
            let envelopes = (0..messages / CONNECTIONS)
                .map(|_| serde_json::to_string(&ceiling::write("request", &self.keys, &self.to)).unwrap());
            ready.push((Connection::open(relay.address).await, envelopes.collect::<Vec<_>>()));
        }
        let began = Instant::now();
        let mut senders = Vec::new();
        for (mut connection, envelopes) in ready {
            let headers = Arc::clone(&self.headers);
            senders.push(tokio::spawn(async move {
                for envelope in &envelopes {
                    connection.call("POST", &path_of("/messages"), &headers, envelope).await;
                }
                envelopes.len()
            }));
        }
        let mut sent = 0;
        for sender in senders {
            sent += sender.await.unwrap();
        }
        sent as f64 / began.elapsed().as_secs_f64()
    }
}
