//! What all benchmarks measure with.

pub mod floor;
pub mod http;
pub mod measured;
pub mod memory;
pub mod process;
