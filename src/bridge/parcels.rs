//! Files and withdrawals, as the broker's clients ask for them.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use super::archive;
use super::carrier::{BridgeCarrier, unlisted};
use super::outbound::InFlight;
use crate::broker::busy;
use crate::broker::carrier::Parcels;
use crate::crypto::sha256;
use crate::domain::clock::SharedClock;
use crate::proto::dsh::error::{ApiError, Code};
use crate::proto::dsh::names::{AgentName, DshId, brief};
use crate::proto::dsh::v2::name::Name;
use crate::proto::redsyn::ids::{FILES_LIMIT, MessageId};
use crate::redsyn_client::RelayClient;
use crate::store::bridge::generation::Generation;
use crate::store::bridge::{Upload, Withdrawal};
use crate::store::sqlite::bridge::BridgeStore;

impl Parcels for BridgeCarrier {
    fn largest(&self) -> usize {
        FILES_LIMIT
    }

    fn agent_of(&self, name: &Name) -> Result<AgentName, ApiError> {
        self.names.get().caller(name).ok_or_else(|| unlisted(brief(name.as_str())))
    }

    fn upload(&self, agent: AgentName, zip: Vec<u8>) -> BoxFuture<'_, Result<String, ApiError>> {
        Box::pin(async move {
            archive::check(&zip)
                .map_err(|error| ApiError::bad_request(format!("the body is not taken: {error}")))?;
            let sha256 = sha256::hex(&zip);
            let upload = Upload { agent, sha256: sha256.clone(), zip, now: self.clock.now() };
            self.store.upload(upload).await.map_err(busy)?;
            Ok(sha256)
        })
    }

    fn files(&self, agent: AgentName, id: DshId) -> BoxFuture<'_, Result<Vec<u8>, ApiError>> {
        Box::pin(async move {
            let found = self.store.files(agent, id.to_string()).await.map_err(busy)?;
            let files = found.ok_or_else(ApiError::no_such_message)?;
            files.ok_or_else(|| ApiError::new(Code::NotFound, "the message has no files"))
        })
    }

    fn withdraw(&self, agent: AgentName, id: DshId) -> BoxFuture<'_, Result<(), ApiError>> {
        Box::pin(async move {
            match self.withdraw_in(agent.clone(), id.clone(), Generation::V1).await {
                Err(error) if error.code() == Code::NoSuchMessage => {
                    self.withdraw_in(agent, id, Generation::V2).await
                }
                done => done,
            }
        })
    }
}

impl BridgeCarrier {
    pub(super) async fn withdraw_in(
        &self,
        agent: AgentName,
        id: DshId,
        generation: Generation,
    ) -> Result<(), ApiError> {
        let withdrawing = Withdrawing {
            store: self.store.clone(),
            client: self.client.clone(),
            clock: Arc::clone(&self.clock),
            wake: Arc::clone(&self.wake),
            in_flight: self.in_flight.clone(),
        };
        // A client that goes away meanwhile must not leave the entry stopped.
        let withdrawn = tokio::spawn(async move { withdrawing.run(agent, id, generation).await });
        withdrawn.await.unwrap_or_else(|error| {
            tracing::error!(%error, "withdrawal_failed");
            Err(ApiError::busy())
        })
    }
}

/// What it takes to have a message back.
struct Withdrawing {
    store: BridgeStore,
    client: Option<RelayClient>,
    clock: SharedClock,
    wake: Arc<Notify>,
    in_flight: InFlight,
}

impl Withdrawing {
    async fn run(&self, agent: AgentName, id: DshId, generation: Generation) -> Result<(), ApiError> {
        let now = self.clock.now();
        let withdrawal = self.store.withdraw(agent.clone(), id.to_string(), generation, now);
        match withdrawal.await.map_err(busy)? {
            Withdrawal::Unknown => Err(ApiError::no_such_message()),
            Withdrawal::TooLate => Err(too_late()),
            Withdrawal::Asked { id, entry } => self.take_back(agent, id, entry).await,
        }
    }

    /// Asks the relay to forget it. An entry of the outbox is stopped already, but may be on its way still: whatever
    /// the relay says counts only after that.
    async fn take_back(&self, agent: AgentName, id: MessageId, entry: Option<i64>) -> Result<(), ApiError> {
        let Some(client) = &self.client else { return Err(ApiError::busy()) };
        if let Some(seq) = entry {
            let landed = self.in_flight.subscribe().wait_for(|entries| !entries.contains(&seq)).await.is_ok();
            if !landed {
                return Err(ApiError::busy());
            }
        }
        let refusal = match client.cancel(&id).await {
            Ok(()) => None,
            // It never came to the relay.
            Err(error) if error.status() == Some(404) && entry.is_some() => None,
            Err(error) => Some(error),
        };
        let Some(error) = refusal else {
            self.store.withdrawn(agent, id.clone(), self.clock.now()).await.map_err(busy)?;
            tracing::info!(id = ?brief(id.as_str()), "outbound_withdrawn");
            self.wake.notify_one();
            return Ok(());
        };
        if let Some(seq) = entry {
            self.store.go_on(seq, self.clock.now()).await.map_err(busy)?;
            self.wake.notify_one();
        }
        match error.status() {
            Some(403 | 404 | 409) => Err(too_late()),
            _ => {
                tracing::warn!(id = ?brief(id.as_str()), %error, "outbound_not_withdrawn");
                Err(ApiError::new(
                    Code::Busy,
                    "the relay does not answer: the message may still be taken; try again",
                ))
            }
        }
    }
}

fn too_late() -> ApiError {
    ApiError::new(
        Code::Conflict,
        "the message cannot be withdrawn: it is no request, or somebody has taken it",
    )
}
