//! The local broker beside a bare floor, interleaved in one run: `cargo bench --bench broker`.
//!
//! The floor is what the machine allows: a bare axum server that checks the HMAC and inserts one row through the same
//! kind of group commit, `synchronous=FULL`. Both run as processes of their own, and rounds alternate between them.
//! Prints rates, latencies and ratios, then what a full store, an idle broker and a start cost; asserts nothing.
//! `-- million` also fills a store with a million messages.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark that cannot go on has failed")]

#[path = "common/agent.rs"]
mod agent;
#[path = "common/checked.rs"]
mod checked;
#[path = "common/mod.rs"]
mod common;
mod support;

use std::time::Duration;

use common::floor::{MODE, serve};
use common::measured::{Measured, percentiles};
use common::memory::{NOW, resident, told};
use support::load::{Load, fill, polling};
use support::server::Server;
use support::size::processor;
use support::{floor, held};

const ROUNDS: usize = 4;
const ROUND: Duration = Duration::from_secs(2);
const SIZE: usize = 460;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, mode, folder] = arguments.as_slice()
        && mode == MODE
    {
        serve(folder, async |rows| checked::router(rows, floor::is_signed));
        return;
    }
    let million = arguments.iter().any(|argument| argument == "million");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        compare().await;
        grow(million).await;
        weigh().await;
    });
}

async fn compare() {
    let ours = Server::ours();
    let floor = Server::floor();
    println!(
        "{:<36} {:>10} {:>10} {:>7}   {:>18} {:>18}",
        "", "ours/s", "floor/s", "ratio", "ours p50/p99 ms", "floor p50/p99 ms"
    );
    for (name, load) in [
        ("sends, 8 connections", Load::Send { connections: 8 }),
        ("sends, 64 connections", Load::Send { connections: 64 }),
        ("send+pull+ack, 4 connections", Load::Cycle { connections: 4 }),
        ("polls of an empty inbox, 8", Load::Poll { connections: 8 }),
    ] {
        row(name, load, &ours, &floor).await;
    }
    fill(&ours, 10_000, SIZE).await;
    let behind = Load::PollLarge { connections: 8, behind: true };
    row("polls behind the last of 10,000, 8", behind, &ours, &floor).await;
    let first = Load::PollLarge { connections: 8, behind: false };
    row("polls of 50 of 10,000, 8", first, &ours, &floor).await;
    let (middle, high) = percentiles(held::wakes(&ours, 2_000).await);
    println!("a held pull has its mail {middle:.2} ms (p50), {high:.2} ms (p99) after the sender's 201\n");
}

/// Rounds of both, one after the other.
async fn row(name: &str, load: Load, ours: &Server, floor: &Server) {
    let (mut us, mut bare) = (Measured::default(), Measured::default());
    for _ in 0..ROUNDS {
        us.add(load.run(ours, ROUND).await);
        bare.add(load.run(floor, ROUND).await);
    }
    println!(
        "{name:<36} {:>10.0} {:>10.0} {:>6.0}%   {:>18} {:>18}",
        us.rate(),
        bare.rate(),
        100.0 * us.rate() / bare.rate(),
        us.latencies(),
        bare.latencies()
    );
}

/// Cycles on a store that grows, each beside one that stays empty.
async fn grow(million: bool) {
    let (full, empty) = (Server::ours(), Server::ours());
    let mut stored = 0;
    for goal in [10_000, 100_000, 200_000].into_iter().chain(million.then_some(1_000_000)) {
        fill(&full, goal - stored, SIZE).await;
        stored = goal;
        let (mut with, mut without) = (Measured::default(), Measured::default());
        for _ in 0..ROUNDS {
            with.add(Load::Cycle { connections: 4 }.run(&full, ROUND).await);
            without.add(Load::Cycle { connections: 4 }.run(&empty, ROUND).await);
        }
        println!(
            "cycles with {stored} messages of others stored: {:.0}% of the rate with none",
            100.0 * with.rate() / without.rate()
        );
    }
}

/// Memory, start, and what agents that only poll cost.
async fn weigh() {
    const AGENTS: usize = 50;
    const IDLE: Duration = Duration::from_secs(20);
    let mut server = Server::ours();
    println!("\nmemory, idle: {}", told(resident(server.pid(), NOW), "MiB"));
    let before = processor(server.pid());
    polling(&server, AGENTS, Duration::from_secs(2), IDLE).await;
    let used = before.zip(processor(server.pid())).map(|(before, after)| after - before);
    let share = used.map(|used| 100.0 * used.as_secs_f64() / IDLE.as_secs_f64());
    println!("{AGENTS} agents that poll every 2 s: {}", told(share, "% of a core"));
    fill(&server, 200_000, 1_000).await;
    println!(
        "memory with 200,000 messages of 1 KB just stored: {}",
        told(resident(server.pid(), NOW), "MiB")
    );
    let time = server.restart();
    println!("start with those after a kill: {:.0} ms", time.as_secs_f64() * 1e3);
    println!("memory after that start: {}", told(resident(server.pid(), NOW), "MiB"));
}
