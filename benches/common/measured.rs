//! How long operations took.

use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

/// Operations and how long each took.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    pub latencies: Vec<Duration>,
    pub time: Duration,
}

impl Measured {
    /// What workers that began together have seen, each operation's time; all are waited for.
    pub async fn gather(workers: Vec<JoinHandle<Vec<Duration>>>, began: Instant) -> Self {
        let mut measured = Self::default();
        for worker in workers {
            measured.latencies.extend(worker.await.unwrap());
        }
        measured.time = began.elapsed();
        measured
    }

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
