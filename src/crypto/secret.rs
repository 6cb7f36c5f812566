//! A secret text: tokens, HMAC secrets, webhook secrets. Wiped when dropped, never printed, compared in constant
//! time. Reading it takes [`Secret::expose`], so that every place that does can be found.

use std::fmt;

use serde::{Deserialize, Deserializer};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// A secret text. Has no `Serialize` on purpose.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text itself, for the one use at hand. Not to be stored or logged.
    pub fn expose(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Constant time for texts of the same length; only the length can be learnt.
    pub fn matches(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.matches(&other.0)
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_stars_and_compares() {
        let secret = Secret::new("tok-ana".to_owned());
        assert_eq!(format!("{secret} {secret:?} {:#?}", Some(&secret)), "*** *** Some(\n    ***,\n)");
        assert_eq!(secret.expose(), "tok-ana");
        assert!(secret.matches("tok-ana"));
        assert!(!secret.matches("tok-anb"));
        assert!(!secret.matches("tok-an"));
        assert_ne!(secret, Secret::new(String::new()));
    }
}
