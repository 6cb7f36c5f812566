//! The configuration file: real YAML with the keys of the reference broker. Everything is checked here, once; the
//! rest of the program gets types that cannot be wrong. Nothing here may open sockets or stores.

mod agents;
mod broker;
pub mod fields;
mod node;
mod reader;
pub mod redsyn;
pub mod relay;
mod security;

use std::fmt;
use std::path::{Path, PathBuf};

pub use agents::{Agent, Agents, Key};
pub use broker::{Broker, Storage};
pub use security::Security;

use reader::Document;

/// The sections of the file.
const SECTIONS: &[&str] = &["broker", "security", "agents", "redsyn"];

#[derive(Clone, Debug)]
pub struct Config {
    pub broker: Broker,
    pub security: Security,
    pub agents: Agents,
    /// The bridge reads its own section.
    pub redsyn: Option<serde_yaml::Value>,
    /// What is allowed but probably not meant; each names file, line and key.
    pub warnings: Vec<String>,
}

#[derive(serde::Deserialize)]
struct Bridge {
    #[serde(default)]
    redsyn: Option<serde_yaml::Value>,
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

impl Config {
    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be read or holds something that is not allowed.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(file).map_err(|error| ConfigError {
            file: file.to_owned(),
            line: None,
            problem: format!("cannot be read: {error}"),
        })?;
        Self::parse(&text, file)
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
        let redsyn = document.as_written::<Bridge>()?.redsyn;
        Ok(Self { broker, security, agents, redsyn, warnings: document.into_warnings() })
    }
}

#[cfg(test)]
mod tests;
