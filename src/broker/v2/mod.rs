//! What the broker does for the second generation, request by request, without the network.

pub mod auth;
mod create;
mod lookup;
mod pulse;
#[cfg(test)]
mod tests;
mod view;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use self::pulse::Pulse;
use super::access::CurrentAccess;
use super::carrier::{Carrier, Route, Taker};
use super::held::{Look, held};
use super::service::{busy, is_a_contact};
use crate::config::Config;
use crate::domain::clock::{SharedClock, Timestamp};
use crate::domain::delivery::LeaseId;
use crate::domain::random::SharedRandom;
use crate::domain::v2::delivery::LeaseRefused;
use crate::domain::wakeups::Wakeups;
use crate::proto::dsh::error::{ApiError, Code};
use crate::proto::dsh::names::{DshId, brief};
use crate::proto::dsh::v2::name::Name;
use crate::proto::dsh::v2::{answer, request};
use crate::store::StoreError;
use crate::store::sqlite::v2::V2Store;
use crate::store::v2::{Ack, Acked, Action, Manage, Managed, Pull, Renew, Rules, StoredMessage, Swept};

/// How long what is finished is kept.
const KEPT: Duration = Duration::from_secs(30 * 86_400);

#[derive(Debug)]
pub struct V2 {
    access: Arc<CurrentAccess>,
    store: V2Store,
    clock: SharedClock,
    random: SharedRandom,
    lease_seconds: u32,
    rules: Rules,
    bell: Bell,
    pulse: Mutex<Pulse>,
    stopping: CancellationToken,
    carrier: Arc<dyn Carrier>,
}

/// Tells whoever waits what a commit has brought them.
#[derive(Clone, Debug)]
struct Bell {
    wakeups: Wakeups<Name>,
    carrier: Arc<dyn Carrier>,
}

impl Bell {
    fn wake(&self, agent: &Name) {
        self.wakeups.wake(agent);
    }

    /// Wakes whoever has mail because messages have ended or went back; their senders may be beyond the machine.
    fn ended(&self, woken: &[Name]) {
        for agent in woken {
            self.wake(agent);
        }
        if !woken.is_empty() {
            self.carrier.ended();
        }
    }
}

impl V2 {
    pub fn new(
        config: &Config,
        access: Arc<CurrentAccess>,
        store: V2Store,
        clock: SharedClock,
        random: SharedRandom,
        stopping: CancellationToken,
        carrier: Arc<dyn Carrier>,
    ) -> Self {
        Self {
            access,
            lease_seconds: config.broker.lease_seconds.max(request::SHORTEST_LEASE),
            rules: Rules {
                max_attempts: config.broker.max_attempts,
                notify: config.broker.notify_failed_to_sender,
            },
            bell: Bell { wakeups: carrier.wakeups_v2(), carrier: Arc::clone(&carrier) },
            carrier,
            pulse: Mutex::default(),
            store,
            clock,
            random,
            stopping,
        }
    }

    /// There is no registering in this generation: an agent takes its name by taking mail or sending under it.
    fn is_no_contact(&self, agent: &Name) -> Result<(), ApiError> {
        if self.carrier.route_v2(agent, agent) == Route::Away {
            return Err(is_a_contact(agent.as_str()));
        }
        Ok(())
    }

    /// Leases what waits. With a wait, the call is held until something does; it subscribes before it looks.
    ///
    /// # Errors
    /// `forbidden` for the name of a contact; `busy` when the store fails, as everywhere below.
    pub async fn pull(
        &self,
        agent: Name,
        request: request::Pull,
    ) -> Result<answer::Messages<answer::Delivered>, ApiError> {
        self.is_no_contact(&agent)?;
        let now = self.clock.now();
        self.pulse().pulled(&agent, now);
        self.carrier.takes(Taker::V2(&agent)).await;
        let wait = Duration::from_secs(request.wait_seconds.into());
        let subscription = self.bell.wakeups.subscribe(agent.clone());
        let look = || self.lease(&agent, request);
        let before = self.access.get();
        let may = || self.access.get().still_admits_v2(&agent, &before);
        let leased = held(&self.clock, &self.stopping, &subscription, wait, (may, look)).await?;
        Ok(answer::Messages { messages: leased.into_iter().filter_map(view::delivered).collect() })
    }

    async fn lease(&self, agent: &Name, request: request::Pull) -> Result<Look<StoredMessage>, ApiError> {
        let now = self.clock.now();
        let until = self.lease_end(now, request.lease_seconds);
        let pull = Pull { agent: agent.clone(), limit: request.limit, now, until, rules: self.rules };
        let bell = self.bell.clone();
        let pulled = self.store.pull(pull, move |pulled| bell.ended(&pulled.woken)).await.map_err(busy)?;
        for message in &pulled.messages {
            tracing::info!(id = ?brief(message.message.id.as_str()), agent = ?brief(agent.as_str()), "v2_message_leased");
        }
        Ok(Look { found: pulled.messages, again: pulled.lease_end })
    }

