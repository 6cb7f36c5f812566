//! E-mail addresses of people. No mail is ever sent: an address only has to name one person, however it is typed.

use std::fmt;
use std::str::FromStr;

/// An e-mail address in small letters. Domains have no case; mailboxes could have one, yet no provider gives `Ana@` and
/// `ana@` of one domain to two people, and people type both.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Email(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be an address")]
pub struct EmailError;

impl Email {
    /// The longest address there can be.
    const MAX_BYTES: usize = 254;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Email {
    type Err = EmailError;

    /// Refuses only what would surely be wrong: whether an address exists is for mail servers to know.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let whole = text.rsplit_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty());
        let printable = !text.chars().any(|letter| letter.is_whitespace() || letter.is_control());
        if whole && printable && text.len() <= Self::MAX_BYTES {
            Ok(Self(text.to_lowercase()))
        } else {
            Err(EmailError)
        }
    }
}

impl fmt::Display for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_however_it_is_typed() {
        for typed in ["ana@x.org", "Ana@X.org", "ANA@X.ORG"] {
            assert_eq!(typed.parse::<Email>().unwrap().as_str(), "ana@x.org");
        }
        assert_eq!("ÑANDÚ@x.org".parse::<Email>().unwrap().as_str(), "ñandú@x.org");
        assert_ne!("ana@x.org".parse::<Email>(), "ana@x.com".parse::<Email>());
    }

    #[test]
    fn what_is_surely_no_address_is_refused() {
        let long = format!("{}@x.example", "e".repeat(250));
        for wrong in ["", "@", "ana", "ana@", "@x.org", "a na@x.org", "ana@x.org\n", "ana\u{0}@x.org", &long]
        {
            assert_eq!(wrong.parse::<Email>(), Err(EmailError), "{wrong:?}");
        }
    }
}
