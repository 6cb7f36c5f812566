//! Names and ids, parsed once: agents of this machine, parties of a message, message ids.

use std::cmp::Ordering;
use std::fmt;

use serde::{Serialize, Serializer};

/// The longest name that the protocol takes.
const LONGEST: usize = 64;

/// An agent of this machine: 1–64 of `A–Z a–z 0–9 _ . -`, case-sensitive.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentName(Box<str>);

impl AgentName {
    /// `None` when the text is no name.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=LONGEST).contains(&text.len());
        let plain =
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'));
        (fits && plain).then(|| Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whoever a message is from or to: an agent of this machine, or somebody beyond it under the name that the
/// carrier gives them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Party(Box<str>);

impl Party {
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same as an agent of this machine, when it reads like one.
    pub fn agent(&self) -> Option<AgentName> {
        AgentName::parse(&self.0)
    }
}

impl From<AgentName> for Party {
    fn from(name: AgentName) -> Self {
        Self(name.0)
    }
}

impl From<&AgentName> for Party {
    fn from(name: &AgentName) -> Self {
        Self(name.0.clone())
    }
}

/// The id of a message. Clients choose it: any text is one, the empty one too.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DshId(Box<str>);

impl DshId {
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! text {
    ($type:ty) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
    };
}

text!(AgentName);
text!(Party);
text!(DshId);

/// The beginning of a name or id that a client chose, for the log: it may be a megabyte long.
pub fn brief(text: &str) -> &str {
    const ENOUGH: usize = 128;
    text.get(..text.floor_char_boundary(ENOUGH)).unwrap_or_default()
}

/// The order of names in `GET /peers`: that of the Unicode collation, as JavaScript's `localeCompare` has it.
/// Marks before digits before letters; case decides only between names that are otherwise equal, `a` before `A`.
pub fn collate(a: &str, b: &str) -> Ordering {
    let weights = |name: &str| name.chars().map(weight).collect::<Vec<_>>();
    let (a_weights, b_weights) = (weights(a), weights(b));
    let by_letter = a_weights.iter().map(|weight| weight.0).cmp(b_weights.iter().map(|weight| weight.0));
    by_letter
        .then_with(|| a_weights.iter().map(|weight| weight.1).cmp(b_weights.iter().map(|weight| weight.1)))
}

/// The marks that names and addresses hold, in the order of the default Unicode collation.
const MARKS: &str = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$";

fn weight(letter: char) -> (u32, bool) {
    let code = match MARKS.chars().position(|mark| mark == letter) {
        Some(place) => u32::try_from(place).unwrap_or(u32::MAX),
        // Above all marks; digits lie below letters already.
        None => 0x80 + u32::from(letter.to_ascii_lowercase()),
    };
    (code, letter.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_to_64_plain_characters() {
        for good in ["a", "A", "0", "_", ".", "-", "a.b-c_D9", "__proto__", &"x".repeat(64)] {
            assert!(AgentName::parse(good).is_some(), "{good}");
        }
        for bad in
            ["", &"x".repeat(65), "a b", "a,b", "a/b", "a:b", "a@b", "naïve", "小明", "%61", "*", "a\n"]
        {
            assert!(AgentName::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn what_is_logged_is_short_and_whole() {
        assert_eq!(brief("m1"), "m1");
        assert_eq!(brief(&"é".repeat(1000)), "é".repeat(64));
        assert_eq!(brief(&"€".repeat(1000)), "€".repeat(42));
    }

    #[test]
    fn names_sort_as_in_a_dictionary() {
        let sorted = [
            "_",
            "__proto__",
            "-",
            ".",
            "0",
            "0x",
            "10",
            "9",
            "a",
            "A",
            "a.b",
            "a1",
            "a10",
            "a2",
            "ab",
            "b",
            "B",
        ];
        let mut shuffled = sorted.to_vec();
        shuffled.reverse();
        shuffled.sort_by(|a, b| collate(a, b));
        assert_eq!(shuffled, sorted);
    }
}
