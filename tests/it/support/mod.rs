//! What the tests from outside share: real processes, a proxy that stops messages, agents.

pub mod bridge;
pub mod local;
pub mod process;
pub mod proxy;
pub mod receiver;
pub mod redsyn;
pub mod v2;
pub mod world;
pub mod zips;
