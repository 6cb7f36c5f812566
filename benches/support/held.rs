//! Held pulls: how soon mail reaches whoever waits for it.

use std::time::{Duration, Instant};

use super::load::Client;
use super::server::Server;

/// Sends to a waiting pull again and again. Gives the time from the moment the sender is told that its message is
/// stored to the moment the receiver has it, which may be the earlier one.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub async fn wakes(server: &Server, times: usize) -> Vec<Duration> {
    let mut sender = Client::connect(server, 0).await;
    let mut receiver = Client::connect(server, 0).await;
    let mut waits = Vec::with_capacity(times);
    while receiver.take(0).await {}
    for _ in 0..times {
        let waiting = tokio::spawn(async move {
            let got = receiver.take(5).await;
            (receiver, got, Instant::now())
        });
        // The pull is to be held when the message comes.
        tokio::time::sleep(Duration::from_millis(2)).await;
        sender.send().await;
        let stored = Instant::now();
        let (back, got, at) = waiting.await.unwrap();
        assert!(got, "the pull came back empty");
        waits.push(at.saturating_duration_since(stored));
        receiver = back;
    }
    waits
}
