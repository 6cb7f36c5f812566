//! What time does without anybody asking: leases go back, messages expire, senders are told. One task, asleep
//! until the next thing is due.

use std::sync::Arc;
use std::time::Duration;

use super::metrics::Counter;
use super::service::Service;
use crate::domain::clock::Timestamp;

/// The longest sleep: another relay on the same store may have died with what it had to do.
const LONGEST: Duration = Duration::from_secs(60);
/// How long after a failure the store is asked again.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

impl Service {
    /// Sweeps until the relay stops.
    pub async fn sweep_until_stopped(self: Arc<Self>) {
        let mut due = self.due.subscribe();
        while !self.is_stopping() {
            // Before the look: what becomes due from here on is heard of below.
            self.due.send_replace(None);
            due.mark_unchanged();
            let next = self.sweep_once().await;
            tokio::select! {
                () = self.clock.sleep_until(next) => {}
                () = self.stopped() => return,
                _ = due.wait_for(|due| due.is_some_and(|due| due < next)) => {}
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
