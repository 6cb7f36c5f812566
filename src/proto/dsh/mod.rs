//! The protocol of dsh-agent-relay, by generation. `js` and `json` hold what both owe to a server in JavaScript.

pub mod error;
pub mod js;
pub mod json;
pub mod names;
pub mod v1;
pub mod v2;
