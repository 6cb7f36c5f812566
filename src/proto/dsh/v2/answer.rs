//! The answers of the second generation, field by field in the order in which they are written.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::message::{Kind, Mode};
use super::name::Name;
use crate::proto::dsh::names::DshId;
use crate::proto::dsh::v1::answer::Stages;

/// A moment in seconds since the epoch, with a fraction when it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(i64);

impl Seconds {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 % 1000 == 0 {
            serializer.serialize_i64(self.0 / 1000)
        } else {
            serializer.serialize_f64(self.0 as f64 / 1000.0)
        }
    }
}

/// `POST /v1/messages`.
#[derive(Debug, Serialize)]
pub struct Created {
    pub message_id: DshId,
    /// `false`: the idempotency key was known, and this is the message it stands for.
    pub created: bool,
    pub protocol_version: u32,
    /// The known message says something else. Ours; absent when it does not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub conflict: bool,
}

/// A message as its recipient gets it.
#[derive(Debug, Serialize)]
pub struct Delivered {
    pub message_id: DshId,
    pub root_id: String,
    pub parent_id: Option<String>,
    pub origin: Name,
    pub target: Name,
    pub kind: Kind,
    pub body: String,
    pub session_ref: String,
    pub created_at: Seconds,
    pub expires_at: Seconds,
    pub execution_mode: Mode,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub context: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub topic: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_shared_write: bool,
    pub lease_token: String,
    pub lease_until: Seconds,
    /// What a carrier tells of mail from beyond the machine. Ours; absent for all other mail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redsyn: Option<Value>,
}

/// `/v1/pull`, `/v1/recent`, `/v1/status`.
#[derive(Debug, Serialize)]
pub struct Messages<T> {
    pub messages: Vec<T>,
}

/// `/v1/messages/query` and `/v1/admin/status`.
#[derive(Debug, Serialize)]
pub struct Own {
    pub agent: Name,
    pub messages: Vec<Summary>,
}

/// A message as whoever sent or received it may look it up.
#[derive(Debug, Serialize)]
pub struct Summary {
    pub message_id: DshId,
    pub origin: Name,
    pub target: Name,
    pub kind: Kind,
    pub status: &'static str,
    pub attempts: u32,
    pub last_error: String,
    pub created_at: Seconds,
    pub expires_at: Seconds,
    pub completed_at: Option<Seconds>,
    pub topic: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_preview: Option<String>,
    /// Ours, in answers to `/v1/status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<Box<Stages>>,
}

/// One line of `/v1/status`.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Status {
    Known(Box<Summary>),
    Unknown { message_id: String, status: &'static str, attempts: u32 },
}

impl Status {
    pub fn not_found(message_id: String) -> Self {
        Self::Unknown { message_id, status: "not_found", attempts: 0 }
    }
}

/// `/v1/ack`.
#[derive(Debug, Serialize)]
pub struct Acknowledged {
    pub ok: bool,
}

/// `/v1/lease/renew`.
#[derive(Debug, Serialize)]
pub struct Renewed {
    pub ok: bool,
    pub lease_until: Seconds,
}

/// `/v1/admin/requeue` and `/v1/admin/cancel`.
#[derive(Debug, Serialize)]
pub struct Managed {
    pub ok: bool,
    pub message_id: DshId,
}

/// `GET /healthz`.
#[derive(Debug, Serialize)]
pub struct Health {
    pub ok: bool,
    pub protocol_version: u32,
    pub broker: &'static str,
    pub version: &'static str,
    pub storage: &'static str,
    pub signature_schemes: [&'static str; 2],
    pub agents: Vec<String>,
    pub queues: BTreeMap<String, Queue>,
    pub last_pull_at: BTreeMap<Name, Seconds>,
    pub counters: Counters,
}

/// How many messages for an agent are in each state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Queue {
    pub queued: u64,
    pub leased: u64,
    pub completed: u64,
    pub failed: u64,
    pub expired: u64,
    pub oldest_queued_at: Option<Seconds>,
}

/// Since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    pub messages_created: u64,
    pub pulls: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_numbers_as_javascript_writes_them() {
        let text = |millis| serde_json::to_string(&Seconds::from_millis(millis)).unwrap();
        assert_eq!(text(1_755_250_000_000), "1755250000");
        assert_eq!(text(1_755_250_000_120), "1755250000.12");
        assert_eq!(text(1_755_250_000_001), "1755250000.001");
    }
}
