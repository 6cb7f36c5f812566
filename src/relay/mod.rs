//! The REDSYN relay. `service` and the files by concern hold the logic, `sweep` does what time does by itself;
//! `http` alone knows HTTP, and nothing here knows the broker.

pub mod agents;
pub mod error;
pub mod http;
pub mod inbox;
pub mod keys;
pub mod links;
pub mod messages;
pub mod operator;
pub mod orgs;
pub mod people;
pub mod service;
pub mod sweep;
pub mod versions;
pub mod views;

pub use error::RelayError;
pub use http::serve;
pub use service::{Service, Settings};
