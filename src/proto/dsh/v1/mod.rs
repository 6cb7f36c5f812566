//! Protocol v1.0 with its additive extensions v1.1: envelopes, requests, answers, signatures, routes.

pub mod answer;
pub mod envelope;
pub mod iso;
pub mod request;
pub mod route;
pub mod signing;

/// What `GET /` names as the protocol.
pub const PROTOCOL: &str = "1.0";
/// The broker that this one takes the place of, and the release that it answers like: clients look at both.
pub const BROKER: &str = "dsh-agent-relay";
pub const RELEASE: &str = "0.5.0";
/// The largest request body.
pub const MAX_BODY: usize = 1024 * 1024;
/// For how long after its last registration an agent counts as online.
pub const ONLINE: std::time::Duration = std::time::Duration::from_secs(90);
