//! `agents:` what is known of single agents: their credentials and whom they may write to.

use std::collections::BTreeMap;

use super::fields::{Fields, KeyError};
use crate::crypto::secret::Secret;
use crate::proto::dsh::names::AgentName;

const LONGEST_KEY_ID: usize = 64;

/// One key of an agent's keyring.
#[derive(Clone, Debug)]
pub struct Key {
    pub secret: Secret,
    /// Unix seconds after which the key is no longer taken.
    pub not_after: Option<f64>,
}

#[derive(Clone, Debug, Default)]
pub struct Agent {
    pub secret: Option<Secret>,
    pub keys: BTreeMap<String, Key>,
    /// `None`: anyone. The same for reading and continuing; for writing, `None` is nobody.
    pub allowed_targets: Option<Vec<String>>,
    pub allowed_read_targets: Option<Vec<String>>,
    pub allowed_continue_targets: Option<Vec<String>>,
    pub allowed_write_targets: Option<Vec<String>>,
}

impl Agent {
    fn has_credential(&self) -> bool {
        self.secret.is_some() || !self.keys.is_empty()
    }
}

#[derive(Clone, Debug, Default)]
pub struct Agents(pub BTreeMap<AgentName, Agent>);

impl Agents {
    pub(super) fn read(section: &Fields<'_>, warnings: &mut Vec<KeyError>) -> Result<Self, KeyError> {
        let mut agents = BTreeMap::new();
        for text in section.names() {
            let Some(name) = AgentName::parse(text) else {
                let problem = "is no agent name: 1–64 letters, digits, dots, dashes and underscores";
                return Err(section.wrong(text, problem));
            };
            agents.insert(name, Agent::read(section.section_of(text)?, warnings)?);
        }
        let agents = Self(agents);
        let bare = agents.0.iter().find(|(_, agent)| !agent.has_credential());
        if agents.are_isolated()
            && let Some((name, _)) = bare
        {
            return Err(
                section.wrong(name.as_str(), "needs a secret or keys, since other agents have their own")
            );
        }
        Ok(agents)
    }

    /// Whether agents have secrets of their own; then the shared one opens nothing.
    pub fn are_isolated(&self) -> bool {
        self.0.values().any(Agent::has_credential)
    }
}

impl Agent {
    fn read(mut section: Fields<'_>, warnings: &mut Vec<KeyError>) -> Result<Self, KeyError> {
        let keys = section.section("keys")?;
        let agent = Self {
            secret: section.secret("secret")?,
            keys: keys
                .names()
                .map(|id| Ok((id.to_owned(), Key::read(&keys, id, warnings)?)))
                .collect::<Result<_, _>>()?,
            allowed_targets: section.texts("allowed_targets")?,
            allowed_read_targets: section.texts("allowed_read_targets")?,
            allowed_continue_targets: section.texts("allowed_continue_targets")?,
            allowed_write_targets: section.texts("allowed_write_targets")?,
        };
        section.warn_of_unknown(warnings);
        Ok(agent)
    }
}

impl Key {
    fn read(keys: &Fields<'_>, id: &str, warnings: &mut Vec<KeyError>) -> Result<Self, KeyError> {
        let first = id.starts_with(|letter: char| letter.is_ascii_alphanumeric());
        let plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'));
        if !first || !plain || id.len() > LONGEST_KEY_ID {
            let problem =
                "is no key id: 1–64 letters, digits, dots, dashes and underscores, first a letter or digit";
            return Err(keys.wrong(id, problem));
        }
        let mut section = keys.section_of(id)?;
        let Some(secret) = section.secret("secret")? else { return Err(keys.wrong(id, "needs a secret")) };
        let key = Self { secret, not_after: section.time("not_after")? };
        section.warn_of_unknown(warnings);
        Ok(key)
    }
}
