//! The REDSYN relay. `service` and the files by concern hold the logic, `sweep` does what time does by itself;
//! `http` alone knows HTTP, and nothing here knows the broker.

pub mod admin;
pub mod agents;
pub mod error;
pub mod http;
pub mod inbox;
pub mod keys;
pub mod limits;
pub mod links;
pub mod messages;
pub mod metrics;
pub mod operator;
pub mod orgs;
pub mod people;
pub mod service;
pub mod sessions;
pub mod sweep;
pub mod topics;
pub mod versions;
pub mod views;
pub mod webhooks;

pub use error::RelayError;
pub use http::{Listening, ask_admin, serve, serve_admin};
pub use service::{Service, Settings};
