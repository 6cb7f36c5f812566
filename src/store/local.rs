//! What the local broker keeps, in the words of the domain. Another database could stand behind these types;
//! nothing here may know SQL.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::domain::clock::Timestamp;
use crate::domain::delivery::{AckRefused, Delivery, LeaseId, Status};
use crate::proto::dsh::json::JsonText;
use crate::proto::dsh::names::{AgentName, DshId, Party};
use crate::proto::dsh::v1::envelope::{Kind, MessageType};
use crate::proto::dsh::v1::request::Outcome;

/// A message about to be stored.
#[derive(Clone, Debug, PartialEq)]
pub struct NewMessage {
    pub id: DshId,
    pub from: Party,
    pub to: Party,
    /// When it is stored.
    pub ts: Timestamp,
    pub message_type: MessageType,
    pub kind: Kind,
    pub body: JsonText,
    pub reply_to: Option<JsonText>,
    pub root_id: Option<JsonText>,
    pub parent_id: Option<JsonText>,
    pub ack: bool,
    /// The additive field of the envelope.
    pub redsyn: Option<Value>,
    /// An end of life of its own, before that of all messages.
    pub expires_at: Option<Timestamp>,
    /// The state in which it begins.
    pub status: Status,
}

impl NewMessage {
    /// A plain message with an empty body; callers set what differs.
    pub fn new(id: DshId, from: impl Into<Party>, to: impl Into<Party>, ts: Timestamp) -> Self {
        Self {
            id,
            from: from.into(),
            to: to.into(),
            ts,
            message_type: MessageType::default(),
            kind: Kind::default(),
            body: JsonText::empty_object(),
            reply_to: None,
            root_id: None,
            parent_id: None,
            ack: false,
            redsyn: None,
            expires_at: None,
            status: Status::default(),
        }
    }
}

/// A message as it is now.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredMessage {
    pub seq: i64,
    /// The agent of this machine that may take it; `None` for mail that leaves the machine.
    pub inbox: Option<AgentName>,
    /// What was stored. Its `status` is the one of `delivery`.
    pub message: NewMessage,
    pub delivery: Delivery,
    /// What the last acknowledgement said (a text or `null`); `None` before the first one.
    pub error: Option<JsonText>,
}

/// A message with all that is kept of it: enough for a file, or another store, to hold the same.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptMessage {
    pub stored: StoredMessage,
    /// When a v1.0 poll first showed it.
    pub polled: Option<Timestamp>,
    pub stages: Stages,
}

/// What became of messages that came from somewhere else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    pub new: usize,
    /// Their ids were here already.
    pub known: usize,
    /// How many of the new ones are in which state.
    pub states: BTreeMap<&'static str, usize>,
}

/// How a file looked when it was read: enough to see that somebody has written to it since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    pub size: i64,
    pub changed: Timestamp,
}

/// What became of a send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub id: DshId,
    /// The id was known already; nothing was stored.
    pub duplicate: bool,
}

/// An agent that others can write to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub agent: Party,
    pub online: bool,
    pub last_seen: Timestamp,
}

/// What a v1.0 poll asks for.
#[derive(Clone, Debug)]
pub struct Poll {
    pub agent: AgentName,
    pub since: Option<DshId>,
    pub limit: u32,
    pub now: Timestamp,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Polled {
    pub messages: Vec<StoredMessage>,
    /// Where the next poll begins. Never moves back.
    pub cursor: Option<DshId>,
}

/// What a pull asks for.
#[derive(Clone, Debug)]
pub struct Pull {
    pub agent: AgentName,
    pub limit: u32,
    pub now: Timestamp,
    /// When the leases end.
    pub until: Timestamp,
}

/// What a pull gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Pulled {
    pub messages: Vec<StoredMessage>,
    /// When the first lease of anybody ends, if there was nothing to give.
    pub lease_end: Option<Timestamp>,
}

/// What an acknowledgement says.
#[derive(Clone, Debug)]
pub struct Ack {
    pub agent: AgentName,
    pub id: DshId,
    pub lease_id: LeaseId,
    pub outcome: Outcome,
    /// A text or `null`.
    pub error: JsonText,
    pub max_attempts: u32,
    pub now: Timestamp,
}

/// What became of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acked {
    Settled { status: Status, attempts: u32 },
    UnknownMessage,
    NotRecipient,
    Refused(AckRefused),
}

/// Enough of a message to decide who may send its receipt, and to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub from: Party,
    pub inbox: Option<AgentName>,
    /// The sender is an agent that has registered here.
    pub sender_is_registered: bool,
}

/// One line of a status answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusLine {
    pub id: DshId,
    pub from: Party,
    pub to: Party,
    pub ts: Timestamp,
    pub kind: Kind,
    pub status: Status,
    pub attempts: u32,
    pub stages: Stages,
}

/// When a message reached each stage after it was stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    pub accepted: Option<Timestamp>,
    pub leased: Option<Timestamp>,
    pub acked: Option<Timestamp>,
    pub answered: Option<Timestamp>,
    pub held: Option<Timestamp>,
    pub failed: Option<Timestamp>,
}

/// What waits for the agents of this machine, however many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// No more than [`MOST_COUNTED`].
    pub queued: i64,
    /// The same.
    pub leased: i64,
    /// When the message was stored that has waited longest.
    pub oldest_queued: Option<Timestamp>,
}

/// Nobody counts further, so that looking at a store costs the same however much it holds.
pub const MOST_COUNTED: i64 = 100_000;

/// Which messages of an agent a query wants; `None` wants all.
#[derive(Clone, Debug)]
pub struct Query {
    pub agent: AgentName,
    pub limit: u32,
    pub kind: Option<String>,
    pub status: Option<String>,
    pub from: Option<String>,
    pub to: Option<String>,
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Messages whose lease was over.
    pub requeued: usize,
    /// Messages deleted.
    pub expired: usize,
    /// There is more to delete.
    pub more: bool,
}

/// A message that nobody will take any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedMessage {
    pub seq: i64,
    pub id: DshId,
    pub inbox: Option<AgentName>,
    pub from: Party,
    pub to: Party,
    pub kind: Kind,
    pub attempts: u32,
    /// It was leased at least once.
    pub was_leased: bool,
    /// A v1.0 poll has shown it, which counts as taken.
    pub was_polled: bool,
    pub cause: Ending,
    pub at: Timestamp,
}

/// How a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Given back too often.
    Failed,
    /// Its time was over before it was done.
    Expired,
}
