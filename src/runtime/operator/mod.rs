//! What a person may ask of a node: what waits and why, and decisions about keys. The same requests are answered by
//! the running process, through its admin endpoint, and on the store alone when none runs.

mod check;
mod decide;
mod reload;
mod show;
mod stopped;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::key_files::KeyFiles;
use crate::admin::Administrator;
use crate::bridge::decisions::Decisions;
use crate::bridge::supervisor::Control;
use crate::config::redsyn::RelayMode;
use crate::domain::clock::SharedClock;
use crate::domain::random::SharedRandom;
use crate::proto::redsyn::address::{AgentAddress, Person};
use crate::store::StoreError;
use crate::store::sqlite::local::LocalStore;

pub use reload::Reloadable;
pub(super) use stopped::decisions;

/// What can be asked, as it travels to the running process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    Status,
    Held,
    Outbox,
    Trace { id: String },
    Reload,
    SelfCheck,
    KeysShow,
    KeysRotate,
    KeysPins,
    KeysAccept { person: Person, fingerprint: Option<String> },
    KeysReject { person: Person },
    KeysConfirm { person: Person, fingerprint: String },
    KeysAllowPlain { who: Whom },
    KeysAllowUnsigned { person: Person },
}

/// An address, or a person with all of theirs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Whom {
    Address(AgentAddress),
    Person(Person),
}

impl std::str::FromStr for Whom {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_person = text.matches('/').count() == 1;
        if is_person {
            return text.parse().map(Self::Person).map_err(|error| format!("{error}"));
        }
        text.parse().map(Self::Address).map_err(|error| format!("{error}"))
    }
}

/// Answers requests.
#[derive(Debug)]
pub struct Operator {
    pub local: LocalStore,
    pub decisions: Decisions,
    pub keys: KeyFiles,
    pub clock: SharedClock,
    pub random: SharedRandom,
    /// `None`: there is no `redsyn` section.
    pub relay: Option<RelayMode>,
    /// `None`: nothing runs.
    pub live: Option<Live>,
}

/// The running process.
#[derive(Debug)]
pub struct Live {
    pub broker: SocketAddr,
    pub relay_url: Option<String>,
    pub control: Option<Control>,
    /// What `reload` reads; none when the configuration came from elsewhere.
    pub config_file: Option<PathBuf>,
    pub reloadable: Reloadable,
}

impl Operator {
    /// # Errors
    /// Why not, in one sentence for a person.
    pub async fn answer(&self, request: Request) -> Result<Value, String> {
        match request {
            Request::Status => self.status().await,
            Request::Held => self.held().await,
            Request::Outbox => self.outbox().await,
            Request::Trace { id } => self.trace(id).await,
            Request::Reload => self.reload().await,
            Request::SelfCheck => self.self_check().await,
            Request::KeysShow => self.keys_show(),
            Request::KeysRotate => self.keys_rotate().await,
            Request::KeysPins => self.pins().await,
            Request::KeysAccept { person, fingerprint } => self.accept(person, fingerprint).await,
            Request::KeysReject { person } => self.reject(person).await,
            Request::KeysConfirm { person, fingerprint } => self.confirm(person, fingerprint).await,
            Request::KeysAllowPlain { who } => self.allow_plain(who).await,
            Request::KeysAllowUnsigned { person } => self.allow_unsigned(person).await,
        }
    }

    fn control(&self) -> Option<&Control> {
        self.live.as_ref()?.control.as_ref()
    }
}

impl Administrator for Operator {
    fn call(&self, request: Value) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async move {
            let request = serde_json::from_value(request)
                .map_err(|error| format!("this version knows no such command: {error}"))?;
            self.answer(request).await
        })
    }
}

/// The store's trouble, as a person reads it.
fn store(error: StoreError) -> String {
    format!("the store: {error}")
}

/// An operator that others may share.
pub type SharedOperator = Arc<Operator>;
