//! The relay beside a bare floor, interleaved in one run: `cargo bench --bench relay`.
//!
//! The floor is what the machine allows: a bare axum server that hashes the bearer token and inserts one row through
//! the same kind of group commit, `synchronous=FULL`. Both run as processes of their own, and rounds alternate.
//! `cargo bench --bench relay -- polls` holds ten thousand polls and prints what they cost. Asserts nothing.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark that cannot go on has failed")]

#[path = "../common/checked.rs"]
mod checked;
mod client;
#[path = "../common/mod.rs"]
mod common;
mod floor;
mod measure;
mod polls;
mod server;

use std::time::Duration;

use common::floor::{MODE, serve};
use common::measured::Measured;
use measure::run;
use server::Server;

const CONNECTIONS: usize = 64;
const ROUNDS: usize = 4;
const ROUND: Duration = Duration::from_secs(2);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, mode, folder] = arguments.as_slice()
        && mode == MODE
    {
        return serve(folder, async |rows| checked::router(rows, floor::has_token));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    if arguments.iter().any(|argument| argument == "polls") {
        runtime.block_on(polls::measure());
    } else {
        runtime.block_on(compare());
    }
}

async fn compare() {
    println!(
        "{:<34} {:>10} {:>10} {:>7}   {:>20} {:>20}",
        "", "relay/s", "floor/s", "ratio", "relay p50/p99 ms", "floor p50/p99 ms"
    );
    for (name, whole) in [("send", false), ("send, take, ack (3 inserts)", true)] {
        // What one load leaves in the mailboxes must not be the next one's work.
        let (relay, floor) = (Server::relay(CONNECTIONS).await, Server::floor());
        let (mut ours, mut bare) = (Measured::default(), Measured::default());
        for _ in 0..ROUNDS {
            ours.add(run(&relay, CONNECTIONS, ROUND, whole).await);
            bare.add(run(&floor, CONNECTIONS, ROUND, whole).await);
        }
        println!(
            "{:<34} {:>10.0} {:>10.0} {:>6.0}%   {:>20} {:>20}",
            format!("{name}, {CONNECTIONS} connections"),
            ours.rate(),
            bare.rate(),
            100.0 * ours.rate() / bare.rate(),
            ours.latencies(),
            bare.latencies()
        );
    }
}
