//! Full addresses (section Direcciones): agents, agents with a session, topics, and the person a key is pinned
//! for. Short forms are in `short_address`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use super::name::{AddressError, Name, Session, SessionId};
use super::name::{shown, split_session};
pub use super::short_address::ShortAddress;
use super::text_form::text_form;

/// What every topic starts with.
pub const TOPIC_PREFIX: &str = "topic:";

/// `org/team/user/agent`, without a session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AgentAddress {
    pub org: Name,
    pub team: Name,
    pub user: Name,
    pub agent: Name,
}

impl AgentAddress {
    /// Whom the agent belongs to.
    pub fn person(&self) -> Person {
        Person { org: self.org.clone(), user: self.user.clone() }
    }

    pub fn with_session(self, session: Option<Session>) -> AddressedAgent {
        AddressedAgent { agent: self, session }
    }
}

impl FromStr for AgentAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.contains('#') {
            return Err(AddressError::Session(shown(text)));
        }
        let mut names = text.split('/');
        let parts = [names.next(), names.next(), names.next(), names.next(), names.next()];
        let [Some(org), Some(team), Some(user), Some(agent), None] = parts else {
            return Err(AddressError::NotFull(shown(text)));
        };
        Ok(Self { org: org.parse()?, team: team.parse()?, user: user.parse()?, agent: agent.parse()? })
    }
}

impl fmt::Display for AgentAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.org, self.team, self.user, self.agent)
    }
}

/// `org/team/user/agent`, `…#sN` or `…#new`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AddressedAgent {
    pub agent: AgentAddress,
    pub session: Option<Session>,
}

impl From<AgentAddress> for AddressedAgent {
    fn from(agent: AgentAddress) -> Self {
        agent.with_session(None)
    }
}

impl FromStr for AddressedAgent {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (agent, session) = split_session(text)?;
        Ok(Self { agent: agent.parse()?, session })
    }
}

impl fmt::Display for AddressedAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.agent.fmt(f)?;
        match &self.session {
            Some(session) => write!(f, "#{session}"),
            None => Ok(()),
        }
    }
}

/// `topic:org/team/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TopicAddress {
    pub org: Name,
    pub team: Name,
    pub name: Name,
}

impl FromStr for TopicAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let refused = || AddressError::Topic(shown(text));
        let mut names = text.strip_prefix(TOPIC_PREFIX).ok_or_else(refused)?.split('/');
        let parts = [names.next(), names.next(), names.next(), names.next()];
        let [Some(org), Some(team), Some(name), None] = parts else {
            return Err(refused());
        };
        Ok(Self { org: org.parse()?, team: team.parse()?, name: name.parse()? })
    }
}

impl fmt::Display for TopicAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{TOPIC_PREFIX}{}/{}/{}", self.org, self.team, self.name)
    }
}

/// Where an envelope goes: one agent, or everybody who listens to a topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Destination {
    Agent(AddressedAgent),
    Topic(TopicAddress),
}

impl Destination {
    /// The agent, unless it is a topic.
    pub const fn agent(&self) -> Option<&AgentAddress> {
        match self {
            Self::Agent(addressed) => Some(&addressed.agent),
            Self::Topic(_) => None,
        }
    }

    /// Whose agent it is, unless it is a topic.
    pub fn person(&self) -> Option<Person> {
        self.agent().map(AgentAddress::person)
    }

    /// The same without a session.
    #[must_use]
    pub fn base(&self) -> Self {
        match self {
            Self::Agent(addressed) => Self::Agent(addressed.agent.clone().into()),
            Self::Topic(topic) => Self::Topic(topic.clone()),
        }
    }

    pub const fn session(&self) -> Option<&Session> {
        match self {
            Self::Agent(addressed) => addressed.session.as_ref(),
            Self::Topic(_) => None,
        }
    }
}

impl From<AddressedAgent> for Destination {
    fn from(agent: AddressedAgent) -> Self {
        Self::Agent(agent)
    }
}

impl FromStr for Destination {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.starts_with(TOPIC_PREFIX) {
            text.parse().map(Self::Topic)
        } else {
            text.parse().map(Self::Agent)
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(agent) => agent.fmt(f),
            Self::Topic(topic) => topic.fmt(f),
        }
    }
}

/// `org/user`, whom a signing key is pinned for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Person {
    pub org: Name,
    pub user: Name,
}

impl FromStr for Person {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (org, user) = text.split_once('/').ok_or_else(|| AddressError::NotPerson(shown(text)))?;
        Ok(Self { org: org.parse()?, user: user.parse()? })
    }
}

impl fmt::Display for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.org, self.user)
    }
}

text_form!(AgentAddress, AddressedAgent, TopicAddress, Destination, Person);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_full_address_has_four_names() {
        let address: AgentAddress = "acme/finance/ana/close".parse().unwrap();
        assert_eq!(address.person().to_string(), "acme/ana");
        for bad in
            ["close", "finance/ana/close", "a/b/c/d/e", "a/b/c/", "/b/c/d", "a/b/c/d#s1", "a/b/c/D", ""]
        {
            assert!(bad.parse::<AgentAddress>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_session_is_a_name_after_one_mark() {
        let address: AddressedAgent = "a/b/c/d#s42".parse().unwrap();
        assert_eq!(address.session, Some(Session::Id("s42".parse().unwrap())));
        assert_eq!("a/b/c/d#new".parse::<AddressedAgent>().unwrap().session, Some(Session::New));
        for bad in ["a/b/c/d#", "a/b/c/d#s1#new", "a/b/c/d#S1", "#s1", "a/b/c/d# "] {
            assert!(bad.parse::<AddressedAgent>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_topic_has_its_prefix_and_three_names() {
        for bad in
            ["a/b/c", "topic:b/c", "topic:a/b/c/d", "topic:a/b/", "topic:", "Topic:a/b/c", "topic:a/b/c#s1"]
        {
            assert!(bad.parse::<TopicAddress>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn addresses_travel_as_texts() {
        let json = r#"["topic:a/b/c","a/b/c/d#s1"]"#;
        let both: Vec<Destination> = serde_json::from_str(json).unwrap();
        assert!(matches!(both.as_slice(), [Destination::Topic(_), Destination::Agent(_)]));
        assert_eq!(serde_json::to_string(&both).unwrap(), json);
        assert!(serde_json::from_str::<Person>("\"acme\"").is_err());
        assert!(serde_json::from_str::<Person>("\"acme/finance/ana\"").is_err());
    }

    const FULL: &str = "topic:([a-z0-9_-]{1,8}/){2}[a-z0-9._-]{3,8}|\
        ([a-z0-9_-]{1,8}/){3}[a-z0-9_-]{1,8}(#new|#s[0-9]{1,4})?";

    proptest! {
        #[test]
        fn what_is_written_is_read(text in FULL) {
            prop_assert_eq!(text.parse::<Destination>().unwrap().to_string(), text);
        }

        #[test]
        fn nothing_is_read_as_something_else(text in "\\PC{0,40}|[a-zA-Z0-9./#:]{0,20}") {
            if let Ok(read) = text.parse::<Destination>() {
                prop_assert_eq!(read.to_string(), text);
            }
        }
    }
}
