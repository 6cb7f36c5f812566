//! The store of a node that does not run, for the commands that work on all of it.

use std::path::Path;

use tokio_util::sync::CancellationToken;

use crate::config::{Config, Storage};
use crate::domain::random::SystemRandom;
use crate::runtime::data_folder::DataFolder;
use crate::runtime::error::RunError;
use crate::runtime::{local_store, signals};
use crate::store::sqlite::local::{Loaded, LocalStore};
use crate::store::sqlite::v2::V2Store;

pub(super) struct AtRest {
    pub(super) config: Config,
    pub(super) folder: DataFolder,
    pub(super) store: LocalStore,
    pub(super) v2_store: V2Store,
    /// What the JSONL store has found in its files.
    pub(super) loaded: Option<Loaded>,
    /// Cancelled by a signal.
    pub(super) stop: CancellationToken,
}

impl AtRest {
    /// `task` tells what cannot be done without a store.
    pub(super) fn open(file: &Path, task: &str) -> Result<Self, RunError> {
        let config = Config::load(file)?;
        if config.broker.storage == Storage::Memory {
            return Err(RunError::Config(format!(
                "{}: broker.persist is false, so there is {task}",
                file.display()
            )));
        }
        let stop = CancellationToken::new();
        signals::cancel_on_signal(stop.clone());
        let folder = DataFolder::open(&config.broker.data_dir, "broker.dataDir")?;
        let (store, loaded) = local_store::open(&config)?;
        let v2_store = V2Store::new(store.db().clone(), SystemRandom::shared());
        Ok(Self { config, folder, store, v2_store, loaded, stop })
    }

    /// Closes the store, whatever `result` is; the first error counts.
    pub(super) async fn close<T>(self, result: Result<T, RunError>) -> Result<T, RunError> {
        let closed =
            self.store.close().await.map_err(|error| RunError::other(format!("closing the store: {error}")));
        let result = result?;
        closed?;
        Ok(result)
    }
}
