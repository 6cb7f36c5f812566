//! What the bridge keeps: the outbox, what crossed either way, pins, and held mail. Plain types; the operations
//! are in [`crate::store::sqlite::bridge`].

pub mod generation;

use serde_json::Value;

use crate::domain::clock::Timestamp;
use crate::domain::crossing::LocalKind;
use crate::proto::dsh::names::AgentName;
use crate::proto::redsyn::address::{AddressedAgent, AgentAddress, Destination, Person, SessionId};
use crate::proto::redsyn::body::Body;
use crate::proto::redsyn::ids::{Kind, MessageId};
use crate::store::bridge::generation::Outgoing;
use crate::store::local::NewMessage;

/// A body and its references, in the clear: what is sealed, or sent as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Content {
    pub body: Body,
    pub refs: Vec<Value>,
}

/// What goes with a message of the outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parcel {
    /// The sender's wish about sealing, in the word of the configuration.
    pub encrypt: Option<String>,
    /// The zip as it travels, in the clear: the sender's files, and a body that is too long for an envelope.
    pub zip: Option<Vec<u8>>,
}

/// A zip for a message to come.
#[derive(Clone, Debug)]
pub struct Upload {
    pub agent: AgentName,
    /// Its name, in hex.
    pub sha256: String,
    pub zip: Vec<u8>,
    pub now: Timestamp,
}

/// What is to be done for a sender who wants a request back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// The sender has sent no such message beyond the machine.
    Unknown,
    /// It is no request, or it is over.
    TooLate,
    /// The relay must be asked. `entry` is in the outbox still, and stopped.
    Asked { id: MessageId, entry: Option<i64> },
}

/// A local message on its way out, before the store has decided what it becomes.
#[derive(Clone, Debug)]
pub struct Departure {
    pub message: Outgoing,
    /// The id it travels under.
    pub id: MessageId,
    pub kind: LocalKind,
    pub parent_id: Option<String>,
    pub reply_to: Option<String>,
    pub root_id: Option<String>,
    pub agent: AgentName,
    pub address: AgentAddress,
    pub remote: Destination,
    pub content: Content,
    /// The sender's files, in the clear: kept with the message, dropped with it.
    pub files: Option<Vec<u8>>,
    /// What goes with it, when anything does.
    pub parcel: Parcel,
    /// Seconds that it may wait, when the sender said.
    pub ttl: Option<u64>,
    pub receipts_travel: bool,
    pub now: Timestamp,
}

/// A message in the outbox: it stays there, under one id, until the relay has answered for it.
#[derive(Clone, Debug)]
pub struct OutboxEntry {
    pub seq: i64,
    pub id: MessageId,
    /// The local message it came from; none for what the bridge itself says.
    pub local_id: Option<String>,
    pub agent: AgentName,
    pub kind: Kind,
    /// Our agent, in its session when it answers in one.
    pub from: AddressedAgent,
    pub remote: Destination,
    pub thread: Option<String>,
    pub reply_to: Option<MessageId>,
    /// Where the answer to a sealed request is sealed to.
    pub reply_key: Option<String>,
    pub content: Content,
    pub error: bool,
    pub ttl: Option<u64>,
    pub expires_at: Timestamp,
    pub attempts: u32,
    /// Why a person has been asked about it, when the last try came to that.
    pub held: Option<String>,
}

/// What the relay said of a message it took.
#[derive(Clone, Debug)]
pub struct Accepted {
    pub seq: i64,
    pub id: MessageId,
    pub agent: AgentName,
    pub thread: Option<String>,
    pub remote_session: Option<SessionId>,
    pub sealed: bool,
    pub now: Timestamp,
}

/// An inbound message whose signature and seal have been dealt with, ready to be kept.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub agent: AgentName,
    pub address: AgentAddress,
    pub id: MessageId,
    pub kind: Kind,
    pub from: AddressedAgent,
    pub session: Option<SessionId>,
    pub thread: Option<String>,
    pub reply_to: Option<MessageId>,
    pub reply_key: Option<String>,
    pub error: bool,
    /// What the local agent will see. Its id may change when another message has it already.
    pub message: NewMessage,
    /// Its files, in the clear: kept with the message, dropped with it.
    pub zip: Option<Vec<u8>>,
    /// The signer, when the signature was verified.
    pub signer: Option<String>,
    pub expires_at: Option<Timestamp>,
    pub now: Timestamp,
}

/// What became of an arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Landed {
    /// Kept now: ack it.
    Delivered,
    /// Dealt with before: ack it again, do nothing else.
    Seen,
    /// Waits for a person to accept its key: do not ack.
    Held,
    /// An answer to nothing we asked, or from somebody else than was asked: ack it, deliver nothing.
    Unasked,
}

/// An inbound message that is not delivered but answered with an error, once.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub agent: AgentName,
    pub address: AgentAddress,
    pub id: MessageId,
    pub kind: Kind,
    pub from: AddressedAgent,
    pub session: Option<SessionId>,
    pub thread: Option<String>,
    /// In words for the sender; travels as an error reply when the message was a request.
    pub reason: String,
    pub now: Timestamp,
}

/// How a signing key stands to a person's pins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinState {
    /// No key of this person was known; this one is pinned now.
    First,
    /// A pinned key. `verified` when a person has confirmed its fingerprint.
    Known { verified: bool },
    /// Another key than the pinned ones.
    Other,
}

/// Mail that waits for a person's decision.
#[derive(Clone, Debug)]
pub struct Held {
    pub agent: AgentName,
    pub id: MessageId,
    pub person: Person,
    pub reason: String,
    /// The envelope as the relay delivered it.
    pub envelope: Value,
    pub now: Timestamp,
}

/// Why a message did not reach anybody, as the local sender is told (mapping §6).
#[derive(Clone, Debug)]
pub struct Failure {
    pub entry: OutboxEntry,
    /// A stable word: `forbidden`, `no_such_agent`, `quota`, `expired`, `no_key`, …
    pub code: &'static str,
    pub reason: String,
    pub now: Timestamp,
}
