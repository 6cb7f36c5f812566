//! `security:` the lock after failed authentication, and who may manage other agents' messages.

use std::time::Duration;

use serde::Deserialize;

use super::ConfigError;
use super::reader::Document;

const KEYS: &[&str] = &["lockAfterFailures", "lockMinutes", "admin_agents"];
/// A year.
const MOST_MINUTES: u32 = 525_600;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Security {
    pub lock_after_failures: u32,
    pub lock_for: Duration,
    pub admin_agents: Vec<String>,
}

/// The texts of the section, as they are written.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Written {
    security: Option<Texts>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Texts {
    admin_agents: Option<Vec<String>>,
}

impl Security {
    pub(super) fn read(document: &mut Document) -> Result<Self, ConfigError> {
        let section = document.section(&["security"])?;
        section.warn_of_unknown(document, KEYS);
        section.check_list(document, "admin_agents")?;
        let texts = document.as_written::<Written>()?.security.unwrap_or_default();
        let minutes = section.number(document, "lockMinutes", 1..=MOST_MINUTES, 5)?;
        Ok(Self {
            lock_after_failures: section.number(document, "lockAfterFailures", 1..=u32::MAX, 5)?,
            lock_for: Duration::from_secs(u64::from(minutes) * 60),
            admin_agents: texts.admin_agents.unwrap_or_default(),
        })
    }
}
