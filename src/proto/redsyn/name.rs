//! Names, the parts of every address (section Direcciones), and the session after `#`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::text_form::text_form;

/// How much of a refused text an error repeats.
const SHOWN: usize = 60;

/// Why a text is no address. The message is for whoever wrote it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("{0:?} is not a name: lower-case letters, digits, '.', '-' and '_', but neither '.' nor '..'")]
    Name(String),
    #[error("{0:?} has an empty session after '#'")]
    EmptySession(String),
    #[error("{0:?} is not a full address: org/team/user/agent")]
    NotFull(String),
    #[error("{0:?} is not a person: org/user")]
    NotPerson(String),
    #[error("{0:?} is not an address: one to four names with '/' between them")]
    Parts(String),
    #[error("{0:?} is not a topic: topic:org/team/name")]
    Topic(String),
    #[error("{0:?} has a session where none may be")]
    Session(String),
}

/// The start of `text`, to repeat in an error.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

/// One name: ASCII lower-case letters, digits, `.`, `-` and `_`. Upper case is refused, never folded; `.` and
/// `..` are refused too, because names are parts of paths.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

impl Name {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let spelled = text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_'));
        if text.is_empty() || !spelled || text == "." || text == ".." {
            return Err(AddressError::Name(shown(text)));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of a session that exists, `s42`. Chosen by the relay; any name but `new`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(Name);

impl SessionId {
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl FromStr for SessionId {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        match text.parse()? {
            Session::Id(id) => Ok(id),
            Session::New => Err(AddressError::Name(shown(text))),
        }
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What follows `#` in a destination.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Session {
    /// `#new`: the relay opens one.
    New,
    Id(SessionId),
}

const NEW: &str = "new";

impl FromStr for Session {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        match text {
            NEW => Ok(Self::New),
            _ => Ok(Self::Id(SessionId(text.parse()?))),
        }
    }
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New => f.write_str(NEW),
            Self::Id(id) => id.fmt(f),
        }
    }
}

/// Cuts `text` at its `#`.
pub(super) fn split_session(text: &str) -> Result<(&str, Option<Session>), AddressError> {
    match text.split_once('#') {
        None => Ok((text, None)),
        Some((_, "")) => Err(AddressError::EmptySession(shown(text))),
        Some((base, session)) => Ok((base, Some(session.parse()?))),
    }
}

text_form!(Name, SessionId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lower_case_and_never_dots_alone() {
        for good in ["a", "7101", "rvx.cno", "tv1-xxg", "epi_xdt", "...", ".a"] {
            assert_eq!(good.parse::<Name>().unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", "Ana", "a b", " a", "a\n", "a/b", "a#b", "a:b", "a@b", "ñ", "😀", "a?x"]
        {
            assert!(bad.parse::<Name>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn new_is_no_session_id() {
        assert_eq!("new".parse::<Session>().unwrap(), Session::New);
        assert!(matches!("s42".parse::<Session>().unwrap(), Session::Id(_)));
        assert!("new".parse::<SessionId>().is_err());
        assert!("S1".parse::<Session>().is_err());
    }

    #[test]
    fn errors_repeat_only_the_start() {
        let error = "A".repeat(1000).parse::<Name>().unwrap_err();
        assert!(error.to_string().len() < 200);
    }
}
