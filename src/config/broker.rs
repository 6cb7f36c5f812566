//! `broker:` where it listens, what it keeps and for how long, what it promises about delivery.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::ConfigError;
use super::reader::Document;
use crate::crypto::secret::Secret;
use crate::domain::rate::Limits;

const KEYS: &[&str] = &[
    "host",
    "port",
    "secret",
    "secretFile",
    "dataDir",
    "persist",
    "storage",
    "messageTtlDays",
    "leaseSeconds",
    "maxAttempts",
    "rateLimitLoopback",
    "rateLimitRemote",
    "notifyFailedToSender",
];

/// The secret of the reference's example file.
const PLACEHOLDER: &str = "CHANGE_ME_RUN_SETUP_INIT";
/// A hundred years: enough, and far from overflow.
const MOST_DAYS: u32 = 36_500;

/// Where messages are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// `persist: false`.
    Memory,
    Sqlite,
    Jsonl,
}

/// Where the secret shared by the agents comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BrokerSecret {
    Value(Secret),
    /// A file that only its owner may read; made at the first start.
    File(PathBuf),
}

#[derive(Clone, Debug)]
pub struct Broker {
    pub host: String,
    pub port: u16,
    pub secret: BrokerSecret,
    pub data_dir: PathBuf,
    pub storage: Storage,
    pub message_ttl: Duration,
    pub lease_seconds: u32,
    pub max_attempts: u32,
    pub rate: Limits,
    pub notify_failed_to_sender: bool,
}

/// The texts of the section, as they are written.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Written {
    broker: Option<Texts>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Texts {
    host: Option<String>,
    secret: Option<String>,
    secret_file: Option<String>,
    data_dir: Option<String>,
    storage: Option<String>,
}

impl Broker {
    pub(super) fn read(document: &mut Document) -> Result<Self, ConfigError> {
        let section = document.section(&["broker"])?;
        if section.has("tls") {
            return Err(section.error(
                document,
                "tls",
                "is not supported: put a reverse proxy in front of the broker",
            ));
        }
        section.warn_of_unknown(document, KEYS);
        for key in ["host", "secretFile", "dataDir", "storage"] {
            section.check_text(document, key)?;
        }
        section.check_secret(document, "secret")?;
        let texts = document.as_written::<Written>()?.broker.unwrap_or_default();
        if texts.secret.as_deref() == Some(PLACEHOLDER) {
            return Err(section.error(document, "secret", "is still the placeholder of the example file"));
        }
        let number = |key, range, default| section.number(document, key, range, default);
        let calls = |key, default| {
            number(key, 1..=u32::MAX, default).map(|most| NonZeroU32::new(most).unwrap_or(NonZeroU32::MIN))
        };
        let port = number("port", 1..=u32::from(u16::MAX), 19_121)?;
        let days = number("messageTtlDays", 0..=MOST_DAYS, 7)?;
        let persist = section.flag(document, "persist", true)?;
        let storage = match texts.storage.map(|storage| storage.to_lowercase()).as_deref() {
            None | Some("sqlite") => Storage::Sqlite,
            Some("jsonl") => Storage::Jsonl,
            _ => return Err(section.error(document, "storage", "must be sqlite or jsonl")),
        };
        let folder = document.file().parent().map(PathBuf::from).unwrap_or_default();
        let secret = match (texts.secret, texts.secret_file) {
            (Some(secret), None) => BrokerSecret::Value(Secret::new(secret.trim_end_matches(['\r', '\n']))),
            (None, Some(file)) => BrokerSecret::File(folder.join(file)),
            (Some(_), Some(_)) => {
                let problem = "is a value or a file (broker.secretFile), not both";
                return Err(section.error(document, "secret", problem));
            }
            (None, None) => {
                let problem = "is missing: give a secret, or broker.secretFile to have one made";
                return Err(section.error(document, "secret", problem));
            }
        };
        Ok(Self {
            host: texts.host.unwrap_or_else(|| "127.0.0.1".into()),
            port: u16::try_from(port).unwrap_or(u16::MAX),
            secret,
            data_dir: folder.join(texts.data_dir.unwrap_or_else(|| "data".into())),
            storage: if persist { storage } else { Storage::Memory },
            message_ttl: Duration::from_secs(u64::from(days) * 86_400),
            lease_seconds: number("leaseSeconds", 1..=86_400, 600)?,
            max_attempts: number("maxAttempts", 0..=u32::MAX, 3)?,
            rate: Limits {
                loopback: calls("rateLimitLoopback", 600)?,
                remote: calls("rateLimitRemote", 120)?,
            },
            notify_failed_to_sender: section.flag(document, "notifyFailedToSender", true)?,
        })
    }

    /// Whether only this machine can reach the broker.
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}
