//! Opens the local store that the configuration names, with errors that name the way out.

use super::error::{RunError, cannot_open};
use crate::config::{Config, Storage};
use crate::store::sqlite::local::{Loaded, LocalStore};

/// The store, and what the JSONL store has found in its files.
///
/// # Errors
/// One sentence naming the thing and the way out.
pub fn open(config: &Config) -> Result<(LocalStore, Option<Loaded>), RunError> {
    let folder = &config.broker.data_dir;
    let opened = match config.broker.storage {
        Storage::Memory => LocalStore::in_memory().map(|store| (store, None)),
        Storage::Sqlite => LocalStore::open(folder).map(|store| (store, None)),
        Storage::Jsonl => LocalStore::open_jsonl(folder).map(|(store, loaded)| (store, Some(loaded))),
    };
    opened.map_err(|error| cannot_open(&error, folder))
}
