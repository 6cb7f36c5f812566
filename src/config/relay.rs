//! `relay.yaml`: a relay of its own. Paths are relative to the file.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;

use super::fields::{Fields, KeyError};
use super::metrics::allow_remote;
use super::{ConfigError, text_of, tree};
use crate::domain::relay::plan::{Plan, Plans};

const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 19122);
const DEFAULT_DATA_DIR: &str = "data";
const UNLIMITED: &str = "unlimited";
const MB: u64 = 1 << 20;
const DAY: u64 = 24 * 60 * 60;
/// Calls a minute and token: a hundred a second, far beyond what an agent needs, far below what a loop does.
const TOKEN_CALLS: u32 = 6_000;
/// Calls a minute and address: an office behind one address has many tokens.
const ADDRESS_CALLS: u32 = 30_000;
/// The longest a message may wait on any plan (spec, «Límites»).
const TTL_DAYS_MAX: u64 = 30;
/// How long what has ended is kept: as long as any message may wait.
const RETENTION_DAYS: u64 = 30;
/// Longer than anybody's books are kept; more is surely a mistake.
const RETENTION_DAYS_MAX: u64 = 3650;

#[derive(Clone, Debug)]
pub struct RelayConfig {
    pub listen: SocketAddr,
    pub data_dir: PathBuf,
    pub trusted_proxies: Vec<IpNet>,
    pub plans: Plans,
    /// Webhooks may point anywhere: for tests.
    pub insecure_targets: bool,
    pub tls: Option<TlsFiles>,
    pub limits: CallLimits,
    /// `/metrics` answers everybody, not only this machine.
    pub remote_metrics: bool,
    /// How long messages are kept after they ended; `None`: for ever.
    pub retention: Option<Duration>,
    /// What is odd but not wrong, each with file, line and key.
    pub warnings: Vec<String>,
}

/// PEM files: a certificate with its chain, and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// Calls a minute; `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    pub per_token: Option<NonZeroU32>,
    pub per_address: Option<NonZeroU32>,
}

impl RelayConfig {
    /// # Errors
    /// When the file cannot be read, or says something that cannot be.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        Self::parse(&text_of(file)?, file)
    }

    /// The same for a text that is already here; `file` names it in errors and anchors relative paths.
    ///
    /// # Errors
    /// When the text says something that cannot be.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        let base = file.parent().unwrap_or(Path::new(""));
        let mut warnings = Vec::new();
        let mut config = parse(text, base, &mut warnings).map_err(|error| ConfigError::of(file, error))?;
        warnings.sort_by_key(|warning| warning.line);
        let warnings = warnings.into_iter().map(|warning| ConfigError::of(file, warning).to_string());
        config.warnings = warnings.collect();
        Ok(config)
    }
}

/// All but the warnings.
fn parse(text: &str, base: &Path, warnings: &mut Vec<KeyError>) -> Result<RelayConfig, KeyError> {
    let root = tree(text, warnings)?;
    let mut root = Fields::of_file(&root, "relay")?;
    if root.text("database")?.is_some() {
        return Err(root.wrong("database", "is not available yet: use dataDir"));
    }
    let insecure_targets = webhooks(&mut root)?;
    let listen = match root.text("listen")? {
        None => DEFAULT_LISTEN,
        Some(text) => {
            text.parse().map_err(|_| root.wrong("listen", format!("{text:?} is not address:port")))?
        }
    };
    let tls = tls(&mut root, base)?;
    if tls.is_none() && !listen.ip().is_loopback() {
        let why = "listens beyond this machine without TLS: tokens and who writes to whom can be read on the way, so set `tls` or let a TLS proxy alone reach it";
        warnings.push(root.wrong("listen", why));
    }
    let config = RelayConfig {
        listen,
        data_dir: root.path_from("dataDir", base)?.unwrap_or_else(|| base.join(DEFAULT_DATA_DIR)),
        trusted_proxies: trusted_proxies(&mut root)?,
        plans: plans(&mut root)?,
        insecure_targets,
        tls,
        limits: limits(&mut root)?,
        remote_metrics: allow_remote(root.section("metrics")?)?,
        retention: retention(&mut root)?,
        warnings: Vec::new(),
    };
    root.refuse_unknown()?;
    Ok(config)
}

fn webhooks(root: &mut Fields<'_>) -> Result<bool, KeyError> {
    let mut webhooks = root.section("webhooks")?;
    let insecure = webhooks.flag("allow_insecure_targets")?.unwrap_or(false);
    webhooks.refuse_unknown()?;
    Ok(insecure)
}

