//! What the calls share: the store, the clock, who waits, and when to stop.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tokio::sync::watch;

use super::RelayError;
use super::limits::{CallLimiter, CallLimits};
use super::metrics::{Counter, Metrics};
use super::webhooks::PushQueue;
use crate::domain::clock::{SharedClock, Timestamp};
use crate::domain::random::SharedRandom;
use crate::domain::relay::plan::Plans;
use crate::domain::wakeups::Wakeups;
use crate::intake::room::Room;
use crate::proto::redsyn::address::AgentAddress;
use crate::proto::redsyn::ids::TTL_MAX_SECS;
use crate::store::StoreError;
use crate::store::relay::{Changed, NodeId, RelayStore, RelayStoreError, TokenHash};

/// How long the head of a request may take, and a connection stay idle: longer than any client's own patience
/// between two polls, short enough that silent connections do not pile up.
const HEAD_TIME: Duration = Duration::from_secs(75);
/// Room for 32 of the longest bodies.
const ROOM: usize = 256 * 1024 * 1024;
/// How long what has ended is kept: as long as any envelope may wait.
const RETENTION: Duration = Duration::from_secs(TTL_MAX_SECS);
/// How long a store that is well takes at the most to look something up.
const HEALTHY: Duration = Duration::from_secs(5);

/// What whoever runs the relay decides.
#[derive(Clone, Debug)]
pub struct Settings {
    pub plans: Arc<Plans>,
    /// Whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Webhooks may point anywhere, also at this machine: for tests.
    pub insecure_targets: bool,
    pub limits: CallLimits,
    /// `/metrics` answers everybody, not only this machine.
    pub remote_metrics: bool,
    /// How long the head of a request may take.
    pub head_time: Duration,
    /// How many bytes of bodies are in memory at once, at the most.
    pub body_room: usize,
    /// How long messages are kept after they ended; `None`: for ever.
    pub retention: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            plans: Arc::default(),
            trusted_proxies: Vec::new(),
            insecure_targets: false,
            limits: CallLimits::default(),
            remote_metrics: false,
            head_time: HEAD_TIME,
            body_room: ROOM,
            retention: Some(RETENTION),
        }
    }
}

/// A relay. Its methods are the calls of the protocol, one file per concern.
#[derive(Debug)]
pub struct Service {
    pub(super) store: Arc<dyn RelayStore>,
    pub(super) clock: SharedClock,
    pub(super) random: SharedRandom,
    pub(super) settings: Settings,
    pub(super) wakeups: Wakeups<AgentAddress>,
    /// The earliest thing due that the sweep has not heard of.
    pub(super) due: watch::Sender<Option<Timestamp>>,
    pub(super) limiter: CallLimiter,
    pub(super) metrics: Metrics,
    pub(super) room: Room,
    /// Agents that have something to push.
    pub(super) to_push: PushQueue,
    stop: watch::Sender<bool>,
}

impl Service {
    pub fn new(
        store: Arc<dyn RelayStore>,
        clock: SharedClock,
        random: SharedRandom,
        settings: Settings,
    ) -> Arc<Self> {
        Arc::new(Self {
            limiter: CallLimiter::new(settings.limits, &clock),
            room: Room::new(settings.body_room),
            store,
            clock,
            random,
            settings,
            wakeups: Wakeups::default(),
            due: watch::Sender::new(None),
            metrics: Metrics::default(),
            to_push: PushQueue::default(),
            stop: watch::Sender::new(false),
        })
    }

    /// Held polls are answered empty at once, and the sweep ends. Calls still work until the store is closed.
    pub fn stop(&self) {
        self.stop.send_replace(true);
        self.wakeups.wake_all();
    }

    /// Finishes what is under way and closes the store.
    ///
    /// # Errors
    /// When the store's thread failed.
    pub async fn close(&self) -> Result<(), RelayError> {
        self.stop();
        Ok(self.store.close().await?)
    }

    /// Completes when the relay stops.
    pub(super) async fn stopped(&self) {
        let mut stop = self.stop.subscribe();
        // An error means that the sender is gone, and with it the relay.
        let _ = stop.wait_for(|stop| *stop).await;
    }

    pub(super) fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    pub fn clock(&self) -> &SharedClock {
        &self.clock
    }

    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// # Errors
    /// When the store does not answer, or keeps nothing.
    pub async fn check_health(&self) -> Result<(), RelayError> {
        if let Some(trouble) = self.store.trouble() {
            return Err(trouble.into());
        }
        let nobody = TokenHash::of("");
        tokio::select! {
            looked = self.store.caller(nobody) => Ok(looked.map(drop)?),
            () = self.clock.sleep(HEALTHY) => Err(StoreError::Locked.into()),
        }
    }

    /// Counts a call from an address; from then on it may have been one too many.
    ///
    /// # Errors
    /// When there were too many.
    pub(super) fn admit_address(&self, address: IpAddr) -> Result<(), RelayError> {
        self.limiter.check_address(address).map_err(|wait| self.too_many(wait))
    }

    /// # Errors
    /// When there were too many.
    pub(super) fn admit_node(&self, node: NodeId) -> Result<(), RelayError> {
        self.limiter.check_token(node).map_err(|wait| self.too_many(wait))
    }

    fn too_many(&self, wait: Duration) -> RelayError {
        self.metrics.add(Counter::CallsLimited, 1);
        RelayError::TooMany(wait)
    }

    /// How many bytes are reserved for bodies.
    pub fn body_bytes(&self) -> usize {
        self.room.used()
    }

    /// At how many mailboxes somebody waits.
    pub fn held_mailboxes(&self) -> usize {
        self.wakeups.held()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Runs a change to its end, also when the client goes away meanwhile: otherwise it could be committed and
    /// nobody woken.
    pub(super) async fn settle<T: Send + 'static>(
        self: &Arc<Self>,
        change: impl Future<Output = Result<Changed<T>, RelayStoreError>> + Send + 'static,
    ) -> Result<T, RelayError> {
        let service = Arc::clone(self);
        let settled = tokio::spawn(async move { change.await.map(|changed| service.spread(changed)) });
        let ended = settled.await.map_err(|error| {
            tracing::error!(%error, "relay_change_failed");
            StoreError::Other(format!("a change ended badly: {error}"))
        })?;
        Ok(ended?)
    }

    /// Wakes whom a change concerns, and tells the sweep what has become due.
    pub(super) fn spread<T>(&self, changed: Changed<T>) -> T {
        for agent in &changed.wake {
            self.wakeups.wake(agent);
        }
        for agent in changed.push {
            self.to_push.mark(agent);
        }
        if let Some(due) = changed.due {
            self.due.send_if_modified(|earliest| {
                let earlier = earliest.is_none_or(|earliest| due < earliest);
                if earlier {
                    *earliest = Some(due);
                }
                earlier
            });
        }
        changed.value
    }
}
