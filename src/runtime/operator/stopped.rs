//! An operator for a node that does not run.

use std::sync::Arc;

use super::Operator;
use crate::bridge::decisions::Decisions;
use crate::bridge::names::{CurrentNames, Names};
use crate::config::Config;
use crate::config::redsyn::RedsynConfig;
use crate::domain::clock::SharedClock;
use crate::domain::random::SharedRandom;
use crate::runtime::data_folder::DataFolder;
use crate::runtime::error::RunError;
use crate::runtime::key_files::KeyFiles;
use crate::runtime::{admin, local_store};
use crate::store::sqlite::bridge::BridgeStore;
use crate::store::sqlite::local::LocalStore;

impl Operator {
    /// For who holds the lock of the data folder.
    ///
    /// # Errors
    /// When the store cannot be opened.
    pub fn of_stopped(
        config: &Config,
        folder: &DataFolder,
        clock: SharedClock,
        random: SharedRandom,
    ) -> Result<Self, RunError> {
        admin::remove_stale(folder);
        let (local, _) = local_store::open(config)?;
        Ok(Self {
            decisions: decisions(config.redsyn.as_ref(), &local, &clock),
            local,
            keys: KeyFiles::new(folder.path()),
            clock,
            random,
            relay: config.redsyn.as_ref().map(|redsyn| redsyn.relay.clone()),
            live: None,
        })
    }
}

/// Decisions on the store alone.
pub(in crate::runtime) fn decisions(
    redsyn: Option<&RedsynConfig>,
    store: &LocalStore,
    clock: &SharedClock,
) -> Decisions {
    let names = redsyn.map(Names::new).unwrap_or_default();
    let store = BridgeStore::new(store.db().clone());
    Decisions::without_pumps(store, Arc::new(CurrentNames::new(names)), Arc::clone(clock))
}
