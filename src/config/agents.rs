//! `agents:` what is known of single agents: their credentials and whom they may write to.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::ConfigError;
use super::node::Node;
use super::reader::Document;
use crate::crypto::secret::Secret;
use crate::proto::dsh::names::AgentName;

const KEYS: &[&str] = &[
    "secret",
    "keys",
    "allowed_targets",
    "allowed_read_targets",
    "allowed_continue_targets",
    "allowed_write_targets",
];
const KEY_FIELDS: &[&str] = &["secret", "not_after"];
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

/// The texts of the section, as they are written. Names are texts too: `007:` is the agent `007`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Written {
    agents: Option<BTreeMap<String, Option<Texts>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Texts {
    secret: Option<String>,
    keys: Option<BTreeMap<String, KeyTexts>>,
    allowed_targets: Option<Vec<String>>,
    allowed_read_targets: Option<Vec<String>>,
    allowed_continue_targets: Option<Vec<String>>,
    allowed_write_targets: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct KeyTexts {
    secret: String,
}

impl Agents {
    pub(super) fn read(document: &mut Document) -> Result<Self, ConfigError> {
        let section = document.section(&["agents"])?;
        for name in section.keys() {
            if AgentName::parse(name).is_none() {
                return Err(section.error(
                    document,
                    name,
                    "is no agent name: 1–64 letters, digits, dots, dashes and underscores",
                ));
            }
            check(document, name)?;
        }
        let written = document.as_written::<Written>()?.agents.unwrap_or_default();
        let mut agents = BTreeMap::new();
        for (name, texts) in written {
            let agent = Agent::read(document, &name, texts.unwrap_or_default())?;
            agents.extend(AgentName::parse(&name).map(|name| (name, agent)));
        }
        let agents = Self(agents);
        let bare = agents.0.iter().find(|(_, agent)| !agent.has_credential());
        if agents.are_isolated()
            && let Some((name, _)) = bare
        {
            return Err(section.error(
                document,
                name.as_str(),
                "needs a secret or keys, since other agents have their own",
            ));
        }
        Ok(agents)
    }

    /// Whether agents have secrets of their own; then the shared one opens nothing.
    pub fn are_isolated(&self) -> bool {
        self.0.values().any(Agent::has_credential)
    }
}

impl Agent {
    fn read(document: &Document, name: &str, texts: Texts) -> Result<Self, ConfigError> {
        let mut keys = BTreeMap::new();
        for (id, texts) in texts.keys.unwrap_or_default() {
            let not_after = match document.section(&["agents", name, "keys", &id])?.value("not_after") {
                Some(Node::Number(seconds)) => Some(*seconds),
                _ => None,
            };
            keys.insert(id, Key { secret: Secret::new(texts.secret), not_after });
        }
        Ok(Self {
            secret: texts.secret.map(Secret::new),
            keys,
            allowed_targets: texts.allowed_targets,
            allowed_read_targets: texts.allowed_read_targets,
            allowed_continue_targets: texts.allowed_continue_targets,
            allowed_write_targets: texts.allowed_write_targets,
        })
    }
}

/// The shape of one agent's entry; what it says is read afterwards.
fn check(document: &mut Document, name: &str) -> Result<(), ConfigError> {
    let section = document.section(&["agents", name])?;
    section.warn_of_unknown(document, KEYS);
    section.check_secret(document, "secret")?;
    for list in
        ["allowed_targets", "allowed_read_targets", "allowed_continue_targets", "allowed_write_targets"]
    {
        section.check_list(document, list)?;
    }
    let keys = document.section(&["agents", name, "keys"])?;
    for id in keys.keys() {
        let first = id.starts_with(|letter: char| letter.is_ascii_alphanumeric());
        let plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'));
        if !first || !plain || id.len() > LONGEST_KEY_ID {
            return Err(keys.error(
                document,
                id,
                "is no key id: 1–64 letters, digits, dots, dashes and underscores, first a letter or digit",
            ));
        }
        let key = document.section(&["agents", name, "keys", id])?;
        key.warn_of_unknown(document, KEY_FIELDS);
        key.check_secret(document, "secret")?;
        if !key.has("secret") {
            return Err(keys.error(document, id, "needs a secret"));
        }
        let fits =
            |value: &Node| matches!(value, Node::Number(seconds) if *seconds > 0.0 && seconds.is_finite());
        if key.value("not_after").is_some_and(|value| !fits(value)) {
            return Err(key.error(document, "not_after", "must be a time in Unix seconds, greater than 0"));
        }
    }
    Ok(())
}
