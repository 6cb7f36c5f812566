//! Pulls that are held until there is something to give.

use std::hash::Hash;
use std::pin::pin;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::domain::clock::{SharedClock, Timestamp};
use crate::domain::wakeups::Subscription;
use crate::proto::dsh::error::ApiError;

/// What one look at an inbox found.
pub(super) struct Look<T> {
    pub(super) found: Vec<T>,
    /// When looking again may find more though nobody rings: the end of a lease.
    pub(super) again: Option<Timestamp>,
}

/// Looks until something is found, `wait` is over (nothing is found), the caller `may` no longer, or the broker stops. A ring after the
/// subscription is never missed.
pub(super) async fn held<K, T, F>(
    clock: &SharedClock,
    stopping: &CancellationToken,
    subscription: &Subscription<K>,
    wait: Duration,
    (may, look): (impl Fn() -> bool, impl Fn() -> F),
) -> Result<Vec<T>, ApiError>
where
    K: Eq + Hash,
    F: Future<Output = Result<Look<T>, ApiError>>,
{
    let deadline = clock.now().plus(wait);
    loop {
        let mut woken = pin!(subscription.woken());
        woken.as_mut().enable();
        if !may() {
            return Ok(Vec::new());
        }
        let Look { found, again } = look().await?;
        if !found.is_empty() || clock.now() >= deadline {
            return Ok(found);
        }
        let until = again.map_or(deadline, |again| again.min(deadline));
        tokio::select! {
            () = woken => {}
            () = clock.sleep_until(until) => {}
            () = stopping.cancelled() => return Ok(Vec::new()),
        }
    }
}
