//! Runs a load for a while and keeps how long each operation took.

use std::time::{Duration, Instant};

use super::client::Client;
use super::server::Server;

#[derive(Clone, Debug, Default)]
pub struct Measured {
    latencies: Vec<Duration>,
    time: Duration,
}

impl Measured {
    pub fn add(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        self.time += other.time;
    }

    pub fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.time.as_secs_f64()
    }

    pub fn latencies(&self) -> String {
        let (middle, high) = percentiles(self.latencies.clone());
        format!("{middle:.2} / {high:.2}")
    }
}

/// The 50th and the 99th percentile, in milliseconds.
pub fn percentiles(mut latencies: Vec<Duration>) -> (f64, f64) {
    latencies.sort_unstable();
    let at = |part: f64| {
        let index = (latencies.len() as f64 * part) as usize;
        let index = index.min(latencies.len().saturating_sub(1));
        latencies.get(index).copied().unwrap_or_default().as_secs_f64() * 1e3
    };
    (at(0.5), at(0.99))
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub async fn run(server: &Server, connections: usize, time: Duration, whole: bool) -> Measured {
    let began = Instant::now();
    let mut workers = Vec::new();
    for worker in 0..connections {
        let mut client = Client::connect(server).await;
        workers.push(tokio::spawn(async move {
            let mut latencies = Vec::new();
            while began.elapsed() < time {
                let start = Instant::now();
                client.send(worker).await;
                if whole {
                    client.take_and_ack(worker).await;
                }
                latencies.push(start.elapsed());
            }
            latencies
        }));
    }
    let mut measured = Measured::default();
    for worker in workers {
        measured.latencies.extend(worker.await.unwrap());
    }
    measured.time = began.elapsed();
    measured
}
