//! What time does without anybody asking: leases go back, messages expire, senders are told, and what ended long ago
//! is deleted. One task, asleep until the next thing is due.

use std::sync::Arc;
use std::time::Duration;

use super::metrics::Counter;
use super::service::Service;
use crate::domain::clock::Timestamp;

/// The longest sleep: another relay on the same store may have died with what it had to do.
const LONGEST: Duration = Duration::from_secs(60);
/// How often what ended long ago is deleted: nobody waits for it.
const FORGET_EVERY: Duration = Duration::from_secs(60);
/// How long after a failure the store is asked again.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

impl Service {
    /// Sweeps until the relay stops.
    pub async fn sweep_until_stopped(self: Arc<Self>) {
        let mut due = self.due.subscribe();
        let mut forget_at = self.now();
        while !self.is_stopping() {
            // Before the look: what becomes due from here on is heard of below.
            self.due.send_replace(None);
            due.mark_unchanged();
            let next = self.sweep_once().await;
            if forget_at <= self.now() {
                forget_at = self.forget_once().await;
            }
            let next = next.min(forget_at);
            tokio::select! {
                () = self.clock.sleep_until(next) => {}
                () = self.stopped() => return,
                _ = due.wait_for(|due| due.is_some_and(|due| due < next)) => {}
            }
        }
    }

    /// Deletes a batch of what is kept no longer. Gives when to look again.
    async fn forget_once(&self) -> Timestamp {
        let now = self.now();
        let Some(keep) = self.settings.retention else { return now.plus(FORGET_EVERY) };
        match self.store.forget(now.minus(keep), now).await {
            Ok(forgotten) => {
                if forgotten.messages > 0 {
                    tracing::info!(messages = forgotten.messages, "relay_forgot");
                    self.metrics.add(Counter::MessagesForgotten, forgotten.messages);
                }
                if forgotten.more { now } else { now.plus(FORGET_EVERY) }
            }
            Err(error) => {
                tracing::error!(%error, "relay_forget_failed");
                now.plus(FORGET_EVERY)
            }
        }
    }

    /// Does what is due now. Gives when to look again.
    async fn sweep_once(&self) -> Timestamp {
        let now = self.now();
        let swept = match self.store.sweep(now).await {
            Ok(changed) => self.spread(changed),
            Err(error) => {
                tracing::error!(%error, "relay_sweep_failed");
                return now.plus(AFTER_FAILURE);
            }
        };
        if swept.leases_ended + swept.expired > 0 {
            let (leases_ended, expired, abandoned) = (swept.leases_ended, swept.expired, swept.abandoned);
            tracing::info!(leases_ended, expired, abandoned, "relay_swept");
        }
        for (counter, count) in [
            (Counter::LeasesEnded, swept.leases_ended),
            (Counter::MessagesExpired, swept.expired),
            (Counter::MessagesAbandoned, swept.abandoned),
        ] {
            self.metrics.add(counter, count);
        }
        let latest = now.plus(LONGEST);
        if swept.more { now } else { swept.next.map_or(latest, |next| next.min(latest)) }
    }
}
