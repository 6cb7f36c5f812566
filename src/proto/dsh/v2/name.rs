//! The names of the second generation: lower-case, otherwise free.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::proto::dsh::js;

/// An agent, or somebody beyond this machine under the name that a carrier gives them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Box<str>);

impl Name {
    /// Trims and lower-cases, as every place does that takes a name. Any text will do, the empty one too.
    pub fn of(text: &str) -> Self {
        Self(js::trim(text).to_lowercase().into())
    }

    /// The name of a caller. One with a slash is the address of somebody beyond this machine, and nobody here may
    /// pass for them.
    pub fn of_caller(text: &str) -> Option<Self> {
        let name = Self::of(text);
        (!name.0.is_empty() && !name.0.contains('/')).then_some(name)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_trimmed_and_lower_case() {
        for (text, name) in [
            ("  BeTa ", "beta"),
            ("ÀÉÎ", "àéî"),
            ("İX", "i\u{307}x"),
            ("ΑΣ", "ας"),
            ("ẞ", "ß"),
            ("\u{feff}beta\u{a0}", "beta"),
            ("", ""),
        ] {
            assert_eq!(Name::of(text).as_str(), name);
        }
    }

    #[test]
    fn a_caller_has_a_name_that_is_no_address() {
        assert!(Name::of_caller("a b,*").is_some());
        for bad in ["", "  ", "acme/it/bob/x", "/"] {
            assert!(Name::of_caller(bad).is_none(), "{bad}");
        }
    }
}