    fn lease_end(&self, now: Timestamp, seconds: Option<u32>) -> Timestamp {
        now.plus(Duration::from_secs(seconds.unwrap_or(self.lease_seconds).into()))
    }

    /// # Errors
    /// `forbidden`, `bad_request` or `lease_mismatch`.
    pub async fn ack(&self, agent: Name, request: request::Ack) -> Result<answer::Acknowledged, ApiError> {
        let id = request.id.clone();
        let ack = Ack {
            agent: agent.clone(),
            id: request.id,
            lease_token: request.lease_token.map(LeaseId::new),
            outcome: request.outcome,
            error: request.error,
            now: self.clock.now(),
            rules: self.rules,
        };
        let bell = self.bell.clone();
        let then = move |acked: &Acked| {
            if let Acked::Settled { woken, .. } = acked {
                bell.ended(woken);
            }
        };
        match self.store.ack(ack, then).await.map_err(busy)? {
            Acked::Settled { delivery, .. } => {
                let (status, attempts) = (delivery.status().as_str(), delivery.attempts);
                tracing::info!(id = ?brief(id.as_str()), agent = ?brief(agent.as_str()), status, attempts, "v2_message_acked");
                Ok(answer::Acknowledged { ok: true })
            }
            Acked::NotAssigned => {
                Err(ApiError::new(Code::Forbidden, "message is not assigned to this agent"))
            }
            Acked::Refused(why) => Err(refused(why)),
            Acked::InvalidOutcome => Err(ApiError::bad_request("invalid acknowledgement outcome")),
        }
    }

    /// # Errors
    /// `lease_mismatch`.
    pub async fn renew(&self, agent: Name, request: request::Renew) -> Result<answer::Renewed, ApiError> {
        let now = self.clock.now();
        let until = self.lease_end(now, request.lease_seconds);
        let lease_token = LeaseId::new(request.lease_token);
        let renew = Renew { agent, id: request.id, lease_token, now, until };
        self.store.renew(renew).await.map_err(busy)?.map_err(refused)?;
        Ok(answer::Renewed { ok: true, lease_until: view::seconds(until) })
    }

    /// # Errors
    /// `no_such_message` or `forbidden`.
    pub async fn manage(&self, agent: Name, action: Action, id: DshId) -> Result<answer::Managed, ApiError> {
        let is_admin = self.access.get().admins.contains(&agent);
        let manage = Manage { action, agent: agent.clone(), id: id.clone(), is_admin, now: self.clock.now() };
        let (not_allowed, other_state) = match action {
            Action::Requeue => (
                "only the receiving agent may requeue an unfinished request",
                "message is not in a requeue-able state",
            ),
            Action::Cancel => {
                ("only the requesting agent may cancel its request", "message is not in a cancellable state")
            }
        };
        let bell = self.bell.clone();
        let then = move |managed: &Managed| {
            if let Managed::Done { woken: Some(woken) } = managed {
                bell.wake(woken);
            }
        };
        match self.store.manage(manage, then).await.map_err(busy)? {
            Managed::Done { .. } => {
                tracing::info!(id = ?brief(id.as_str()), agent = ?brief(agent.as_str()), ?action, "v2_message_managed");
                Ok(answer::Managed { ok: true, message_id: id })
            }
            Managed::UnknownMessage => Err(ApiError::new(Code::NoSuchMessage, "message was not found")),
            Managed::NotAllowed => Err(ApiError::new(Code::Forbidden, not_allowed)),
            Managed::Away if action == Action::Cancel => {
                self.carrier.withdraw_v2(agent, id.clone()).await?;
                Ok(answer::Managed { ok: true, message_id: id })
            }
            Managed::OtherState | Managed::Away => Err(ApiError::new(Code::NoSuchMessage, other_state)),
        }
    }

    /// Sweeps a part, and wakes whoever has mail because of it.
    pub(super) async fn sweep(&self) -> Result<Swept, StoreError> {
        let now = self.clock.now();
        let swept = self.store.sweep(now, now.minus(KEPT), self.rules).await?;
        self.bell.ended(&swept.woken);
        Ok(swept)
    }

    /// Whoever waits looks whether it still may.
    pub(super) fn access_changed(&self) {
        self.bell.wakeups.wake_all();
    }

    /// The counts stay consistent whatever panics while they are held, so a poisoned lock is as good as another.
    fn pulse(&self) -> MutexGuard<'_, Pulse> {
        self.pulse.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused(why: LeaseRefused) -> ApiError {
    match why {
        LeaseRefused::NotLeased => ApiError::bad_request(why.to_string()),
        LeaseRefused::Mismatch => ApiError::new(Code::LeaseMismatch, why.to_string()),
    }
}
