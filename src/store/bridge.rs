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
use crate::store::local::{NewMessage, Stages};

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
    /// The sender's wish about sealing, in the word of the configuration.
    pub encrypt: Option<String>,
    /// A zip goes with it.
    pub has_zip: bool,
    /// Its sender wants it back.
    pub is_withdrawn: bool,
    /// The recipient's pins, when a key of its address has been pinned and noted before.
    pub sealed_for: Option<Pins>,
}

/// What a look into the outbox has found.
#[derive(Clone, Debug)]
pub struct Due {
    /// What may be sent, the longest due first.
    pub entries: Vec<OutboxEntry>,
    /// When the next entry becomes due; `None` when nothing waits for time.
    pub next: Option<Timestamp>,
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
    /// Waits for earlier mail of its conversation that a decision has set free and that is not delivered yet.
    Behind,
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

/// What is known of an inbound message before it is judged.
#[derive(Clone, Debug)]
pub struct Known {
    /// It has been dealt with: then it is acked again, and nothing else.
    pub is_seen: bool,
    /// Of its sender.
    pub pins: Pins,
    /// When the first message of the thread that was asked about crossed, as far as it is remembered.
    pub thread_since: Option<Timestamp>,
}

/// The pinned signing keys of one person, as text, and whether a person here has confirmed each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pins(pub Vec<(String, bool)>);

impl Pins {
    pub fn state(&self, key: &str) -> PinState {
        if self.0.is_empty() {
            return PinState::First;
        }
        let known = self.0.iter().find(|(pinned, _)| pinned == key);
        known.map_or(PinState::Other, |(_, verified)| PinState::Known { verified: *verified })
    }
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
    /// The verified key it was signed with; none when it is unsigned.
    pub key: Option<String>,
    pub waits_for: WaitsFor,
    /// Its files as they travelled, when they have been fetched.
    pub zip: Option<Vec<u8>>,
    /// When the relay hands it out again, if this was a take.
    pub leased_until: Option<Timestamp>,
    pub now: Timestamp,
}

/// What held mail waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// A person pins its key or, when it has none, allows unsigned mail.
    Acceptance,
    /// A person confirms the fingerprint of its key.
    Confirmation,
    /// Earlier mail of its conversation that goes on, and nobody's decision.
    Earlier,
}

/// What came of holding a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// The decision was made meanwhile, or there is none to make.
    pub goes_on: bool,
    /// Older mail of the person that was refused for it: ack it when it comes again.
    pub dropped: Vec<MessageId>,
}

/// Held inbound mail, as it is kept.
#[derive(Clone, Debug)]
pub struct HeldIn {
    pub agent: AgentName,
    pub id: MessageId,
    pub person: Person,
    pub reason: String,
    pub envelope: Value,
    pub since: Timestamp,
    pub key: Option<String>,
    /// A person has decided; it is about to be judged again.
    pub released: bool,
}

/// Why an outbound message is held, and the key that the relay gave for its recipient.
#[derive(Clone, Debug)]
pub struct HeldKey {
    pub reason: String,
    pub key: Option<String>,
}

/// Held outbound mail.
#[derive(Clone, Debug)]
pub struct HeldOut {
    pub entry: OutboxEntry,
    pub reason: String,
    pub key: Option<String>,
}

/// How many messages a decision has set free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Released {
    pub inbound: usize,
    pub outbound: usize,
}

/// What became of the wish to accept a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acceptance {
    Accepted {
        fingerprint: String,
        released: Released,
    },
    /// No mail waits for a key of this person.
    NothingWaits,
    /// These do: several, or none with the fingerprint that was named.
    WhichOne(Vec<String>),
}

/// What became of the wish to confirm a fingerprint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confirmation {
    Confirmed {
        fingerprint: String,
        released: Released,
    },
    /// The keys that are known have other fingerprints: these.
    Unknown(Vec<String>),
}

/// A pinned key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// `org/user`.
    pub person: String,
    pub key: String,
    /// A person here has compared its fingerprint.
    pub verified: bool,
    pub since: Timestamp,
    /// Unsigned mail of the person is taken, too.
    pub may_be_unsigned: bool,
}

/// How much waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depths {
    /// Held ones are among them.
    pub outbox: i64,
    pub held_out: i64,
    pub held_in: i64,
}

/// A message in the outbox, as a person looks at it: no content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub id: String,
    pub local_id: Option<String>,
    pub agent: String,
    pub kind: String,
    pub to: String,
    pub attempts: u32,
    pub next_at: Timestamp,
    pub expires_at: Timestamp,
    /// Why it waits for a person.
    pub held: Option<String>,
    /// Nothing of its conversation waits before it.
    pub is_next: bool,
    /// Why the last try came to nothing.
    pub why: Option<String>,
}

/// A message that crossed: what it is called beyond, and the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crossed {
    pub agent: AgentName,
    pub id: MessageId,
    pub is_inbound: bool,
    pub kind: Kind,
    pub address: AgentAddress,
    pub remote: Destination,
    pub thread: Option<String>,
    pub session: Option<String>,
}

/// The local row of a message: no content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    pub from: String,
    pub to: String,
    pub kind: String,
    pub status: String,
    pub attempts: u32,
    pub stored: Timestamp,
    pub stages: Stages,
}

/// Everything known of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traced {
    pub local_id: String,
    /// None when the local row has been swept away, or is not here yet.
    pub local: Option<Local>,
    pub crossed: Option<Crossed>,
    pub waiting: Option<Waiting>,
    /// Held on its way in: why, and since when.
    pub held: Option<(String, Timestamp)>,
}

/// Why a message did not reach anybody, as the local sender is told.
#[derive(Clone, Debug)]
pub struct Failure {
    pub entry: OutboxEntry,
    /// A stable word: `forbidden`, `no_such_agent`, `quota`, `expired`, `no_key`, …
    pub code: &'static str,
    pub reason: String,
    pub now: Timestamp,
}
