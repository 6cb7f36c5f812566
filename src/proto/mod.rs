//! The two protocols as types: what may be said, how it is written, how it is read. Nothing here may know a clock,
//! a store or a socket.

pub mod dsh;
pub mod redsyn;
