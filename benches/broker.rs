//! The local broker beside a bare floor, interleaved in one run: `cargo bench --bench broker`.
//!
//! The floor is what the machine allows: a bare axum server that checks the HMAC and inserts one row through the same
//! kind of group commit, `synchronous=FULL`. Both run as processes of their own, and rounds alternate between them.
//! Prints rates, latencies and ratios; asserts nothing.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark that cannot go on has failed")]

#[path = "common/mod.rs"]
mod common;
mod support;

use std::time::Duration;

use common::floor::{MODE, serve};
use common::measured::Measured;
use support::floor;
use support::load::Load;
use support::server::Server;

const ROUNDS: usize = 4;
const ROUND: Duration = Duration::from_secs(2);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, mode, folder] = arguments.as_slice()
        && mode == MODE
    {
        serve(folder, floor::is_signed);
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(compare());
}

async fn compare() {
    let ours = Server::ours();
    let floor = Server::floor();
    println!(
        "{:<28} {:>12} {:>12} {:>8}   {:>22} {:>22}",
        "", "ours/s", "floor/s", "ratio", "ours p50/p99 ms", "floor p50/p99 ms"
    );
    for (name, load) in [
        ("sends, 8 connections", Load::Send { connections: 8 }),
        ("sends, 64 connections", Load::Send { connections: 64 }),
        ("send+pull+ack, 4 connections", Load::Cycle { connections: 4 }),
        ("polls of an empty inbox, 8", Load::Poll { connections: 8 }),
    ] {
        let (mut us, mut bare) = (Measured::default(), Measured::default());
        for _ in 0..ROUNDS {
            us.add(load.run(&ours, ROUND).await);
            bare.add(load.run(&floor, ROUND).await);
        }
        println!(
            "{name:<28} {:>12.0} {:>12.0} {:>7.0}%   {:>22} {:>22}",
            us.rate(),
            bare.rate(),
            100.0 * us.rate() / bare.rate(),
            us.latencies(),
            bare.latencies()
        );
    }
    let empty = Load::Cycle { connections: 4 }.run(&ours, ROUND).await;
    for stored in [10_000, 100_000] {
        support::load::fill(&ours, stored).await;
        let full = Load::Cycle { connections: 4 }.run(&ours, ROUND).await;
        println!(
            "cycle with {stored} messages of others stored: {:.0}% of the rate with few",
            100.0 * full.rate() / empty.rate()
        );
    }
}
