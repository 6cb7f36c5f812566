//! People and their nodes.

use std::fmt;
use std::str::FromStr;

use crate::domain::clock::Timestamp;
use crate::proto::redsyn::address::Name;
use crate::proto::redsyn::email::Email;

/// A person, as operators see them: `p7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PersonId(pub(in crate::store) i64);

impl fmt::Display for PersonId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not the id of a person")]
pub struct PersonIdError;

impl FromStr for PersonId {
    type Err = PersonIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.strip_prefix('p').and_then(|digits| digits.parse().ok());
        number.filter(|number| *number > 0).map(Self).ok_or(PersonIdError)
    }
}

/// A node: one machine or server of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(in crate::store) i64);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not the id of a node")]
pub struct NodeIdError;

impl FromStr for NodeId {
    type Err = NodeIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.strip_prefix('n').and_then(|digits| digits.parse().ok());
        number.filter(|number| *number > 0).map(Self).ok_or(NodeIdError)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    pub id: PersonId,
    pub email: String,
    pub plan: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSummary {
    pub id: NodeId,
    pub name: String,
    pub has_key: bool,
    pub created: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonSummary {
    pub person: Person,
    pub nodes: Vec<NodeSummary>,
}

/// Whoever holds a token.
#[derive(Clone, Debug)]
pub struct Caller {
    pub person: PersonId,
    pub email: String,
    pub node: NodeId,
    pub node_name: String,
    /// The ed25519 key this node registered, as text.
    pub public_key: Option<String>,
    /// The date the caller's first organisation is pinned to (A54).
    pub version: Option<String>,
}

/// A person, organisation, team and node that belong together on a relay nobody administers.
#[derive(Clone, Debug)]
pub struct Home {
    pub email: Email,
    pub plan: String,
    pub org: Name,
    pub team: Name,
    pub user: Name,
    pub node: String,
    pub version: String,
}
