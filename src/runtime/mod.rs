//! Puts the parts together and runs them: data folder, secrets, sockets, tasks, signals. Every task has an owner
//! here, a stop signal and a deadline.

pub mod admin;
pub mod data_folder;
pub mod error;
pub mod hand_over;
pub mod key_files;
pub mod listen;
pub mod local_store;
pub mod node;
pub mod open_files;
pub mod operator;
pub mod progress;
pub mod relay_door;
pub mod relay_host;
pub mod secrets;
pub mod signals;
pub mod takeover;
pub mod telemetry;
pub mod tls;
