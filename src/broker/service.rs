//! What the broker does, request by request, without the network: it decides, the store keeps, the carrier carries.
//!
//! Every change is one call of the store or of the carrier, each of them one transaction. A client that disconnects
//! drops the future of its request; work that was handed over goes on, work that was not has never begun.

mod health;
mod measure;
mod receipt;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::access::{Access, CurrentAccess};
use super::auth::Auth;
use super::carrier::{Carrier, Route, Taker};
use super::held::{Look, held};
use super::metrics::Metrics;
use super::v2::V2;
use super::view;
use crate::config::Config;
use crate::crypto::secret::Secret;
use crate::domain::clock::{SharedClock, Timestamp};
use crate::domain::delivery::{AckRefused, LeaseId, Status};
use crate::domain::random::SharedRandom;
use crate::domain::wakeups::Wakeups;
use crate::intake::room::Room;
use crate::proto::dsh::error::{ApiError, Code};
use crate::proto::dsh::names::{AgentName, DshId, Party, brief, collate};
use crate::proto::dsh::v1::{self, answer, request};
use crate::store::StoreError;
use crate::store::local::{self, Acked, NewMessage, StoredMessage};
use crate::store::sqlite::local::LocalStore;
use crate::store::sqlite::v2::V2Store;

const IMPLEMENTATION: &str = concat!("redsyn-bridge/", env!("CARGO_PKG_VERSION"));

/// How many bytes of bodies are in memory at once: those of 64 of the longest messages.
const ROOM: usize = 64 * 1024 * 1024;

#[derive(Debug)]
pub struct Service {
    pub(super) auth: Auth,
    pub(super) v2: V2,
    pub(super) clock: SharedClock,
    pub(super) store: LocalStore,
    random: SharedRandom,
    pub(super) carrier: Arc<dyn Carrier>,
    access: Arc<CurrentAccess>,
    host: String,
    lease_seconds: u32,
    max_attempts: u32,
    pub(super) message_ttl: Duration,
    pub(super) wakeups: Wakeups<AgentName>,
    pub(super) metrics: Metrics,
    pub(super) room: Room,
    /// `/metrics` answers everybody, not only this machine.
    remote_metrics: bool,
    /// Held calls are answered empty, at once.
    pub(super) stopping: CancellationToken,
}

/// What the store could not do. The store has logged why; the client is told to come back, and when that will take
/// more than time.
pub fn busy(error: StoreError) -> ApiError {
    match error {
        StoreError::Full => {
            ApiError::new(Code::Busy, "the broker's disk is full: it keeps nothing until there is room")
        }
        StoreError::ReadOnly(_) => ApiError::new(Code::Busy, "the broker may not write its files"),
        _ => ApiError::busy(),
    }
}

impl Service {
    /// `wakeups` is rung by whoever else puts mail into a local inbox. `secret` is the shared one; it opens nothing when agents have secrets of their own.
    pub fn new(
        config: &Config,
        secret: Secret,
        store: LocalStore,
        clock: SharedClock,
        random: SharedRandom,
        carrier: Arc<dyn Carrier>,
        wakeups: Wakeups<AgentName>,
    ) -> Self {
        let access = Arc::new(CurrentAccess::new(Access::new(config, &secret)));
        let stopping = CancellationToken::new();
        let v2_store = V2Store::new(store.db().clone(), random.clone());
        Self {
            auth: Auth::new(config, access.clone(), clock.clone()),
            v2: V2::new(
                config,
                access.clone(),
                v2_store,
                clock.clone(),
                random.clone(),
                stopping.clone(),
                carrier.clone(),
            ),
            access,
            host: config.broker.host.clone(),
            lease_seconds: config.broker.lease_seconds,
            max_attempts: config.broker.max_attempts,
            message_ttl: config.broker.message_ttl,
            wakeups,
            metrics: Metrics::default(),
            room: Room::new(ROOM),
            remote_metrics: config.remote_metrics,
            stopping,
            store,
            clock,
            random,
            carrier,
        }
    }

    /// Lets `access` count from now on. Held calls go on, but for those of agents whose secret or key has gone: they are
    /// answered empty.
    pub fn admit(&self, access: Access) {
        self.access.replace(access);
        self.wakeups.wake_all();
        self.v2.access_changed();
    }

