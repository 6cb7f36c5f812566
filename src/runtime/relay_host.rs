//! A REDSYN relay of this process: embedded beside a broker, hosted for an organisation, or set up for the demo.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::data_folder::DataFolder;
use super::error::{RunError, cannot_open};
use super::listen::listen;
use crate::config::redsyn::Scope;
use crate::crypto::secret::Secret;
use crate::domain::clock::SharedClock;
use crate::domain::random::SharedRandom;
use crate::proto::redsyn::keys::KeyRegistration;
use crate::relay::{self, Listening, RelayError, Service, Settings};
use crate::store::sqlite::relay::SqliteRelay;

/// The name of the one node of an embedded relay.
const EMBEDDED_NODE: &str = "this-machine";

/// An opened store of a relay, owned by this process, with nobody listening yet.
#[derive(Debug)]
pub struct RelayStore {
    pub service: Arc<Service>,
    folder: DataFolder,
}

/// A listening relay.
#[derive(Debug)]
pub struct RelayHost {
    address: SocketAddr,
    store: RelayStore,
    /// `None` once its end has been told.
    serving: Option<JoinHandle<std::io::Result<()>>>,
    stop: CancellationToken,
}

impl RelayStore {
    /// Opens or makes the store in `data`.
    ///
    /// # Errors
    /// When another process owns the folder, or the store cannot be opened.
    pub async fn open(
        data: &Path,
        settings: Settings,
        clock: SharedClock,
        random: SharedRandom,
    ) -> Result<Self, RunError> {
        let folder = DataFolder::open(data, "dataDir")?;
        let plans = Arc::clone(&settings.plans);
        let store = SqliteRelay::open(folder.path(), plans, Arc::clone(&random))
            .await
            .map_err(|error| cannot_open(&error, data))?;
        let service = Service::new(Arc::new(store), clock, random, settings);
        Ok(Self { service, folder })
    }

    /// Listens on `address`; `setting` is the key that changes it.
    ///
    /// # Errors
    /// When it cannot listen there. The store is closed then.
    pub async fn listen(self, address: &str, setting: &str) -> Result<RelayHost, RunError> {
        self.listen_with(address, setting, None).await
    }

    /// The same, with TLS of its own.
    ///
    /// # Errors
    /// See [`RelayStore::listen`].
    pub async fn listen_with(
        self,
        address: &str,
        setting: &str,
        tls: Option<watch::Receiver<Arc<ServerConfig>>>,
    ) -> Result<RelayHost, RunError> {
        let (listener, address) = listen(address, setting).await?;
        let listening = Listening { listener, tls };
        let stop = CancellationToken::new();
        let serving =
            tokio::spawn(relay::serve(listening, Arc::clone(&self.service), stop.clone().cancelled_owned()));
        Ok(RelayHost { address, store: self, serving: Some(serving), stop })
    }

    /// Finishes what is under way and closes the store.
    ///
    /// # Errors
    /// When the store's thread has failed.
    pub async fn close(self) -> Result<(), RunError> {
        self.service.close().await.map_err(|error| self.failed("closing the store", &error))
    }

    fn failed(&self, what: &str, error: &RelayError) -> RunError {
        RunError::other(format!("the relay in {}: {what}: {error}", self.folder.path().display()))
    }
}

impl RelayHost {
    /// Opens the store in `data` with the spec's plans and listens.
    ///
    /// # Errors
    /// See [`RelayStore::open`] and [`RelayStore::listen`].
    pub async fn start(
        data: &Path,
        address: &str,
        setting: &str,
        clock: SharedClock,
        random: SharedRandom,
    ) -> Result<Self, RunError> {
        RelayStore::open(data, Settings::default(), clock, random).await?.listen(address, setting).await
    }

    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes a person with one node, and gives the node's token.
    ///
    /// # Errors
    /// When the plan is unknown or the address taken.
    pub async fn add_person(&self, email: &str, plan: &str, node: &str) -> Result<Secret, RunError> {
        let service = &self.store.service;
        let failed = |error| self.store.failed("adding a person", &error);
        let person = service.create_person(email, plan).await.map_err(failed)?;
        service.create_node(person, node).await.map_err(failed)
    }

    /// Whether a node has this token.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn knows(&self, token: &Secret) -> Result<bool, RunError> {
        match self.store.service.authenticate(token.expose()).await {
            Ok(_) => Ok(true),
            Err(RelayError::UnknownToken) => Ok(false),
            Err(error) => Err(self.store.failed("looking up the node's token", &error)),
        }
    }

    /// Makes what is missing of `scope`, and a new token for its one node.
    ///
    /// # Errors
    /// When the names belong to somebody else.
    pub async fn make_embedded_node(&self, scope: &Scope) -> Result<Secret, RunError> {
        let made = self.store.service.ensure_embedded(scope, EMBEDDED_NODE).await;
        made.map_err(|error| self.store.failed("setting up redsyn.scope", &error))
    }

    /// Registers the keys of the one node of an embedded relay, in place of others: who owns this folder owns both.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn adopt_keys(&self, token: &Secret, keys: KeyRegistration) -> Result<(), RunError> {
        let service = &self.store.service;
        let failed = |error| self.store.failed("registering the node's keys", &error);
        let caller = service.authenticate(token.expose()).await.map_err(failed)?;
        let keys = KeyRegistration { rotate: true, ..keys };
        service.register_key(&caller, keys).await.map(drop).map_err(failed)
    }

    /// Resolves when the relay ends by itself: only by a failure.
    ///
    /// # Errors
    /// Why it ended.
    pub async fn ended(&mut self) -> Result<(), RunError> {
        let Some(serving) = &mut self.serving else { return std::future::pending().await };
        let result = serving_result(serving.await);
        self.serving = None;
        result.and(Err(RunError::other("the relay ended by itself")))
    }

    /// Answers held calls empty, finishes what is under way, closes the store.
    ///
    /// # Errors
    /// When a part failed.
    pub async fn stop(self) -> Result<(), RunError> {
        self.stop.cancel();
        let served = match self.serving {
            Some(serving) => serving_result(serving.await),
            None => Ok(()),
        };
        served.and(self.store.close().await)
    }
}

fn serving_result(ended: Result<std::io::Result<()>, tokio::task::JoinError>) -> Result<(), RunError> {
    match ended {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(RunError::other(format!("the relay ended: {error}"))),
        Err(error) => Err(RunError::other(format!("the relay failed: {error}"))),
    }
}