fn tls(root: &mut Fields<'_>, base: &Path) -> Result<Option<TlsFiles>, KeyError> {
    let Some(mut tls) = root.section_if_any("tls")? else { return Ok(None) };
    let (cert, key) = (tls.path_from("cert", base)?, tls.path_from("key", base)?);
    tls.refuse_unknown()?;
    match (cert, key) {
        (Some(cert), Some(key)) => Ok(Some(TlsFiles { cert, key })),
        _ => Err(root.wrong("tls", "needs both cert and key")),
    }
}

fn limits(root: &mut Fields<'_>) -> Result<CallLimits, KeyError> {
    let mut fields = root.section("limits")?;
    let limits = CallLimits {
        per_token: calls(&mut fields, "callsPerMinuteAndToken", TOKEN_CALLS)?,
        per_address: calls(&mut fields, "callsPerMinuteAndAddress", ADDRESS_CALLS)?,
    };
    fields.refuse_unknown()?;
    Ok(limits)
}

fn calls(fields: &mut Fields<'_>, key: &'static str, default: u32) -> Result<Option<NonZeroU32>, KeyError> {
    match limit(fields, key)? {
        None => Ok(NonZeroU32::new(default)),
        Some(None) => Ok(None),
        Some(Some(number)) => match u32::try_from(number).ok().and_then(NonZeroU32::new) {
            Some(number) => Ok(Some(number)),
            None => Err(fields.wrong(key, format!("must be at least 1, or {UNLIMITED}"))),
        },
    }
}

fn retention(root: &mut Fields<'_>) -> Result<Option<Duration>, KeyError> {
    let mut fields = root.section("retention")?;
    let days = limit(&mut fields, "days")?.unwrap_or(Some(RETENTION_DAYS));
    if days.is_some_and(|days| !(1..=RETENTION_DAYS_MAX).contains(&days)) {
        return Err(fields.wrong("days", format!("must be 1 to {RETENTION_DAYS_MAX}, or {UNLIMITED}")));
    }
    fields.refuse_unknown()?;
    Ok(days.map(|days| Duration::from_secs(days * DAY)))
}

/// Single addresses and whole networks.
fn trusted_proxies(root: &mut Fields<'_>) -> Result<Vec<IpNet>, KeyError> {
    let entries = root.list("trustedProxies")?.unwrap_or_default();
    entries
        .into_iter()
        .map(|item| {
            let network = item.text.parse::<IpNet>().ok();
            let network = network.or_else(|| item.text.parse::<IpAddr>().ok().map(IpNet::from));
            let problem = || format!("{:?} is no address or network", item.text);
            network.ok_or_else(|| root.wrong_item("trustedProxies", item, problem()))
        })
        .collect()
}

/// The spec's table with changes. A plan that is not in it starts from the tightest one.
fn plans(root: &mut Fields<'_>) -> Result<Plans, KeyError> {
    let mut plans = Plans::default();
    let section = root.section("plans")?;
    for name in section.names() {
        if name.is_empty() {
            return Err(root.wrong("plans", "a plan's name must be a text"));
        }
        let mut fields = section.section_of(name)?;
        let plan = changed(plans.get(name).clone(), &mut fields)?;
        fields.refuse_unknown()?;
        plans.set(name, plan);
    }
    Ok(plans)
}

fn changed(plan: Plan, changes: &mut Fields<'_>) -> Result<Plan, KeyError> {
    Ok(Plan {
        messages_per_day: limit(changes, "messagesPerDay")?.unwrap_or(plan.messages_per_day),
        files_bytes: limit(changes, "filesMb")?
            .map_or(plan.files_bytes, |mb| mb.map(|mb| mb.saturating_mul(MB))),
        ttl_secs: match limit(changes, "ttlDays")? {
            None => plan.ttl_secs,
            Some(Some(days @ 1..=TTL_DAYS_MAX)) => days * DAY,
            Some(_) => return Err(changes.wrong("ttlDays", format!("must be 1 to {TTL_DAYS_MAX}"))),
        },
        agents: limit(changes, "agents")?.unwrap_or(plan.agents),
        links: limit(changes, "links")?.unwrap_or(plan.links),
        webhooks: limit(changes, "webhooks")?.unwrap_or(plan.webhooks),
    })
}

/// A number, or `unlimited`; `None` when the key is not there.
fn limit(changes: &mut Fields<'_>, key: &'static str) -> Result<Option<Option<u64>>, KeyError> {
    match changes.text(key)? {
        None => Ok(None),
        Some(text) if text == UNLIMITED => Ok(Some(None)),
        Some(text) => match text.parse() {
            Ok(number) => Ok(Some(Some(number))),
            Err(_) => Err(changes.wrong(key, format!("must be a whole number or {UNLIMITED}"))),
        },
    }
}
