//! What is only read.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{V2, view};
use crate::broker::service::busy;
use crate::domain::clock::Timestamp;
use crate::proto::dsh::error::ApiError;
use crate::proto::dsh::names::AgentName;
use crate::proto::dsh::v1;
use crate::proto::dsh::v2::name::Name;
use crate::proto::dsh::v2::{self, answer, request};
use crate::store::StoreError;
use crate::store::local::Load;
use crate::store::v2::Query;

/// How far back `/v1/recent` looks.
pub(super) const RECENT: Duration = Duration::from_secs(7 * 86_400);

impl V2 {
    /// # Errors
    /// `busy`.
    pub async fn status(
        &self,
        agent: Name,
        ids: Vec<String>,
    ) -> Result<answer::Messages<answer::Status>, ApiError> {
        let lines = self.store.status(agent, ids).await.map_err(busy)?;
        Ok(answer::Messages { messages: lines.into_iter().map(view::status).collect() })
    }

    /// # Errors
    /// `busy`.
    pub async fn recent(
        &self,
        agent: Name,
        limit: u32,
    ) -> Result<answer::Messages<answer::Summary>, ApiError> {
        let query = Query::all(agent, self.clock.now().minus(RECENT), limit);
        let found = self.store.query(query).await.map_err(busy)?;
        Ok(answer::Messages { messages: found.into_iter().map(view::summary).collect() })
    }

    /// # Errors
    /// `busy`.
    pub async fn query(&self, agent: Name, request: request::Query) -> Result<answer::Own, ApiError> {
        let request::Query { limit, message_id: id, root_id, origin, target, kind, status, topic, since } =
            request;
        // Saturates: whatever lies beyond our range lies beyond all messages.
        let since = Timestamp::from_millis((since.unwrap_or(0.0) * 1000.0).ceil() as i64);
        let query =
            Query { agent: agent.clone(), limit, since, id, root_id, origin, target, kind, status, topic };
        let found = self.store.query(query).await.map_err(busy)?;
        Ok(answer::Own { agent, messages: found.into_iter().map(view::with_body).collect() })
    }

    /// # Errors
    /// `busy`.
    pub async fn unfinished(&self, agent: Name, limit: u32) -> Result<answer::Own, ApiError> {
        let found = self.store.unfinished(agent.clone(), limit).await.map_err(busy)?;
        Ok(answer::Own { agent, messages: found.into_iter().map(view::with_preview).collect() })
    }

    /// How much waits, in all inboxes together.
    ///
    /// # Errors
    /// When the store fails.
    pub(in crate::broker) async fn load(&self) -> Result<Load, StoreError> {
        self.store.load().await
    }

    /// At how many agents a pull is held or under way.
    pub(in crate::broker) fn pulling(&self) -> usize {
        self.bell.wakeups.held()
    }

    /// `agents` are those that `GET /healthz` names, in their order.
    ///
    /// # Errors
    /// `busy`.
    pub async fn health(
        &self,
        agents: Vec<AgentName>,
        storage: &'static str,
    ) -> Result<answer::Health, ApiError> {
        let names = agents.iter().map(|agent| Name::of(agent.as_str())).collect();
        let queues = self.store.queues(names).await.map_err(busy)?;
        let agents: Vec<_> = agents.iter().map(ToString::to_string).collect();
        let pulse = self.pulse();
        let last_pulls = pulse.last_pulls.iter().map(|(agent, at)| (agent.clone(), view::seconds(*at)));
        Ok(answer::Health {
            ok: true,
            protocol_version: v2::PROTOCOL_VERSION,
            broker: v1::BROKER,
            version: v1::RELEASE,
            storage,
            signature_schemes: v2::SIGNATURE_SCHEMES,
            queues: agents
                .iter()
                .cloned()
                .zip(queues.into_iter().map(view::queue))
                .collect::<BTreeMap<_, _>>(),
            agents,
            last_pull_at: last_pulls.collect(),
            counters: pulse.counters,
        })
    }
}
