//! The one error of the store layer: what a caller can decide on.

use std::io::{Error, ErrorKind};
use std::path::Path;

/// Why the store could not do what it was asked. The transaction was rolled back: nothing of it remains.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    #[error("the disk is full")]
    Full,
    #[error("the database is locked by another process")]
    Locked,
    #[error("the database cannot be written: {0}")]
    ReadOnly(String),
    #[error("the database is damaged: {0}")]
    Damaged(String),
    #[error("the store has stopped")]
    Stopped,
    #[error("{0}")]
    Other(String),
}

impl StoreError {
    /// A file could not be read or written; `what` says what was tried.
    pub(super) fn io(what: &str, path: &Path, error: &Error) -> Self {
        match error.kind() {
            // A quota and a limit on the size of files are full disks in all that matters.
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => Self::Full,
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                Self::ReadOnly(format!("cannot {what} {}: {error}", path.display()))
            }
            _ => Self::Other(format!("cannot {what} {}: {error}", path.display())),
        }
    }
}
