//! `GET /metrics`: what the process counts and what its store holds.

use std::net::IpAddr;

use super::{Service, busy};
use crate::broker::metrics::Observed;
use crate::domain::nearby::is_nearby;
use crate::proto::dsh::error::ApiError;

impl Service {
    /// Whether a call may see the numbers: it comes from this machine, or the configuration lets everybody.
    pub fn shows_metrics(&self, peer: Option<IpAddr>, has_header: impl Fn(&str) -> bool) -> bool {
        self.remote_metrics || peer.is_some_and(|peer| is_nearby(peer, has_header))
    }

    /// The text format of Prometheus.
    ///
    /// # Errors
    /// `busy`.
    pub async fn measured(&self) -> Result<String, ApiError> {
        let loads = [self.store.load().await.map_err(busy)?, self.v2.load().await.map_err(busy)?];
        let now = self.clock.now();
        Ok(self.metrics.to_text(&Observed {
            ages: loads.map(|load| load.oldest_queued.map(|at| now.since(at)).unwrap_or_default()),
            loads,
            pulling: [self.wakeups.held(), self.v2.pulling()],
            bodies: self.room.used(),
            commits: self.store.db().commits(),
            carried: self.carrier.carried().await.map_err(busy)?,
        }))
    }
}
