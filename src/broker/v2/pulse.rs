//! What `GET /healthz` counts since the start: forgotten at a restart, as by the reference.

use std::collections::BTreeMap;

use crate::domain::clock::Timestamp;
use crate::proto::dsh::v2::answer::Counters;
use crate::proto::dsh::v2::name::Name;

/// How many agents' last pulls are remembered. Any text is a name, so memory has to end somewhere.
const MOST_NAMES: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Pulse {
    pub(super) counters: Counters,
    pub(super) last_pulls: BTreeMap<Name, Timestamp>,
}

impl Pulse {
    pub(super) fn created(&mut self) {
        self.counters.messages_created += 1;
    }

    pub(super) fn pulled(&mut self, agent: &Name, now: Timestamp) {
        self.counters.pulls += 1;
        if self.last_pulls.len() >= MOST_NAMES && !self.last_pulls.contains_key(agent) {
            let oldest = self.last_pulls.iter().min_by_key(|(_, at)| **at).map(|(name, _)| name.clone());
            oldest.map(|name| self.last_pulls.remove(&name));
        }
        self.last_pulls.insert(agent.clone(), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_names_forgets_the_oldest() {
        let mut pulse = Pulse::default();
        for n in 0..MOST_NAMES + 5 {
            pulse.pulled(&Name::of(&format!("a{n}")), Timestamp::from_secs(n as i64));
        }
        assert_eq!((pulse.last_pulls.len(), pulse.counters.pulls), (MOST_NAMES, MOST_NAMES as u64 + 5));
        assert!(!pulse.last_pulls.contains_key(&Name::of("a4")));
    }
}
