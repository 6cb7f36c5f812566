//! The configuration file: real YAML with the keys of the reference broker. Everything is checked here, once; the
//! rest of the program gets types that cannot be wrong. Nothing here may open sockets or stores.

mod agents;
mod broker;
pub mod fields;
mod metrics;
mod node;
mod reader;
pub mod redsyn;
pub mod relay;
mod security;

use std::fmt;
use std::path::{Path, PathBuf};

pub use agents::{Agent, Agents, Key};
pub use broker::{Broker, BrokerSecret, Storage};
pub use security::Security;

use fields::KeyError;
use reader::Document;
use redsyn::{RedsynConfig, TokenSource};

use crate::crypto::secret::Secret;

/// The sections of the file.
const SECTIONS: &[&str] = &["broker", "security", "agents", "metrics", "redsyn"];

#[derive(Clone, Debug)]
pub struct Config {
    pub broker: Broker,
    pub security: Security,
    pub agents: Agents,
    /// `/metrics` answers everybody, not only this machine.
    pub remote_metrics: bool,
    /// `None`: a plain local broker.
    pub redsyn: Option<RedsynConfig>,
    /// What is allowed but probably not meant; each names file, line and key.
    pub warnings: Vec<String>,
}

/// The sections that the reference does not know.
#[derive(serde::Deserialize)]
struct Additions {
    #[serde(default)]
    metrics: serde_yaml::Value,
    #[serde(default)]
    redsyn: Option<serde_yaml::Value>,
}

/// A token of digits is the digits that are written.
#[derive(serde::Deserialize)]
struct WrittenBridge {
    redsyn: Option<WrittenToken>,
}

#[derive(serde::Deserialize)]
struct WrittenToken {
    token: Option<String>,
}

/// Why the file cannot be used, in one sentence that never shows a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    pub file: PathBuf,
    pub line: Option<usize>,
    pub problem: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match self.line {
            Some(line) => write!(f, "{file}:{line}: {}", self.problem),
            None => write!(f, "{file}: {}", self.problem),
        }
    }
}

impl std::error::Error for ConfigError {}

impl ConfigError {
    /// What is wrong with the file as YAML; `before` introduces it.
    fn yaml(file: &Path, before: &str, error: &serde_yaml::Error) -> Self {
        let line = error.location().map(|location| location.line());
        Self { file: file.to_owned(), line, problem: format!("{before}{error}") }
    }
}

/// The text of a configuration file.
fn text_of(file: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(file).map_err(|error| ConfigError {
        file: file.to_owned(),
        line: None,
        problem: format!("cannot be read: {error}"),
    })
}

impl Config {
    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be read or holds something that is not allowed.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        Self::parse(&text_of(file)?, file)
    }

    /// The same for a text that is already here; `file` names it in errors and anchors relative paths.
    ///
    /// # Errors
    /// When the text holds something that is not allowed.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        let mut document = Document::parse(text, file)?;
        let top = document.top()?;
        top.warn_of_unknown(&mut document, SECTIONS);
        let broker = Broker::read(&mut document)?;
        let security = Security::read(&mut document)?;
        let agents = Agents::read(&mut document)?;
        if !broker.is_loopback() {
            document.warn(&["broker", "host"], "listens beyond this machine: signatures authenticate but do not encrypt, so put TLS in front");
        }
        let additions = document.as_written::<Additions>()?;
        let remote_metrics = metrics::allow_remote(&additions.metrics, "metrics")
            .map_err(|error| key_error(&document, &error))?;
        let redsyn = redsyn(&document, additions.redsyn)?;
        if redsyn.is_some() && broker.storage == Storage::Memory {
            document.warn(&["broker", "persist"], "is false: the outbox, seen mail and pinned keys are forgotten at each stop, so mail may be lost or come twice");
        }
        Ok(Self { broker, security, agents, remote_metrics, redsyn, warnings: document.into_warnings() })
    }
}

/// An error that names the whole way to a key; the document knows the line.
fn key_error(document: &Document, error: &KeyError) -> ConfigError {
    let path: Vec<&str> = error.key.split('.').collect();
    document.error(&path, &error.message)
}

/// The `redsyn` section.
fn redsyn(
    document: &Document,
    section: Option<serde_yaml::Value>,
) -> Result<Option<RedsynConfig>, ConfigError> {
    let Some(section) = section else { return Ok(None) };
    let folder = document.file().parent().map(PathBuf::from).unwrap_or_default();
    let mut config = RedsynConfig::parse(&section, &folder).map_err(|error| key_error(document, &error))?;
    if let TokenSource::Value(token) = &mut config.token
        && let Some(written) = document.as_written::<WrittenBridge>()?.redsyn.and_then(|redsyn| redsyn.token)
    {
        *token = Secret::new(written.trim());
    }
    Ok(Some(config))
}

#[cfg(test)]
mod tests;
