//! The envelope: a message as every v1 answer shows it.

use serde::Serialize;
use serde_json::Value;

use crate::proto::dsh::json::JsonText;
use crate::proto::dsh::names::{DshId, Party};

/// `type`: a message, or the receipt of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageType {
    #[default]
    Message,
    Ack,
}

/// `kind`: where a message stands in a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    #[default]
    Message,
    Request,
    Reply,
}

impl MessageType {
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Message, Self::Ack].into_iter().find(|known| known.as_str() == word)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Ack => "ack",
        }
    }
}

impl Kind {
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Message, Self::Request, Self::Reply].into_iter().find(|known| known.as_str() == word)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Request => "request",
            Self::Reply => "reply",
        }
    }
}

/// The fields in the order in which they are written.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    pub id: DshId,
    pub from: Party,
    pub to: Party,
    pub ts: String,
    #[serde(rename = "type")]
    pub message_type: MessageType,
    pub body: JsonText,
    pub reply_to: Option<JsonText>,
    pub ack: bool,
    pub status: &'static str,
    pub attempts: u32,
    /// Unix milliseconds.
    pub lease_until: Option<i64>,
    pub lease_id: Option<String>,
    pub kind: Kind,
    pub root_id: Option<JsonText>,
    pub parent_id: Option<JsonText>,
    /// What the last acknowledgement said: a text or `null`; absent before the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<JsonText>,
    /// What a carrier tells about a message from beyond the machine, or is asked for one that leaves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redsyn: Option<Value>,
}
