//! `GET /healthz`: anybody may ask how the broker is.

use std::collections::BTreeSet;

use super::{Service, busy};
use crate::proto::dsh::error::ApiError;
use crate::proto::dsh::names::AgentName;
use crate::proto::dsh::v2::answer;

impl Service {
    /// Names the agents that have registered or are configured, in the order of their letters.
    ///
    /// # Errors
    /// `busy`, also while nothing can be written.
    pub async fn health(&self) -> Result<answer::Health, ApiError> {
        if let Some(trouble) = self.store.db().commits().trouble() {
            return Err(busy(trouble));
        }
        let registered = self.store.peers(self.clock.now()).await.map_err(busy)?;
        let mut agents: BTreeSet<AgentName> =
            registered.iter().filter_map(|peer| peer.agent.agent()).collect();
        agents.extend(self.access.get().configured.iter().cloned());
        self.v2.health(agents.into_iter().collect(), self.store.storage()).await
    }
}
