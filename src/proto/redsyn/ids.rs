//! The small words of REDSYN: message ids, kinds, dates, limits. Shapes only.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The path prefix of every call (spec, «Versiones»).
pub const PREFIX: &str = "/redsyn/v1";
/// The API date this project speaks.
pub const VERSION: &str = "2026-09-25";
/// The header that names the API date, in requests and answers.
pub const VERSION_HEADER: &str = "redsyn-version";

/// The most bytes of an encoded `body` (spec: 64 KB).
pub const BODY_LIMIT: usize = 64 * 1024;
/// The most bytes of a zip, compressed (spec: 5 MB).
pub const FILES_LIMIT: usize = 5 * 1024 * 1024;
/// How long a relay holds an inbox call at the most, in seconds.
pub const WAIT_MAX_SECS: u64 = 25;
/// The lease of a take that names none, in seconds.
pub const LEASE_DEFAULT_SECS: u64 = 900;
/// How often a message is taken before it is abandoned.
pub const TAKES_MAX: u32 = 10;
/// The longest time a message may wait on any plan, in seconds (30 days).
pub const TTL_MAX_SECS: u64 = 30 * 24 * 60 * 60;
/// The time a message waits when its sender names none, in seconds (a day).
pub const TTL_DEFAULT_SECS: u64 = 24 * 60 * 60;
/// How far `ts` of a signed envelope may lie from the relay's clock, in seconds, inclusive.
pub const SIGNATURE_WINDOW_SECS: i64 = 600;

/// An id of a message: 1 to 200 characters, any text, chosen by the sender (reading A15).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct MessageId(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an id must have 1 to 200 characters")]
pub struct MessageIdError;

impl MessageId {
    const MAX_CHARS: usize = 200;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for MessageId {
    type Error = MessageIdError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.is_empty() || text.chars().count() > Self::MAX_CHARS {
            Err(MessageIdError)
        } else {
            Ok(Self(text))
        }
    }
}

impl FromStr for MessageId {
    type Err = MessageIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::try_from(text.to_owned())
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for MessageId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// What a message is (spec, «El sobre»).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Request,
    Progress,
    Reply,
    Event,
}

impl Kind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Progress => "progress",
            Self::Reply => "reply",
            Self::Event => "event",
        }
    }

    /// Progress and replies answer a request: they name it in `reply_to` and need no `to`.
    pub const fn is_answer(self) -> bool {
        matches!(self, Self::Progress | Self::Reply)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("kind must be request, progress, reply or event")]
pub struct KindError;

impl FromStr for Kind {
    type Err = KindError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "request" => Ok(Self::Request),
            "progress" => Ok(Self::Progress),
            "reply" => Ok(Self::Reply),
            "event" => Ok(Self::Event),
            _ => Err(KindError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_to_two_hundred_characters() {
        assert!("".parse::<MessageId>().is_err());
        assert!("ñ".repeat(200).parse::<MessageId>().is_ok());
        assert!("x".repeat(201).parse::<MessageId>().is_err());
    }

    #[test]
    fn kinds_read_what_they_write_and_nothing_else() {
        for kind in [Kind::Request, Kind::Progress, Kind::Reply, Kind::Event] {
            assert_eq!(kind.as_str().parse::<Kind>(), Ok(kind));
        }
        assert!("Request".parse::<Kind>().is_err());
    }
}
