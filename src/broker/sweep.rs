//! Once a minute: leases that are over go back to the queue, messages whose time is over go away. Every five minutes
//! the same for the second generation, whose pulls do most of it.

use std::time::Duration;

use super::service::Service;
use crate::store::StoreError;

const EVERY: Duration = Duration::from_secs(60);
/// The second generation is swept every so many times.
const V2_EVERY: u32 = 5;

/// Sweeps once, in as many transactions as it takes, so that requests get through in between.
pub(super) async fn once(service: &Service) -> Result<(), StoreError> {
    loop {
        let now = service.clock.now();
        let swept = service.store.sweep(now, service.too_old(now)).await?;
        if swept.requeued + swept.expired > 0 {
            tracing::info!(requeued = swept.requeued, expired = swept.expired, "store_swept");
        }
        if swept.requeued > 0 {
            service.wakeups.wake_all();
        }
        if swept.expired > 0 {
            service.carrier.ended();
        }
        if !swept.more {
            return Ok(());
        }
    }
}

/// The same for the second generation.
pub(super) async fn once_v2(service: &Service) -> Result<(), StoreError> {
    loop {
        let swept = service.v2.sweep().await?;
        if swept.tidied + swept.deleted > 0 {
            tracing::info!(tidied = swept.tidied, deleted = swept.deleted, "v2_store_swept");
        }
        if !swept.more {
            return Ok(());
        }
    }
}

/// Sweeps for ever. A sweep that fails is tried again at its next turn; the store has logged why.
pub(super) async fn run(service: &Service) {
    for turn in (0..V2_EVERY).cycle() {
        service.clock.sleep(EVERY).await;
        let v1 = once(service).await;
        let v2 = if turn == V2_EVERY - 1 { once_v2(service).await } else { Ok(()) };
        if v1.and(v2).is_err() {
            tracing::warn!("sweep_failed");
        }
        // Whether a disk has room again is seen by writing alone, and perhaps nobody else does. The store logs how it went.
        if service.store.db().commits().trouble().is_some() {
            let _ = service.store.probe().await;
        }
    }
}
