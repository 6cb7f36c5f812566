//! Why a process does not start or did not end well, with the exit code that scripts see.

use std::path::Path;

use crate::store::StoreError;

/// One clear sentence for a person, naming the thing and the way out.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RunError {
    /// The configuration is wrong: exit code 2.
    #[error("{0}")]
    Config(String),
    /// A signal came before it was done. What was done is kept, and doing it again does the rest: exit code 1, but 0
    /// for a start, which is to end and does.
    #[error("{0}")]
    Stopped(String),
    /// Anything else: exit code 1.
    #[error("{0}")]
    Other(String),
}

impl RunError {
    pub fn other(text: impl Into<String>) -> Self {
        Self::Other(text.into())
    }

    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) => 2,
            Self::Stopped(_) | Self::Other(_) => 1,
        }
    }
}

impl From<crate::config::ConfigError> for RunError {
    fn from(error: crate::config::ConfigError) -> Self {
        Self::Config(error.to_string())
    }
}

/// A database that does not open, with the way out.
pub(super) fn cannot_open(error: &StoreError, folder: &Path) -> RunError {
    let way_out = match error {
        StoreError::Damaged(_) => "restore it from a copy, or move it away to start empty",
        StoreError::Full => "free some space",
        StoreError::Locked => "stop the other process",
        StoreError::ReadOnly(_) => "make it writable or choose another data folder",
        StoreError::Stopped | StoreError::Other(_) => "nothing in it was changed",
    };
    RunError::other(format!("cannot open the database in {}: {error}; {way_out}", folder.display()))
}
