//! Rings local agents that wait for mail, in whichever generation they do.

use crate::domain::wakeups::Wakeups;
use crate::proto::dsh::names::AgentName;
use crate::proto::dsh::v2::name::Name;

/// Cloning is cheap and gives the same ones.
#[derive(Clone, Debug, Default)]
pub struct Bells {
    pub v1: Wakeups<AgentName>,
    pub v2: Wakeups<Name>,
}

impl Bells {
    pub(super) fn wake(&self, agent: &AgentName) {
        self.v1.wake(agent);
        self.v2.wake(&Name::of(agent.as_str()));
    }
}
