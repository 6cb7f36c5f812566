//! Addresses as people write them: one to four names, read from the right, the rest taken from the sender.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::address::{AddressedAgent, AgentAddress, Destination, TOPIC_PREFIX, TopicAddress};
use super::name::{AddressError, Name, Session, shown, split_session};
use super::text_form::text_form;

/// `close`, `ana/close`, `finance/ana/close`, `acme/finance/ana/close`, each with an optional session;
/// `topic:finance/invoices` or `topic:acme/finance/invoices`. `topic:invoices` is of the sender's own team: the
/// document does not settle it, and this is what agents' short forms do.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ShortAddress {
    Agent(ShortAgent),
    Topic(ShortTopic),
}

/// Which names were written: a missing one means that all before it are missing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ShortAgent {
    org: Option<Name>,
    team: Option<Name>,
    user: Option<Name>,
    agent: Name,
    session: Option<Session>,
}

/// See [`ShortAgent`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ShortTopic {
    org: Option<Name>,
    team: Option<Name>,
    name: Name,
}

impl ShortAddress {
    /// The full address, seen from `sender`.
    pub fn resolve(&self, sender: &AgentAddress) -> Destination {
        match self {
            Self::Agent(written) => Destination::Agent(AddressedAgent {
                agent: AgentAddress {
                    org: written.org.as_ref().unwrap_or(&sender.org).clone(),
                    team: written.team.as_ref().unwrap_or(&sender.team).clone(),
                    user: written.user.as_ref().unwrap_or(&sender.user).clone(),
                    agent: written.agent.clone(),
                },
                session: written.session.clone(),
            }),
            Self::Topic(written) => Destination::Topic(TopicAddress {
                org: written.org.as_ref().unwrap_or(&sender.org).clone(),
                team: written.team.as_ref().unwrap_or(&sender.team).clone(),
                name: written.name.clone(),
            }),
        }
    }

    /// Whether it says the same from everywhere.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Agent(written) => written.org.is_some(),
            Self::Topic(written) => written.org.is_some(),
        }
    }

    /// The names that were written, from left to right.
    pub fn parts(&self) -> Vec<&Name> {
        match self {
            Self::Agent(ShortAgent { org, team, user, agent, .. }) => {
                [org.as_ref(), team.as_ref(), user.as_ref(), Some(agent)].into_iter().flatten().collect()
            }
            Self::Topic(ShortTopic { org, team, name }) => {
                [org.as_ref(), team.as_ref(), Some(name)].into_iter().flatten().collect()
            }
        }
    }

    pub fn session(&self) -> Option<&Session> {
        match self {
            Self::Agent(written) => written.session.as_ref(),
            Self::Topic(_) => None,
        }
    }
}

impl FromStr for ShortAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        match text.strip_prefix(TOPIC_PREFIX) {
            Some(topic) => parse_topic(topic).map(Self::Topic),
            None => parse_agent(text).map(Self::Agent),
        }
    }
}

fn parse_agent(text: &str) -> Result<ShortAgent, AddressError> {
    let (base, session) = split_session(text)?;
    let mut names = base.rsplit('/');
    let agent = required(names.next())?;
    let user = optional(names.next())?;
    let team = optional(names.next())?;
    let org = optional(names.next())?;
    match names.next() {
        None => Ok(ShortAgent { org, team, user, agent, session }),
        Some(_) => Err(AddressError::Parts(shown(text))),
    }
}

fn parse_topic(text: &str) -> Result<ShortTopic, AddressError> {
    let mut names = text.rsplit('/');
    let name = required(names.next())?;
    let team = optional(names.next())?;
    let org = optional(names.next())?;
    match names.next() {
        None => Ok(ShortTopic { org, team, name }),
        Some(_) => Err(AddressError::Topic(shown(text))),
    }
}

fn required(part: Option<&str>) -> Result<Name, AddressError> {
    part.unwrap_or_default().parse()
}

fn optional(part: Option<&str>) -> Result<Option<Name>, AddressError> {
    part.map(str::parse).transpose()
}

impl fmt::Display for ShortAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(self, Self::Topic(_)) {
            f.write_str(TOPIC_PREFIX)?;
        }
        for (at, part) in self.parts().into_iter().enumerate() {
            if at > 0 {
                f.write_str("/")?;
            }
            part.fmt(f)?;
        }
        match self.session() {
            Some(session) => write!(f, "#{session}"),
            None => Ok(()),
        }
    }
}

text_form!(ShortAddress);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn resolved(text: &str) -> String {
        let sender = "acme/finance/ana/close".parse().unwrap();
        text.parse::<ShortAddress>().unwrap().resolve(&sender).to_string()
    }

    #[test]
    fn what_is_missing_is_the_senders() {
        assert_eq!(resolved("pay"), "acme/finance/ana/pay");
        assert_eq!(resolved("bob/pay#s1"), "acme/finance/bob/pay#s1");
        assert_eq!(resolved("ops/bob/pay#new"), "acme/ops/bob/pay#new");
        assert_eq!(resolved("globex/ops/bob/pay"), "globex/ops/bob/pay");
        assert_eq!(resolved("topic:ops/alerts"), "topic:acme/ops/alerts");
        assert_eq!(resolved("topic:globex/ops/alerts"), "topic:globex/ops/alerts");
        assert_eq!(resolved("topic:alerts"), "topic:acme/finance/alerts");
    }

    #[test]
    fn only_four_names_are_full() {
        for (text, full) in
            [("pay", false), ("a/b/c", false), ("a/b/c/d", true), ("topic:a/b", false), ("topic:a/b/c", true)]
        {
            assert_eq!(text.parse::<ShortAddress>().unwrap().is_full(), full, "{text}");
        }
    }

    #[test]
    fn bad_forms_are_refused() {
        for bad in [
            "",
            "/pay",
            "ana/",
            "ana//pay",
            "a/b/c/d/e",
            "pay#",
            "#s1",
            "topic:",
            "topic:a/b/c/d",
            "topic:a#s1",
            "../pay",
        ] {
            assert!(bad.parse::<ShortAddress>().is_err(), "{bad:?}");
        }
    }

    const WRITTEN: &str = "topic:([a-z0-9_-]{1,8}/){0,2}[a-z0-9_-]{1,8}|\
        ([a-z0-9_-]{1,8}/){0,3}[a-z0-9_-]{1,8}(#new|#s[0-9]{1,4})?";

    proptest! {
        #[test]
        fn what_is_written_is_read(text in WRITTEN) {
            prop_assert_eq!(text.parse::<ShortAddress>().unwrap().to_string(), text);
        }

        #[test]
        fn a_resolved_address_resolves_to_itself(text in "(topic:)?[a-z0-9_-]{1,8}(/[a-z0-9_-]{1,8}){0,2}") {
            let full = resolved(&text);
            prop_assert_eq!(resolved(&full), full);
        }
    }
}
