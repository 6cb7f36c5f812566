//! `broker:` where it listens, what it keeps and for how long, what it promises about delivery.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::fields::{Fields, KeyError};
use super::host;
use crate::crypto::secret::Secret;
use crate::domain::rate::Limits;

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

impl Broker {
    /// Reads the section; relative paths count from `base`, the folder of the file.
    pub(super) fn read(
        mut section: Fields<'_>,
        base: &Path,
        warnings: &mut Vec<KeyError>,
    ) -> Result<Self, KeyError> {
        if section.has("tls") {
            return Err(section.wrong("tls", "is not supported: put a reverse proxy in front of the broker"));
        }
        let host = section.text("host")?.unwrap_or("127.0.0.1").to_owned();
        if !host::is_one(&host) {
            return Err(section.wrong("host", format!("{host:?} is no address and no name of a machine")));
        }
        let (value, file) = (section.secret("secret")?, section.path_from("secretFile", base)?);
        let secret = match (value, file) {
            (Some(secret), None) if secret.expose() == PLACEHOLDER => {
                return Err(section.wrong("secret", "is still the placeholder of the example file"));
            }
            (Some(secret), None) => BrokerSecret::Value(secret),
            (None, Some(file)) => BrokerSecret::File(file),
            (Some(_), Some(_)) => {
                let problem = "is a value or a file (broker.secretFile), not both";
                return Err(section.wrong("secret", problem));
            }
            (None, None) => {
                let problem = "is missing: give a secret, or broker.secretFile to have one made";
                return Err(section.wrong("secret", problem));
            }
        };
        let port = section.whole("port", 1..=u32::from(u16::MAX), 19_121)?;
        let days = section.whole("messageTtlDays", 0..=MOST_DAYS, 7)?;
        let persist = section.flag("persist")?.unwrap_or(true);
        let storage = match section.text("storage")?.map(str::to_lowercase).as_deref() {
            None | Some("sqlite") => Storage::Sqlite,
            Some("jsonl") => Storage::Jsonl,
            _ => return Err(section.wrong("storage", "must be sqlite or jsonl")),
        };
        let broker = Self {
            host,
            port: u16::try_from(port).unwrap_or(u16::MAX),
            secret,
            data_dir: section.path_from("dataDir", base)?.unwrap_or_else(|| base.join("data")),
            storage: if persist { storage } else { Storage::Memory },
            message_ttl: Duration::from_secs(u64::from(days) * 86_400),
            lease_seconds: section.whole("leaseSeconds", 1..=86_400, 600)?,
            max_attempts: section.whole("maxAttempts", 0..=u32::MAX, 3)?,
            rate: Limits {
                loopback: section.at_least_one("rateLimitLoopback", 600)?,
                remote: section.at_least_one("rateLimitRemote", 120)?,
            },
            notify_failed_to_sender: section.flag("notifyFailedToSender")?.unwrap_or(true),
        };
        if !broker.is_loopback() {
            warnings.push(section.wrong("host", "listens beyond this machine: signatures authenticate but do not encrypt, so put TLS in front"));
        }
        section.warn_of_unknown(warnings);
        Ok(broker)
    }

    /// Whether only this machine can reach the broker.
    pub fn is_loopback(&self) -> bool {
        host::is_loopback(&self.host)
    }
}
