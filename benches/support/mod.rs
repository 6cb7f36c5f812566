//! What the benchmarks share.

pub mod floor;
pub mod load;
pub mod server;
