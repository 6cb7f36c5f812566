//! What the calls share: the store, the clock, who waits, and when to stop.

use std::future::Future;
use std::sync::Arc;

use ipnet::IpNet;
use tokio::sync::watch;

use super::RelayError;
use crate::domain::clock::{SharedClock, Timestamp};
use crate::domain::random::SharedRandom;
use crate::domain::relay::plan::Plans;
use crate::domain::wakeups::Wakeups;
use crate::proto::redsyn::address::AgentAddress;
use crate::store::StoreError;
use crate::store::relay::{Changed, RelayStore, RelayStoreError};

/// What whoever runs the relay decides.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub plans: Arc<Plans>,
    /// Whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
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
            store,
            clock,
            random,
            settings,
            wakeups: Wakeups::default(),
            due: watch::Sender::new(None),
            stop: watch::Sender::new(false),
        })
    }

    /// Held polls are answered empty at once, and the sweep ends. Calls still work until the store is closed.
    pub fn stop(&self) {
        self.stop.send_replace(true);
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

    pub fn settings(&self) -> &Settings {
        &self.settings
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
        let ended =
            settled.await.map_err(|error| StoreError::Other(format!("a change ended badly: {error}")))?;
        Ok(ended?)
    }

    /// Wakes whom a change concerns, and tells the sweep what has become due.
    pub(super) fn spread<T>(&self, changed: Changed<T>) -> T {
        for agent in &changed.wake {
            self.wakeups.wake(agent);
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
