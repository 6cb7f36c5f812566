//! The keys of nodes (spec, «Firmas» and «Cifrado de extremo a extremo»).

use super::RelayError;
use super::service::Service;
use crate::proto::redsyn::address::AgentAddress;
use crate::proto::redsyn::keys::{KeyAnswer, KeyRegistration};
use crate::store::relay::Caller;

/// What `PUT /nodes/key` answers.
#[derive(Debug, Clone)]
pub struct Registered {
    pub key: KeyRegistration,
    pub fingerprint: String,
}

impl Service {
    /// `PUT /nodes/key`. An `enc_key` must come with the signing key's word for it.
    ///
    /// # Errors
    /// When a key is malformed, `enc_sig` does not hold, or another key is registered and `rotate` is missing.
    pub async fn register_key(
        &self,
        caller: &Caller,
        key: KeyRegistration,
    ) -> Result<Registered, RelayError> {
        let (signing_key, _) = key.check().map_err(|error| RelayError::invalid(error.to_string()))?;
        let key = KeyRegistration {
            enc_key: key.enc_key.filter(|text| !text.is_empty()),
            enc_sig: key.enc_sig.filter(|text| !text.is_empty()),
            ..key
        };
        let key = self.store.register_key(caller.node, key, self.now()).await?;
        tracing::info!(node = %caller.node, "relay_key_registered");
        Ok(Registered { key, fingerprint: signing_key.fingerprint() })
    }

    /// `GET /agents/{…}/key`.
    ///
    /// # Errors
    /// When the caller may not see the agent, or it has no key.
    pub async fn key(&self, caller: &Caller, agent: AgentAddress) -> Result<KeyAnswer, RelayError> {
        Ok(self.store.serve_key(caller.person, agent).await?)
    }
}
