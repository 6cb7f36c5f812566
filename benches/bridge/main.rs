//! The bridge: agent to agent across two bridges and a relay, sealed and signed: `cargo bench --bench bridge`.
//!
//! Bridges, relay and floor run as processes of their own, rounds alternate, and each number stands beside what the
//! machine allows in the same run. `-- trips`, `-- load` or `-- drain` runs one part. Asserts nothing.
//!
//! - `trips`: round trips one at a time, beside the same hops and commits done bare (`bare.rs`).
//! - `load`: 64 round trips in flight, beside what their signatures and seals alone would allow on all cores.
//! - `drain`: ten thousand messages sent while the relay was away, beside the relay's own pace, and what they cost.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark that cannot go on has failed")]

#[path = "../common/agent.rs"]
mod agent;
mod bare;
mod ceiling;
#[path = "../common/mod.rs"]
mod common;
mod drain;
mod load;
mod local;
#[path = "../support/size.rs"]
mod size;
mod stage;
mod trips;

use common::floor::{MODE, serve};

/// What each message says.
const TEXT: usize = 380;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, mode, folder, more @ ..] = arguments.as_slice()
        && mode == MODE
    {
        return serve(folder, async |rows| bare::router(rows, more).await);
    }
    let only = |part: &str| arguments.iter().any(|argument| argument == part);
    let all = !["trips", "load", "drain"].into_iter().any(only);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        if all || only("trips") {
            trips::measure().await;
        }
        if all || only("load") {
            load::measure().await;
        }
        if all || only("drain") {
            drain::measure().await;
        }
    });
}
