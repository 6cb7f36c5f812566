//! Runs a load for a while.

use std::time::{Duration, Instant};

use super::client::Client;
use super::server::Server;
use crate::common::measured::Measured;

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
    Measured::gather(workers, began).await
}
