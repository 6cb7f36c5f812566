//! Round trips one at a time.

use std::time::{Duration, Instant};

use crate::bare::Floor;
use crate::common::measured::percentiles;
use crate::local::Local;
use crate::stage::Stage;

const ROUNDS: usize = 6;
const TRIPS: usize = 100;

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub async fn measure() {
    let stage = Stage::set().await;
    let mut pair = Pair::meet(&stage).await;
    let mut floor = Floor::start().await;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        // The first only warms up.
        let kept = |times: &mut Vec<Duration>, began: Instant| {
            if round > 0 {
                times.push(began.elapsed());
            }
        };
        for _ in 0..TRIPS {
            let began = Instant::now();
            let messages = pair.round_trip().await;
            kept(&mut ours, began);
            pair.confirm(messages).await;
        }
        for _ in 0..TRIPS {
            let began = Instant::now();
            floor.round_trip().await;
            kept(&mut bare, began);
            floor.confirm().await;
        }
    }
    let ((ours, ours_high), (bare, bare_high)) = (percentiles(ours), percentiles(bare));
    println!("round trips, one at a time: p50 {ours:.2} ms, p99 {ours_high:.2} ms");
    println!("the same hops and commits bare: p50 {bare:.2} ms, p99 {bare_high:.2} ms");
    println!("ratio of the p50: {:.2}\n", ours / bare);
}

/// Two agents who know that their bridges are up.
struct Pair {
    close: Local,
    billing: Local,
}

/// A request and its answer, as they were pulled.
type Messages = (serde_json::Value, serde_json::Value);

impl Pair {
    async fn meet(stage: &Stage) -> Self {
        let mut pair =
            Self { close: Local::connect(&stage.close).await, billing: Local::connect(&stage.billing).await };
        pair.close.register().await;
        pair.billing.register().await;
        let messages = pair.round_trip().await;
        pair.confirm(messages).await;
        pair
    }

    async fn round_trip(&mut self) -> Messages {
        let id = self.close.ask().await;
        let request = self.billing.pull().await.swap_remove(0);
        self.billing.answer(&request).await;
        let answer = self.close.pull().await.swap_remove(0);
        assert_eq!(answer["parentId"], id, "another answer");
        (request, answer)
    }

    /// What follows a round trip and nobody waits for.
    async fn confirm(&mut self, (request, answer): Messages) {
        self.billing.confirm(&request).await;
        self.close.confirm(&answer).await;
    }
}
