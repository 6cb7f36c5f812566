//! What both benchmarks measure with.

pub mod floor;
pub mod measured;
