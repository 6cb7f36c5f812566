//! `relay.yaml`: a relay of its own. Paths are relative to the file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use serde_yaml::{Mapping, Value};

use super::keys;
use crate::domain::relay::plan::{Plan, Plans};

const DEFAULT_LISTEN: &str = "127.0.0.1:19122";
const DEFAULT_DATA_DIR: &str = "data";
const KEYS: &[&str] = &["listen", "dataDir", "tls", "database", "trustedProxies", "webhooks", "plans"];
const WEBHOOK_KEYS: &[&str] = &["allow_insecure_targets"];
const PLAN_KEYS: &[&str] = &["messagesPerDay", "filesMb", "ttlDays", "agents", "links", "webhooks"];
const MB: u64 = 1 << 20;
const DAY: u64 = 24 * 60 * 60;

#[derive(Clone, Debug)]
pub struct RelayConfig {
    pub listen: SocketAddr,
    pub data_dir: PathBuf,
    pub trusted_proxies: Vec<IpNet>,
    pub plans: Plans,
}

#[derive(Debug, thiserror::Error)]
pub enum RelayConfigError {
    #[error("cannot read {0}: {1}")]
    Read(PathBuf, std::io::Error),
    #[error("{0}: {1}")]
    Yaml(PathBuf, serde_yaml::Error),
    /// The file and what is wrong in it.
    #[error("{0}: {1}")]
    Wrong(PathBuf, String),
}

impl RelayConfig {
    /// # Errors
    /// When the file cannot be read, or says something that cannot be.
    pub fn load(path: &Path) -> Result<Self, RelayConfigError> {
        let text =
            std::fs::read_to_string(path).map_err(|error| RelayConfigError::Read(path.to_owned(), error))?;
        let value: Value =
            serde_yaml::from_str(&text).map_err(|error| RelayConfigError::Yaml(path.to_owned(), error))?;
        let base = path.parent().unwrap_or(Path::new(""));
        parse(&value, base).map_err(|wrong| RelayConfigError::Wrong(path.to_owned(), wrong))
    }
}

fn parse(value: &Value, base: &Path) -> Result<RelayConfig, String> {
    // An empty file is a relay with nothing but defaults.
    let empty = Mapping::new();
    let root = match value {
        Value::Null => &empty,
        other => mapping(other, "the file")?,
    };
    check_keys(root, KEYS, "")?;
    for (key, instead) in [("tls", "put the relay behind a TLS proxy"), ("database", "use dataDir")] {
        if given(root, key).is_some() {
            return Err(format!("{key} is not available yet: {instead}"));
        }
    }
    if let Some(webhooks) = given(root, "webhooks") {
        let webhooks = mapping(webhooks, "webhooks")?;
        check_keys(webhooks, WEBHOOK_KEYS, "webhooks: ")?;
        if given(webhooks, "allow_insecure_targets").is_some_and(|on| on != &Value::Bool(false)) {
            return Err("webhooks.allow_insecure_targets is not available yet".to_owned());
        }
    }
    let listen = text(root, "listen")?.unwrap_or(DEFAULT_LISTEN);
    Ok(RelayConfig {
        listen: listen.parse().map_err(|_| format!("listen: {listen:?} is not address:port"))?,
        data_dir: base.join(text(root, "dataDir")?.unwrap_or(DEFAULT_DATA_DIR)),
        trusted_proxies: trusted_proxies(root)?,
        plans: plans(root)?,
    })
}

fn trusted_proxies(root: &Mapping) -> Result<Vec<IpNet>, String> {
    let Some(value) = given(root, "trustedProxies") else { return Ok(Vec::new()) };
    let entries = value.as_sequence().ok_or("trustedProxies must be a list of addresses")?;
    entries
        .iter()
        .map(|entry| {
            let text = entry.as_str().unwrap_or_default();
            let network = text.parse::<IpNet>().ok();
            let network = network.or_else(|| text.parse::<std::net::IpAddr>().ok().map(IpNet::from));
            network.ok_or_else(|| format!("trustedProxies: {entry:?} is no address or network"))
        })
        .collect()
}

/// The spec's table with changes. A plan that is not in it starts from the tightest one.
fn plans(root: &Mapping) -> Result<Plans, String> {
    let mut plans = Plans::default();
    let Some(value) = given(root, "plans") else { return Ok(plans) };
    for (name, changes) in mapping(value, "plans")? {
        let name = name.as_str().filter(|name| !name.is_empty()).ok_or("plans: a plan's name must be a text")?;
        let changes = mapping(changes, &format!("plans.{name}"))?;
        let path = format!("plans.{name}: ");
        check_keys(changes, PLAN_KEYS, &path)?;
        let plan = changed(plans.get(name).clone(), changes).map_err(|wrong| format!("{path}{wrong}"))?;
        plans.set(name, plan);
    }
    Ok(plans)
}

fn changed(plan: Plan, changes: &Mapping) -> Result<Plan, String> {
    Ok(Plan {
        messages_per_day: limit(changes, "messagesPerDay", plan.messages_per_day)?,
        files_bytes: match limit(changes, "filesMb", None)? {
            None if !changes.contains_key("filesMb") => plan.files_bytes,
            mb => mb.map(|mb| mb.saturating_mul(MB)),
        },
        ttl_secs: match limit(changes, "ttlDays", Some(0))? {
            Some(0) if !changes.contains_key("ttlDays") => plan.ttl_secs,
            Some(days @ 1..=30) => days * DAY,
            _ => return Err("ttlDays must be 1 to 30".to_owned()),
        },
        agents: limit(changes, "agents", plan.agents)?,
        links: limit(changes, "links", plan.links)?,
        webhooks: limit(changes, "webhooks", plan.webhooks)?,
    })
}

/// A number, or `unlimited`.
fn limit(changes: &Mapping, key: &str, before: Option<u64>) -> Result<Option<u64>, String> {
    match changes.get(key) {
        None => Ok(before),
        Some(Value::String(text)) if text == "unlimited" => Ok(None),
        Some(value) => {
            value.as_u64().map(Some).ok_or_else(|| format!("{key} must be a number or \"unlimited\""))
        }
    }
}

fn check_keys(mapping: &Mapping, known: &[&str], path: &str) -> Result<(), String> {
    if mapping.keys().any(|key| !key.is_string()) {
        return Err(format!("{path}keys must be texts"));
    }
    match keys::unknown(mapping.keys().filter_map(Value::as_str), known) {
        Some(unknown) => Err(format!("{path}{unknown}")),
        None => Ok(()),
    }
}

fn mapping<'a>(value: &'a Value, what: &str) -> Result<&'a Mapping, String> {
    value.as_mapping().ok_or_else(|| format!("{what} must be keys and values"))
}

fn given<'a>(mapping: &'a Mapping, key: &str) -> Option<&'a Value> {
    mapping.get(key).filter(|value| !value.is_null())
}

fn text<'a>(root: &'a Mapping, key: &str) -> Result<Option<&'a str>, String> {
    match given(root, key) {
        None => Ok(None),
        Some(value) => value.as_str().map(Some).ok_or_else(|| format!("{key} must be a text")),
    }
}
