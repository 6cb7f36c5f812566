//! The configuration file: real YAML with the keys of the reference broker. Everything is checked here, once; the
//! rest of the program gets types that cannot be wrong. Nothing here may open sockets or stores.

mod agents;
mod broker;
mod disk;
pub mod fields;
mod host;
mod metrics;
pub mod redsyn;
mod reference;
pub mod relay;
mod security;
mod yaml;

use std::fmt;
use std::path::{Path, PathBuf};

pub use agents::{Agent, Agents, Key};
pub use broker::{Broker, BrokerSecret, Storage};
pub use security::Security;

use fields::{Fields, KeyError};
use redsyn::{RedsynConfig, RelayMode};

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
    fn of(file: &Path, error: KeyError) -> Self {
        Self { file: file.to_owned(), line: error.line, problem: error.to_string() }
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

    /// The same, and looks at the files and folders that it names.
    ///
    /// # Errors
    /// As [`Config::load`], and when something of another kind is in their place.
    pub fn load_and_look(file: &Path) -> Result<Self, ConfigError> {
        let text = text_of(file)?;
        let config = Self::parse(&text, file)?;
        let look = || disk::look(&config, &mut Fields::of_file(&tree(&text, &mut Vec::new())?, "")?);
        look().map_err(|error| ConfigError::of(file, error))?;
        Ok(config)
    }

    /// The same for a text that is already here; `file` names it in errors and anchors relative paths.
    ///
    /// # Errors
    /// When the text holds something that is not allowed.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        let mut warnings = Vec::new();
        let base = file.parent().unwrap_or(Path::new(""));
        let mut config =
            Self::read(text, base, &mut warnings).map_err(|error| ConfigError::of(file, error))?;
        warnings.sort_by_key(|warning| warning.line);
        let warnings = warnings.into_iter().map(|warning| ConfigError::of(file, warning).to_string());
        config.warnings = warnings.collect();
        Ok(config)
    }

    /// All but the warnings.
    fn read(text: &str, base: &Path, warnings: &mut Vec<KeyError>) -> Result<Self, KeyError> {
        let root = tree(text, warnings)?;
        let mut top = Fields::of_file(&root, "")?;
        let broker = Broker::read(top.section("broker")?.of_reference(), base, warnings)?;
        let security = Security::read(top.section("security")?.of_reference(), warnings)?;
        let agents = Agents::read(&top.section("agents")?.of_reference(), warnings)?;
        let remote_metrics = metrics::allow_remote(top.section("metrics")?)?;
        let redsyn = match top.section_if_any("redsyn")? {
            Some(section) => Some(RedsynConfig::read(section, base, warnings)?),
            None => None,
        };
        top.warn_of_unknown(warnings);
        if let Some(RelayMode::Embedded { listen }) = redsyn.as_ref().map(|redsyn| &redsyn.relay)
            && let Some((host, port)) = host::and_port(listen)
            && port == broker.port
            && host::overlap(host, &broker.host)
        {
            let problem =
                format!("is {listen}, where the broker listens (broker.port): give one of them another port");
            return Err(top.section("redsyn")?.wrong("listen", problem));
        }
        if redsyn.is_some() && broker.storage == Storage::Memory {
            let problem = "is false: the outbox, seen mail and pinned keys are forgotten at each stop, so mail may be lost or come twice";
            warnings.push(top.section("broker")?.wrong("persist", problem));
        }
        warnings.extend(reference::differences(&root, text));
        Ok(Self { broker, security, agents, remote_metrics, redsyn, warnings: Vec::new() })
    }
}

/// The file as a tree; what was passed over is warned of.
fn tree(text: &str, warnings: &mut Vec<KeyError>) -> Result<yaml::Node, KeyError> {
    let odd = |odd: yaml::Oddity| KeyError { key: odd.path, line: Some(odd.line), message: odd.problem };
    let (root, passed_over) = yaml::parse(text).map_err(odd)?;
    warnings.extend(passed_over.into_iter().map(odd));
    Ok(root)
}

#[cfg(test)]
mod tests;
