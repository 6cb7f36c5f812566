//! The zips that wait for delivery: one file each, written and synced before its message is committed, removed
//! after the commit that finishes it. What a crash leaves over is removed at the next start.

use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::crypto::sha256;
use crate::domain::random::SharedRandom;
use crate::store::{StoreError, disk};

statements! {
    NAME_OF = "
        SELECT files.name FROM files JOIN messages ON messages.seq = files.message
        WHERE messages.id = ?1";
}

const NAMES: &str = "SELECT name FROM files";

/// Names of all files that messages still need. Read once, at start.
pub(super) fn known_names(conn: &Connection) -> Result<HashSet<String>, StoreError> {
    let mut names = conn.prepare(NAMES)?;
    let names = names.query_map([], |row| row.get(0))?;
    Ok(names.collect::<rusqlite::Result<_>>()?)
}

/// The name of the file that belongs to a message, while it waits.
pub(super) fn name_of(conn: &Connection, id: &str) -> super::Result<Option<String>> {
    super::one(conn, NAME_OF, [id], |row| row.get(0))
}

/// A file that lies in the folder and belongs to no message yet.
#[derive(Debug, Clone)]
pub(super) struct KeptFile {
    pub(super) name: String,
    pub(super) bytes: i64,
    pub(super) sha256: String,
}

#[derive(Debug)]
pub(super) struct FileFolder {
    path: PathBuf,
}

impl FileFolder {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        std::fs::create_dir_all(path).map_err(|error| StoreError::io("create", path, &error))?;
        Ok(Self { path: path.to_owned() })
    }

    pub(super) async fn names(&self) -> Result<Vec<String>, StoreError> {
        let path = self.path.clone();
        blocking(move || {
            let entries = std::fs::read_dir(&path).map_err(|error| StoreError::io("list", &path, &error))?;
            let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            Ok(names.collect())
        })
        .await
    }

    /// Writes `zip` under a name of its own. Durable when this returns.
    pub(super) async fn keep(&self, zip: Vec<u8>, random: &SharedRandom) -> Result<KeptFile, StoreError> {
        let name = random.hex::<16>();
        let path = self.path.join(&name);
        blocking(move || {
            if let Err(error) = write_synced(&path, &zip) {
                // Half a file must not use up the disk that was too full for it.
                let _ = std::fs::remove_file(&path);
                return Err(error);
            }
            let bytes = i64::try_from(zip.len()).unwrap_or(i64::MAX);
            Ok(KeptFile { name, bytes, sha256: sha256::hex(&zip) })
        })
        .await
    }

    pub(super) async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.path.join(name);
        blocking(move || match std::fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io("read", &path, &error)),
        })
        .await
    }

    /// Removes files no message needs. One that stays behind is removed at the next start.
    pub(super) async fn remove(&self, names: Vec<String>) {
        if names.is_empty() {
            return;
        }
        let paths: Vec<PathBuf> = names.iter().map(|name| self.path.join(name)).collect();
        let removed = blocking(move || {
            for path in paths {
                if let Err(error) = std::fs::remove_file(&path) {
                    tracing::warn!(%error, "relay_file_not_removed");
                }
            }
            Ok(())
        });
        if let Err(error) = removed.await {
            tracing::warn!(%error, "relay_files_not_removed");
        }
    }
}

/// What people send each other is for nobody else on this machine. The name must survive a crash, too.
fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let failed = |error| StoreError::io("write", path, &error);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    disk::private(&mut options);
    let mut file = options.open(path).map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    disk::sync_folder_of(path)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|error| StoreError::Other(error.to_string())).flatten();
    // A full disk is told of once by the database beside it.
    done.inspect_err(|error| match error {
        StoreError::Full => {}
        error => tracing::error!(%error, "relay_files_failed"),
    })
}
