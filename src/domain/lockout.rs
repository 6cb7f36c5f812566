//! Locks an agent name after repeated failures to authenticate. Pure: it is told the time.

use std::collections::HashMap;
use std::time::Duration;

use super::clock::Timestamp;
use crate::proto::dsh::names::AgentName;

/// How many names are remembered. Names come from strangers, so memory has to end somewhere; more than this many
/// misbehaving names at once are one attack, whose oldest part is forgotten.
const MOST_NAMES: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Record {
    failures: u32,
    last: Timestamp,
    locked_until: Option<Timestamp>,
}

#[derive(Debug)]
pub struct Lockout {
    after: u32,
    lasts: Duration,
    names: HashMap<AgentName, Record>,
}

impl Lockout {
    /// Locks for `lasts` after `after` failures in a row.
    pub fn new(after: u32, lasts: Duration) -> Self {
        Self { after, lasts, names: HashMap::new() }
    }

    /// Whether the name is locked. A lock that is over is forgotten, and a full set of failures is needed again.
    pub fn is_locked(&mut self, name: &AgentName, now: Timestamp) -> bool {
        match self.names.get(name).and_then(|record| record.locked_until) {
            Some(until) if now < until => true,
            Some(_) => {
                self.names.remove(name);
                false
            }
            None => false,
        }
    }

    /// Counts a failure. Whether this one locked the name.
    pub fn failed(&mut self, name: &AgentName, now: Timestamp) -> bool {
        if !self.names.contains_key(name) && self.names.len() >= MOST_NAMES {
            self.forget_one();
        }
        let record =
            self.names.entry(name.clone()).or_insert(Record { failures: 0, last: now, locked_until: None });
        record.failures = record.failures.saturating_add(1);
        record.last = now;
        let locks = record.failures >= self.after && record.locked_until.is_none();
        if locks {
            record.locked_until = Some(now.plus(self.lasts));
        }
        locks
    }

    /// A success ends the row of failures.
    pub fn succeeded(&mut self, name: &AgentName) {
        self.names.remove(name);
    }

    /// Forgets the least worth keeping: names that are not locked before locked ones, then the oldest.
    fn forget_one(&mut self) {
        let worth = |(_, record): &(&AgentName, &Record)| (record.locked_until, record.last);
        if let Some(name) = self.names.iter().min_by_key(worth).map(|(name, _)| name.clone()) {
            self.names.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> AgentName {
        AgentName::parse(text).unwrap()
    }

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    #[test]
    fn a_row_of_failures_locks_and_a_success_ends_the_row() {
        let mut lockout = Lockout::new(3, Duration::from_secs(60));
        let alpha = name("alpha");
        assert!(!lockout.failed(&alpha, at(0)) && !lockout.failed(&alpha, at(0)));
        lockout.succeeded(&alpha);
        assert!(!lockout.failed(&alpha, at(1)) && !lockout.failed(&alpha, at(1)));
        assert!(!lockout.is_locked(&alpha, at(1)));
        assert!(lockout.failed(&alpha, at(2)));
        assert!(lockout.is_locked(&alpha, at(61)) && !lockout.is_locked(&name("Alpha"), at(3)));
        assert!(!lockout.is_locked(&alpha, at(62)));
        assert!(!lockout.failed(&alpha, at(63)));
    }

    #[test]
    fn a_flood_of_names_neither_fills_memory_nor_opens_a_lock() {
        let mut lockout = Lockout::new(2, Duration::from_secs(600));
        let alpha = name("alpha");
        assert!(!lockout.failed(&alpha, at(0)) && lockout.failed(&alpha, at(0)));
        for stranger in 0..3 * MOST_NAMES {
            lockout.failed(&name(&format!("s{stranger}")), at(1));
        }
        assert_eq!(lockout.names.len(), MOST_NAMES);
        assert!(lockout.is_locked(&alpha, at(2)));
    }
}