    /// By which name, or address, it is told to listen.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn about(&self) -> answer::About {
        answer::About {
            protocol: v1::PROTOCOL,
            broker: v1::BROKER,
            version: v1::RELEASE,
            capabilities: answer::Capabilities {
                lease_delivery: true,
                request_reply: true,
                filtered_query: true,
                sqlite_persistence: true,
            },
            storage: self.store.storage(),
            implementation: IMPLEMENTATION,
        }
    }

    /// # Errors
    /// `forbidden` for the name of a contact, whose mail would come here; `busy` when the store fails, as everywhere
    /// below.
    pub async fn register(&self, agent: AgentName) -> Result<answer::Registered, ApiError> {
        self.is_no_contact(&agent)?;
        let now = self.clock.now();
        self.store.register(agent.clone(), now).await.map_err(busy)?;
        self.carrier.touched(&agent).await;
        tracing::debug!(%agent, "agent_registered");
        Ok(answer::Registered { ok: true, agent, ts: now.secs() })
    }

    fn is_no_contact(&self, agent: &AgentName) -> Result<(), ApiError> {
        if self.carrier.route(agent, agent.as_str()) == Route::Away {
            return Err(is_a_contact(agent.as_str()));
        }
        Ok(())
    }

    /// # Errors
    /// `busy`.
    pub async fn peers(&self) -> Result<answer::Peers, ApiError> {
        let mut peers = self.store.peers(self.clock.now().minus(v1::ONLINE)).await.map_err(busy)?;
        for remote in self.carrier.peers().await {
            // A bare name is always the local agent's.
            if peers.iter().all(|known| known.agent != remote.agent) {
                peers.push(remote);
            }
        }
        peers.sort_by(|a, b| collate(a.agent.as_str(), b.agent.as_str()));
        Ok(answer::Peers { peers: peers.into_iter().map(view::peer).collect() })
    }

    /// # Errors
    /// `forbidden` by the ACL or for the name of a contact, `no_such_agent`, or what the carrier refuses.
    pub async fn send(&self, from: AgentName, request: request::Send) -> Result<answer::Accepted, ApiError> {
        self.is_no_contact(&from)?;
        let to = request.to.clone();
        if !self.access.get().acl.allows(&from, &to, &self.carrier.known_as(&from, &to)) {
            let text = format!("agent \"{from}\" is not allowed to send to \"{to}\"");
            return Err(ApiError::new(Code::Forbidden, text));
        }
        let mut message = self.message(&from, request);
        let (id, kind) = (message.id.clone(), message.kind.as_str());
        // A bare name is always the local agent's, whatever the carrier calls so too.
        let route = self.carrier.route(&from, &to);
        let with_files = names_files(message.redsyn.as_ref());
        if route != Route::Away && self.carrier.parcels().is_some() && with_files {
            return Err(no_files_here());
        }
        let (local, carried) = match route {
            Route::Local => (AgentName::parse(&to), None),
            Route::LocalAs(agent) if agent == from => {
                return Err(ApiError::bad_request("cannot send to yourself"));
            }
            Route::LocalAs(agent) => {
                message.to = Party::from(&agent);
                (Some(agent), None)
            }
            Route::Away => (AgentName::parse(&to), Some(message.clone())),
        };
        let local = match local {
            Some(agent) => {
                let (wakeups, inbox) = (self.wakeups.clone(), agent.clone());
                self.store.send(message, agent, move |_| wakeups.wake(&inbox)).await.map_err(busy)?
            }
            None => None,
        };
        let sent = match (local, carried) {
            (Some(sent), _) => sent,
            (None, Some(message)) => self.carrier.send(message).await?,
            (None, None) => {
                let text = format!("recipient \"{to}\" has never registered");
                return Err(ApiError::new(Code::NoSuchAgent, text));
            }
        };
        tracing::info!(id = ?brief(id.as_str()), %from, to = ?brief(&to), kind, duplicate = sent.duplicate, "message_accepted");
        Ok(answer::Accepted { accepted: true, id: sent.id, duplicate: sent.duplicate })
    }

    fn message(&self, from: &AgentName, request: request::Send) -> NewMessage {
        let now = self.clock.now();
        let id = request.id.unwrap_or_else(|| DshId::new(self.random.uuid_at(now.millis())));
        let blank = NewMessage::new(id, from, Party::new(request.to), now);
        NewMessage {
            message_type: request.message_type,
            kind: request.kind,
            body: request.body,
            reply_to: request.reply_to,
            root_id: request.root_id,
            parent_id: request.parent_id,
            ack: request.ack,
            redsyn: request.redsyn,
            ..blank
        }
    }

    /// # Errors
    /// `busy`.
    pub async fn poll(
        &self,
        agent: AgentName,
        since: Option<DshId>,
        limit: u32,
    ) -> Result<answer::Polled, ApiError> {
        self.carrier.takes(Taker::V1(&agent)).await;
        let poll = local::Poll { agent, since, limit, now: self.clock.now() };
        let polled = self.store.poll(poll).await.map_err(busy)?;
        Ok(answer::Polled { messages: view::envelopes(polled.messages), cursor: polled.cursor })
    }

    /// Leases what waits. With a wait, the call is held until something does; it subscribes before it looks.
    ///
    /// # Errors
    /// `busy`.
    pub async fn pull(&self, agent: AgentName, request: request::Pull) -> Result<answer::Messages, ApiError> {
        self.carrier.takes(Taker::V1(&agent)).await;
        let wait = Duration::from_secs(request.wait_seconds.into());
        let subscription = self.wakeups.subscribe(agent.clone());
        let look = || self.lease(&agent, request);
        let before = self.access.get();
        let may = || self.access.get().still_admits(&agent, &before);
        let leased = held(&self.clock, &self.stopping, &subscription, wait, (may, look)).await?;
        Ok(view::envelopes(leased).into())
    }

    async fn lease(
        &self,
        agent: &AgentName,
        request: request::Pull,
    ) -> Result<Look<StoredMessage>, ApiError> {
        let now = self.clock.now();
        let seconds = request.lease_seconds.unwrap_or(self.lease_seconds);
        let until = now.plus(Duration::from_secs(seconds.into()));
        let pull = local::Pull { agent: agent.clone(), limit: request.limit, now, until };
        let pulled = self.store.pull(pull, self.random.clone()).await.map_err(busy)?;
        for message in &pulled.messages {
            tracing::info!(id = ?brief(message.message.id.as_str()), %agent, "message_leased");
        }
        Ok(Look { found: pulled.messages, again: pulled.lease_end })
    }

    /// # Errors
    /// `no_such_message`, `forbidden`, `not_leased` or `lease_mismatch`.
    pub async fn ack(
        &self,
        agent: AgentName,
        request: request::Ack,
    ) -> Result<answer::Acknowledged, ApiError> {
        let id = request.id.clone();
        let ack = local::Ack {
            agent: agent.clone(),
            id: request.id,
            lease_id: LeaseId::new(request.lease_id),
            outcome: request.outcome,
            error: request.error,
            max_attempts: self.max_attempts,
            now: self.clock.now(),
        };
        let (wakeups, carrier, acker) = (self.wakeups.clone(), Arc::clone(&self.carrier), agent.clone());
        let then = move |acked: &Acked| match acked {
            Acked::Settled { status: Status::Queued, .. } => wakeups.wake(&acker),
            Acked::Settled { status: Status::Failed, .. } => carrier.ended(),
            _ => {}
        };
        match self.store.ack(ack, then).await.map_err(busy)? {
            Acked::Settled { status, attempts } => {
                tracing::info!(id = ?brief(id.as_str()), %agent, status = status.as_str(), attempts, "message_acked");
                Ok(answer::Acknowledged { ok: true, status: status.as_str(), attempts })
            }
            Acked::UnknownMessage => Err(ApiError::no_such_message()),
            Acked::NotRecipient => Err(not_recipient()),
            Acked::Refused(why @ AckRefused::NotLeased) => {
                Err(ApiError::new(Code::NotLeased, why.to_string()))
            }
            Acked::Refused(why @ AckRefused::LeaseMismatch) => {
                Err(ApiError::new(Code::LeaseMismatch, why.to_string()))
            }
        }
    }

    /// # Errors
    /// `busy`.
    pub async fn status(&self, agent: AgentName, ids: Vec<String>) -> Result<answer::Statuses, ApiError> {
        let lines = self.store.status(agent, ids).await.map_err(busy)?;
        Ok(answer::Statuses { messages: lines.into_iter().map(view::status).collect() })
    }

    /// # Errors
    /// `busy`.
    pub async fn recent(&self, agent: AgentName, limit: u32) -> Result<answer::Messages, ApiError> {
        let recent = self.store.recent(agent, limit).await.map_err(busy)?;
        Ok(view::envelopes(recent).into())
    }

    /// # Errors
    /// `busy`.
    pub async fn query(
        &self,
        agent: AgentName,
        request: request::Query,
    ) -> Result<answer::Messages, ApiError> {
        let request::Query { limit, kind, status, from, to } = request;
        let query = local::Query { agent, limit, kind, status, from, to };
        Ok(view::envelopes(self.store.query(query).await.map_err(busy)?).into())
    }

    /// The moment before which messages are too old to keep.
    pub(super) fn too_old(&self, now: Timestamp) -> Timestamp {
        now.minus(self.message_ttl)
    }
}

/// Nobody here passes for a contact: what is meant for them leaves, and what comes from them comes from outside.
pub(super) fn is_a_contact(name: &str) -> ApiError {
    let text = format!("\"{}\" is a contact beyond this machine: choose another name", brief(name));
    ApiError::new(Code::Forbidden, text)
}

fn not_recipient() -> ApiError {
    ApiError::new(Code::Forbidden, "only the recipient may acknowledge this message")
}

/// Whether the sender wants files to go along.
pub(super) fn names_files(redsyn: Option<&Value>) -> bool {
    redsyn.and_then(|redsyn| redsyn.get("files")).is_some_and(|files| !files.is_null())
}

/// The mailbox of this machine has no place for them, and to drop them in silence would lose them.
pub(super) fn no_files_here() -> ApiError {
    ApiError::bad_request("files travel to other nodes only: leave out redsyn.files")
}
