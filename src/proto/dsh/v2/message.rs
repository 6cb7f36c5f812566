//! The words of a message: what kind it is, and what the recipient may do about it.

use serde::Serialize;

/// Where a message stands in a conversation. Clients send requests and replies; the others come from beyond the
/// machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Request,
    Reply,
    Message,
    Event,
}

impl Kind {
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Request, Self::Reply, Self::Message, Self::Event]
            .into_iter()
            .find(|known| known.as_str() == word)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Reply => "reply",
            Self::Message => "message",
            Self::Event => "event",
        }
    }
}

/// What the recipient of a request may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    #[default]
    Read,
    Continue,
    Write,
}

impl Mode {
    pub const ALL: [Self; 3] = [Self::Read, Self::Continue, Self::Write];

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == word)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Continue => "continue",
            Self::Write => "write",
        }
    }
}
