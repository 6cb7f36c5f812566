//! The REDSYN HTTP client: the only place that names reqwest. It speaks; what to say and when is the bridge's.

mod call;
mod dates;
mod error;
mod time;

pub use call::{Announcement, Presence, Receipt, RelayClient, Take};
pub use error::{CallError, Refusal};
