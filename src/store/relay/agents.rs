//! Agents, their presence and their sessions, as they are announced and shown.

use std::time::Duration;

use super::messages::StoredMessage;
use crate::domain::clock::Timestamp;
use crate::proto::redsyn::address::AgentAddress;
use crate::proto::redsyn::policy::Policy;

/// How long after its last take an agent still counts as online (spec, «Agentes y presencia»).
const ONLINE: Duration = Duration::from_secs(60);

/// What `PUT /agents/…` asks for. `None` leaves a field as it is.
#[derive(Clone, Debug)]
pub struct Announcement {
    pub agent: AgentAddress,
    pub description: Option<String>,
    pub adapter: Option<String>,
    /// `Some(Some(policy))`: it listens under this policy; `Some(None)`: it does not listen.
    pub listening: Option<Option<Policy>>,
}

/// What is kept of an agent, as far as it is shown.
#[derive(Clone, Debug)]
pub struct AgentState {
    pub agent: AgentAddress,
    pub description: String,
    pub adapter: String,
    pub listening: bool,
    pub policy: Policy,
    /// The node that listened last.
    pub node: Option<String>,
    pub last_take: Option<Timestamp>,
}

impl AgentState {
    pub fn is_online(&self, now: Timestamp) -> bool {
        self.last_take.is_some_and(|last| now.since(last) < ONLINE)
    }
}

/// A session as the viewer may see it.
#[derive(Clone, Debug)]
pub struct SessionView {
    pub id: String,
    /// Its title, and whether it is open. `None` when the viewer only sees that it exists.
    pub content: Option<(String, bool)>,
}

/// One session by itself.
#[derive(Clone, Debug)]
pub struct SessionPage {
    pub id: String,
    /// `None` when the viewer only sees that it exists.
    pub content: Option<SessionContent>,
}

#[derive(Clone, Debug)]
pub struct SessionContent {
    pub title: String,
    pub open: bool,
    pub created: Timestamp,
    /// What the viewer may see of its latest messages, oldest first.
    pub messages: Vec<StoredMessage>,
}

#[derive(Clone, Debug)]
pub struct AgentView {
    pub state: AgentState,
    /// The latest sessions, newest first. Empty when they were not asked for.
    pub sessions: Vec<SessionView>,
}

#[derive(Clone, Debug)]
pub struct Announced {
    pub view: AgentView,
    pub created: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct DirectoryQuery {
    /// Only agents that took something since then.
    pub online_since: Option<Timestamp>,
    pub sessions: bool,
}

impl DirectoryQuery {
    /// Only agents that are online at `now`.
    #[must_use]
    pub fn online_at(mut self, now: Timestamp) -> Self {
        // One millisecond later than the last moment that no longer counts.
        self.online_since = Some(now.minus(ONLINE).plus(Duration::from_millis(1)));
        self
    }
}
