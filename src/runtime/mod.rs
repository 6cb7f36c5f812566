//! Puts the parts together and runs them: data folder, secrets, sockets, tasks, signals. Every task has an owner
//! here, a stop signal and a deadline.

pub mod data_folder;
pub mod error;
pub mod hand_over;
pub mod listen;
pub mod local_store;
pub mod node;
pub mod relay_host;
pub mod secrets;
pub mod signals;
pub mod takeover;
pub mod telemetry;
