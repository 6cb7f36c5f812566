//! Puts the parts together and runs them: data folder, secrets, sockets, tasks, signals. Every task has an owner
//! here, a stop signal and a deadline.

pub mod admin;
pub mod data_folder;
pub mod error;
pub mod key_files;
pub mod listen;
pub mod node;
pub mod operator;
pub mod relay_host;
pub mod secrets;
pub mod signals;
pub mod telemetry;
