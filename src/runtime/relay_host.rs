//! A REDSYN relay of this process: embedded beside a broker, hosted for an organisation, or set up for the demo.

use std::net::SocketAddr;
use std::path::Path;

use super::error::RunError;
use crate::config::redsyn::Scope;
use crate::crypto::secret::Secret;
use crate::domain::clock::SharedClock;
use crate::domain::random::SharedRandom;

#[derive(Debug)]
pub struct RelayHost {}

impl RelayHost {
    pub async fn start(
        _data: &Path,
        _listen: &str,
        _setting: &str,
        _clock: SharedClock,
        _random: SharedRandom,
    ) -> Result<Self, RunError> {
        Err(RunError::other("x"))
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    pub async fn add_person(&self, _email: &str, _plan: &str, _node: &str) -> Result<Secret, RunError> {
        Err(RunError::other("x"))
    }

    pub async fn knows(&self, _token: &Secret) -> Result<bool, RunError> {
        Err(RunError::other("x"))
    }

    pub async fn make_embedded_node(&self, _scope: &Scope) -> Result<Secret, RunError> {
        Err(RunError::other("x"))
    }

    pub async fn stop(self) -> Result<(), RunError> {
        Ok(())
    }
}
