//! Tests from outside: the library through its public face, and the real binary. One binary for all of them, as
//! each links everything.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed; clippy sees only the test functions as tests"
)]

mod bridge;
mod commands;
mod config;
mod conformance;
mod fuzz_seeds;
mod golden;
mod hostile;
mod hosts;
mod life;
mod metrics;
mod node_shim;
mod relay;
mod reload;
mod serve;
mod storage;
mod support;
mod vectors;
