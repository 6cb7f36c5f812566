//! For tests: a store in each place where it can keep things, and its restart.

use super::local::LocalStore;

/// Where a store keeps things.
#[derive(Debug)]
pub(crate) enum Kept {
    Memory,
    Database(tempfile::TempDir),
    Lines(tempfile::TempDir),
}

impl Kept {
    pub(crate) fn in_database() -> Self {
        Self::Database(tempfile::tempdir().unwrap())
    }

    pub(crate) fn in_lines() -> Self {
        Self::Lines(tempfile::tempdir().unwrap())
    }

    pub(crate) fn open(&self) -> LocalStore {
        match self {
            Self::Memory => LocalStore::in_memory(),
            Self::Database(folder) => LocalStore::open(folder.path()),
            Self::Lines(folder) => LocalStore::open_jsonl(folder.path()).map(|(store, _)| store),
        }
        .unwrap()
    }

    /// Closes the store and opens it again.
    pub(crate) async fn reopen(&self, store: &mut LocalStore) {
        store.clone().close().await.unwrap();
        *store = self.open();
    }

    /// What is in memory has no second life.
    pub(crate) const fn forgets(&self) -> bool {
        matches!(self, Self::Memory)
    }
}
