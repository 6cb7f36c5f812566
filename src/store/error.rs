//! The one error of the store layer: what a caller can decide on.

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
