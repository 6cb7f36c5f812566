//! What the local broker keeps of the second generation, in the words of the domain. Its messages and those of v1 are
//! apart: neither generation ever sees the other's. Nothing here may know SQL.

pub(crate) mod notice;

use serde_json::Value;

use crate::domain::clock::Timestamp;
use crate::domain::delivery::LeaseId;
use crate::domain::v2::delivery::{Delivery, LeaseRefused};
use crate::proto::dsh::names::DshId;
use crate::proto::dsh::v2::message::{Kind, Mode};
use crate::proto::dsh::v2::name::Name;
use crate::proto::dsh::v2::request::Outcome;
use crate::store::local::Stages;

/// A message about to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    pub id: DshId,
    /// The conversation.
    pub root_id: String,
    pub parent_id: Option<String>,
    pub origin: Name,
    pub target: Name,
    pub kind: Kind,
    pub body: String,
    pub session_ref: String,
    pub mode: Mode,
    pub context: String,
    pub topic: String,
    pub allow_shared_write: bool,
    /// Once per origin.
    pub idempotency_key: String,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// A message as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    pub seq: i64,
    /// The agent of this machine that may take it; `None` for mail that leaves the machine.
    pub inbox: Option<Name>,
    pub message: NewMessage,
    pub delivery: Delivery,
    /// The sender has been told that nobody did what it asks, or somebody else answers for that.
    pub is_notified: bool,
    pub stages: Stages,
    /// What a carrier tells of mail from beyond the machine.
    pub redsyn: Option<Value>,
}

/// What became of a message that was to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// Of the message that has the idempotency key.
    pub id: DshId,
    /// The key was known already; nothing was stored.
    pub duplicate: bool,
    /// The message that has the key says something else.
    pub conflict: bool,
}

/// What a broker promises about delivery.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub max_attempts: u32,
    /// The sender of a request that fails or expires is told.
    pub notify: bool,
}

/// What a pull asks for.
#[derive(Clone, Debug)]
pub struct Pull {
    pub agent: Name,
    pub limit: u32,
    pub now: Timestamp,
    /// When the leases end.
    pub until: Timestamp,
    pub rules: Rules,
}

/// What a pull gives, and who else has mail because of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pulled {
    pub messages: Vec<StoredMessage>,
    pub woken: Vec<Name>,
    /// When the first lease of anybody ends, if there was nothing to give.
    pub lease_end: Option<Timestamp>,
}

/// What an acknowledgement says.
#[derive(Clone, Debug)]
pub struct Ack {
    pub agent: Name,
    pub id: DshId,
    pub lease_token: Option<LeaseId>,
    /// `None`: a word that is no outcome.
    pub outcome: Option<Outcome>,
    pub error: String,
    pub now: Timestamp,
    pub rules: Rules,
}

/// What became of an acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acked {
    /// The state it is in, and who has mail because of it.
    Settled {
        delivery: Delivery,
        woken: Vec<Name>,
    },
    /// Unknown, or somebody else's: the caller is not told which.
    NotAssigned,
    Refused(LeaseRefused),
    InvalidOutcome,
}

/// What a renewal asks for.
#[derive(Clone, Debug)]
pub struct Renew {
    pub agent: Name,
    pub id: DshId,
    pub lease_token: LeaseId,
    pub now: Timestamp,
    pub until: Timestamp,
}

/// What an operator does to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Requeue,
    Cancel,
}

/// Who does it.
#[derive(Clone, Debug)]
pub struct Manage {
    pub action: Action,
    pub agent: Name,
    pub id: DshId,
    /// May manage everybody's messages.
    pub is_admin: bool,
    pub now: Timestamp,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Managed {
    Done {
        woken: Option<Name>,
    },
    UnknownMessage,
    NotAllowed,
    /// The message is in a state that has no such way out.
    OtherState,
    /// It is with its carrier.
    Away,
}

/// Which messages of an agent, sent or received, a query wants; `None` wants all.
#[derive(Clone, Debug)]
pub struct Query {
    pub agent: Name,
    pub limit: u32,
    pub since: Timestamp,
    pub id: Option<String>,
    pub root_id: Option<String>,
    pub origin: Option<String>,
    pub target: Option<String>,
    pub kind: Option<String>,
    pub status: Option<String>,
    /// Part of the topic.
    pub topic: Option<String>,
}

impl Query {
    /// Everything the agent has sent or received from `since` on.
    pub fn all(agent: Name, since: Timestamp, limit: u32) -> Self {
        let (id, root_id, origin, target, kind, status, topic) = Default::default();
        Self { agent, limit, since, id, root_id, origin, target, kind, status, topic }
    }
}

/// How many messages wait for an agent, or once did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    pub queued: u64,
    pub leased: u64,
    pub completed: u64,
    pub failed: u64,
    pub expired: u64,
    pub oldest_queued_at: Option<Timestamp>,
}

/// A message that nobody will take any more, unless an operator requeues it.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    /// In the state in which it ended.
    pub message: &'a StoredMessage,
    pub at: Timestamp,
}

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Messages that expired, failed or went back to the queue.
    pub tidied: usize,
    /// Messages deleted.
    pub deleted: usize,
    /// There is more to do.
    pub more: bool,
    /// Who has mail because of it.
    pub woken: Vec<Name>,
}
