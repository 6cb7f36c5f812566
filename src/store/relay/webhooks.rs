//! Webhooks: agents whose messages are pushed instead of taken.

use super::messages::Delivered;
use crate::crypto::secret::Secret;
use crate::domain::clock::Timestamp;
use crate::domain::relay::target::Target;

/// Where an agent's messages go, and the key that signs them.
#[derive(Clone, Debug)]
pub struct Webhook {
    pub target: Target,
    pub secret: Secret,
}

/// A delivery being made. Its number names it to [`super::RelayStore::pushed`].
#[derive(Clone, Debug)]
pub struct Push {
    pub delivery: PushId,
    pub delivered: Delivered,
    /// As it is stored: what was allowed once is checked again.
    pub url: String,
    pub secret: Secret,
    /// The API date the agent's organisation is pinned to.
    pub version: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PushId(pub(in crate::store) i64);

/// How a push went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    Taken,
    /// Tried again after this moment, unless it was the last time.
    Failed {
        again: Timestamp,
    },
}
