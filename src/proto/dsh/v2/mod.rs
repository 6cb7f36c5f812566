//! The second generation (v2, and v3 with key ids): what today's plugin and its clients speak, on the same port as v1.

pub mod answer;
pub mod message;
pub mod name;
pub mod request;
pub mod route;
pub mod signing;

/// The protocol that answers name; v3 is v2 with key ids.
pub const PROTOCOL_VERSION: u32 = 3;
/// The ways of signing that a broker takes.
pub const SIGNATURE_SCHEMES: [&str; 2] = ["v2", "v3"];
/// The key of an agent that names none.
pub const LEGACY_KEY: &str = "legacy";
