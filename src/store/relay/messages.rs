//! Messages as they are accepted, taken and shown.

use std::net::IpAddr;

use serde_json::value::RawValue;

use super::people::{NodeId, PersonId};
use crate::domain::clock::Timestamp;
use crate::proto::redsyn::address::{AddressedAgent, AgentAddress, TopicAddress};
use crate::proto::redsyn::ids::{Kind, MessageId};

/// Who sends, and from where.
#[derive(Clone, Debug)]
pub struct Sender {
    pub person: PersonId,
    pub ip: Option<IpAddr>,
}

/// Where an envelope goes.
#[derive(Clone, Debug)]
pub enum Route {
    Request {
        to: AddressedAgent,
    },
    /// Progress or a reply: to whoever sent the request.
    Answer {
        to_request: MessageId,
    },
    /// An event: a copy to each agent that listens to the topic.
    Event {
        topic: TopicAddress,
    },
}

/// A signature that held when the envelope arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    pub key: String,
    pub value: String,
    /// The exact text that was signed.
    pub payload: String,
    /// The name of the node that signed.
    pub node: String,
    pub fingerprint: String,
}

/// An envelope whose shape has been checked, not yet accepted.
#[derive(Clone, Debug)]
pub struct Draft {
    pub sender: Sender,
    pub id: MessageId,
    pub kind: Kind,
    pub from: AddressedAgent,
    pub route: Route,
    pub thread: Option<String>,
    /// Unix seconds; the relay's own when the sender gave none.
    pub ts: Option<i64>,
    pub ttl_secs: Option<u64>,
    /// The body's JSON.
    pub body: String,
    pub encrypted: bool,
    /// The JSON list of refs.
    pub refs: String,
    pub error: bool,
    pub zip: Option<Vec<u8>>,
    /// What the signature check said; a bad one refuses the envelope unless it is a duplicate (A14).
    pub signature: Result<Option<Signed>, String>,
}

/// What the sender is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub id: MessageId,
    pub thread: String,
    /// With the session.
    pub to: String,
    pub signed: bool,
}

#[derive(Clone, Debug)]
pub struct Sent {
    pub receipt: Receipt,
    pub duplicate: bool,
}

/// Files of a delivered envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    pub bytes: u64,
    pub sha256: String,
}

/// A message as it is kept, seen from one delivery.
#[derive(Clone, Debug)]
pub struct StoredMessage {
    pub id: MessageId,
    pub kind: Kind,
    pub from: String,
    pub to: String,
    pub thread: String,
    pub reply_to: Option<String>,
    pub ts: i64,
    pub ttl_secs: i64,
    pub expires: Timestamp,
    pub body: Box<RawValue>,
    pub encrypted: bool,
    pub refs: Box<RawValue>,
    pub files: Option<Files>,
    pub error: bool,
    pub signed: Option<Signed>,
    pub topic: Option<String>,
}

/// A message in somebody's hands, or shown by a peek.
#[derive(Clone, Debug)]
pub struct Delivered {
    pub message: StoredMessage,
    /// Counts the take being made.
    pub attempts: u32,
}

/// What to take.
#[derive(Clone, Debug)]
pub enum TakeWhat {
    /// Whatever waits.
    Any { lease_secs: u64 },
    /// Progress and the reply of one request.
    AnswersTo { request: MessageId, lease_secs: u64 },
    /// Nothing: look only. No heartbeat (A31).
    Peek { answers_to: Option<MessageId> },
}

#[derive(Clone, Debug)]
pub struct Take {
    pub person: PersonId,
    pub node: NodeId,
    pub agent: AgentAddress,
    pub what: TakeWhat,
}

/// A result, with what it means to those who wait.
#[derive(Clone, Debug)]
pub struct Changed<T> {
    pub value: T,
    /// Mailboxes that have something new for somebody.
    pub wake: Vec<AgentAddress>,
    /// Those of them whose messages are pushed.
    pub push: Vec<AgentAddress>,
    /// The earliest lease or expiry this operation has added.
    pub due: Option<Timestamp>,
}

/// What a sweep did.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    pub leases_ended: u64,
    pub expired: u64,
    pub abandoned: u64,
    /// More is due already.
    pub more: bool,
    /// When the next thing is due.
    pub next: Option<Timestamp>,
}

/// What was deleted because it ended long ago.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    pub messages: u64,
    /// There may be more.
    pub more: bool,
}
