//! The answers of v1, field by field in the order in which they are written.

use serde::Serialize;

use super::envelope::{Envelope, Kind};
use crate::proto::dsh::names::{AgentName, DshId, Party};

/// `GET /`.
#[derive(Debug, Serialize)]
pub struct About {
    pub protocol: &'static str,
    pub broker: &'static str,
    pub version: &'static str,
    pub capabilities: Capabilities,
    pub storage: &'static str,
    pub implementation: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    pub lease_delivery: bool,
    pub request_reply: bool,
    pub filtered_query: bool,
    pub sqlite_persistence: bool,
}

#[derive(Debug, Serialize)]
pub struct Registered {
    pub ok: bool,
    pub agent: AgentName,
    /// Unix seconds.
    pub ts: i64,
}

#[derive(Debug, Serialize)]
pub struct Peers {
    pub peers: Vec<Peer>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Peer {
    pub agent: Party,
    pub online: bool,
    /// Unix seconds.
    pub last_seen: i64,
}

/// `POST /messages`: 201 for a new message, 200 for a known id.
#[derive(Debug, Serialize)]
pub struct Accepted {
    pub accepted: bool,
    pub id: DshId,
    pub duplicate: bool,
}

/// `POST /messages/<id>/ack`: the id of the receipt.
#[derive(Debug, Serialize)]
pub struct ReceiptAccepted {
    pub accepted: bool,
    pub id: DshId,
}

/// `PUT /bridge/v1/files`: the name by which a message calls them.
#[derive(Debug, Serialize)]
pub struct Uploaded {
    pub file: String,
}

/// `POST /bridge/v1/messages/<id>/cancel`.
#[derive(Debug, Serialize)]
pub struct Withdrawn {
    pub id: DshId,
    pub cancelled: bool,
}

#[derive(Debug, Serialize)]
pub struct Polled {
    pub messages: Vec<Envelope>,
    pub cursor: Option<DshId>,
}

/// `/v1/pull`, `/v1/recent` and `/v1/messages/query`.
#[derive(Debug, Serialize)]
pub struct Messages {
    pub messages: Vec<Envelope>,
    pub count: usize,
}

impl From<Vec<Envelope>> for Messages {
    fn from(messages: Vec<Envelope>) -> Self {
        Self { count: messages.len(), messages }
    }
}

/// `/v1/ack`.
#[derive(Debug, Serialize)]
pub struct Acknowledged {
    pub ok: bool,
    pub status: &'static str,
    pub attempts: u32,
}

#[derive(Debug, Serialize)]
pub struct Statuses {
    pub messages: Vec<Status>,
}

/// One line of `/v1/status`.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Status {
    Known(Box<KnownStatus>),
    Unknown { id: String, status: &'static str, attempts: u32 },
}

/// A message that the caller has sent or received.
#[derive(Debug, Serialize)]
pub struct KnownStatus {
    pub id: DshId,
    pub status: &'static str,
    pub attempts: u32,
    pub ts: String,
    pub from: Party,
    pub to: Party,
    pub kind: Kind,
    pub stages: Stages,
}

impl Status {
    pub fn not_found(id: String) -> Self {
        Self::Unknown { id, status: "not_found", attempts: 0 }
    }
}

/// When a message reached each stage; stages that it has not reached are absent.
#[derive(Debug, Default, Serialize)]
pub struct Stages {
    pub stored: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leased: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acked: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}
