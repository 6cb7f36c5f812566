//! Why a process does not start or did not end well, with the exit code that scripts see.

/// One clear sentence for a person, naming the thing and the way out.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RunError {
    /// The configuration is wrong: exit code 2.
    #[error("{0}")]
    Config(String),
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
            Self::Other(_) => 1,
        }
    }
}

impl From<crate::config::ConfigError> for RunError {
    fn from(error: crate::config::ConfigError) -> Self {
        Self::Config(error.to_string())
    }
}
