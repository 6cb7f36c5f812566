//! `security:` the lock after failed authentication, and who may manage other agents' messages.

use std::time::Duration;

use super::fields::{Fields, KeyError};

/// A year.
const MOST_MINUTES: u32 = 525_600;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Security {
    pub lock_after_failures: u32,
    pub lock_for: Duration,
    pub admin_agents: Vec<String>,
}

impl Security {
    pub(super) fn read(mut section: Fields<'_>, warnings: &mut Vec<KeyError>) -> Result<Self, KeyError> {
        let minutes = section.whole("lockMinutes", 1..=MOST_MINUTES, 5)?;
        let security = Self {
            lock_after_failures: section.whole("lockAfterFailures", 1..=u32::MAX, 5)?,
            lock_for: Duration::from_secs(u64::from(minutes) * 60),
            admin_agents: section.texts("admin_agents")?.unwrap_or_default(),
        };
        section.warn_of_unknown(warnings);
        Ok(security)
    }
}
