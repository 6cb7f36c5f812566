//! What the benchmarks share.

pub mod floor;
pub mod held;
pub mod load;
pub mod server;
pub mod size;
