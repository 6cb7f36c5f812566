//! The local broker: it takes the place of dsh-agent-relay. `service` holds the logic, `http` is the only part that
//! knows the network, `carrier` is what a bridge plugs into, `v2` serves the second generation of the protocol.

pub mod access;
pub mod auth;
pub mod carrier;
mod held;
pub mod http;
pub mod metrics;
pub mod service;
mod sweep;
pub mod v2;
mod view;

pub use http::serve;
pub use service::{Service, busy};
