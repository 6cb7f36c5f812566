//! The relay's time: ours plus the offset seen in its `Date` headers. Signatures carry it (ten minutes' window).

use std::sync::atomic::{AtomicI64, Ordering};

use crate::domain::clock::{SharedClock, Timestamp};

/// A `Date` header has whole seconds, so an offset of a second may be rounding alone.
const RESOLUTION_SECS: i64 = 1;

#[derive(Debug)]
pub(super) struct RelayTime {
    clock: SharedClock,
    offset_secs: AtomicI64,
}

impl RelayTime {
    pub(super) fn new(clock: SharedClock) -> Self {
        Self { clock, offset_secs: AtomicI64::new(0) }
    }

    /// Learns from the `Date` of an answer that has just arrived.
    pub(super) fn learn(&self, date: &str) {
        let Ok(date) = httpdate::parse_http_date(date) else { return };
        let Ok(since) = date.duration_since(std::time::UNIX_EPOCH) else { return };
        let relay = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        let offset = relay.saturating_sub(self.clock.now().secs());
        let offset = if offset.abs() <= RESOLUTION_SECS { 0 } else { offset };
        self.offset_secs.store(offset, Ordering::Relaxed);
    }

    pub(super) fn now(&self) -> Timestamp {
        let now = self.clock.now();
        Timestamp::from_millis(
            now.millis().saturating_add(self.offset_secs.load(Ordering::Relaxed).saturating_mul(1000)),
        )
    }

    /// The moment on our clock that the relay calls `relay`.
    pub(super) fn to_local(&self, relay: Timestamp) -> Timestamp {
        let offset = self.offset_secs.load(Ordering::Relaxed).saturating_mul(1000);
        Timestamp::from_millis(relay.millis().saturating_sub(offset))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::clock::ManualClock;

    #[test]
    fn the_relays_date_moves_our_idea_of_its_time() {
        let time = RelayTime::new(Arc::new(ManualClock::at(Timestamp::from_secs(1_790_000_000))));
        time.learn("Mon, 21 Sep 2026 14:13:20 GMT");
        assert_eq!(time.now().secs(), 1_790_000_000, "the same second");
        time.learn("Mon, 21 Sep 2026 16:13:20 GMT");
        assert_eq!(time.now().secs(), 1_790_007_200);
        assert_eq!(time.to_local(Timestamp::from_secs(1_790_007_200)).secs(), 1_790_000_000);
        time.learn("not a date");
        assert_eq!(time.now().secs(), 1_790_007_200);
    }
}
