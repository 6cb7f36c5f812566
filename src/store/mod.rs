//! What is kept. Operations here are those of the domain (send, pull, ack …), never SQL or rows, so that
//! another database can stand behind them. Nothing here may know HTTP.

pub mod bridge;
pub mod commits;
pub mod disk;
pub mod error;
mod jsonl;
pub mod local;
pub mod node;
pub mod relay;
pub mod sqlite;
pub mod v2;

pub use error::StoreError;
