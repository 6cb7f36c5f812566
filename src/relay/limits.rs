//! How many calls one token and one network address may make. Beyond that: 429 without `quota`, which says to come
//! back soon. Without this, one program in a tight loop would take the store from everybody.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::domain::clock::SharedClock;
use crate::domain::rate::{Keyed, Refill};
use crate::store::relay::NodeId;

/// Calls a minute; `None` is no limit. All of a minute may come at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallLimits {
    pub per_token: Option<NonZeroU32>,
    pub per_address: Option<NonZeroU32>,
}

#[derive(Debug)]
pub(super) struct CallLimiter {
    tokens: Option<Keyed<NodeId>>,
    addresses: Option<Keyed<IpAddr>>,
}

impl CallLimiter {
    pub(super) fn new(limits: CallLimits, clock: &SharedClock) -> Self {
        Self {
            tokens: limits.per_token.map(|most| Keyed::new(most, Refill::Evenly, clock)),
            addresses: limits.per_address.map(|most| Keyed::new(most, Refill::Evenly, clock)),
        }
    }

    pub(super) fn check_token(&self, node: NodeId) -> Result<(), Duration> {
        self.tokens.as_ref().map_or(Ok(()), |tokens| tokens.check(&node, &node))
    }

    /// Loopback is not limited: behind a proxy that is not trusted, it is everybody.
    pub(super) fn check_address(&self, address: IpAddr) -> Result<(), Duration> {
        if address.to_canonical().is_loopback() {
            return Ok(());
        }
        self.addresses.as_ref().map_or(Ok(()), |addresses| addresses.check_address(address))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::clock::{ManualClock, Timestamp};

    fn limiter(per_minute: u32) -> (CallLimiter, ManualClock) {
        let clock = ManualClock::at(Timestamp::from_secs(1_790_000_000));
        let shared: SharedClock = Arc::new(clock.clone());
        let most = NonZeroU32::new(per_minute);
        (CallLimiter::new(CallLimits { per_token: most, per_address: most }, &shared), clock)
    }

    fn admitted(limiter: &CallLimiter, address: &str) -> usize {
        (0..10).take_while(|_| limiter.check_address(address.parse().unwrap()).is_ok()).count()
    }

    #[test]
    fn a_minutes_calls_may_come_at_once_and_come_back_one_by_one() {
        let (limiter, clock) = limiter(6);
        assert_eq!(admitted(&limiter, "192.0.2.1"), 6);
        let wait = limiter.check_address("192.0.2.1".parse().unwrap()).unwrap_err();
        assert_eq!(wait, Duration::from_secs(10));
        clock.advance(Duration::from_secs(9));
        assert_eq!(admitted(&limiter, "192.0.2.1"), 0);
        clock.advance(Duration::from_secs(1));
        assert_eq!(admitted(&limiter, "192.0.2.1"), 1);
        clock.advance(Duration::from_secs(600));
        assert_eq!(admitted(&limiter, "192.0.2.1"), 6);
    }

    #[test]
    fn addresses_count_as_subscribers_and_loopback_not_at_all() {
        let (limiter, _) = limiter(2);
        assert_eq!(admitted(&limiter, "2001:db8::1"), 2);
        assert_eq!(admitted(&limiter, "2001:db8::2"), 0);
        assert_eq!(admitted(&limiter, "2001:db8:0:1::1"), 2);
        assert_eq!(admitted(&limiter, "::ffff:192.0.2.1"), 2);
        assert_eq!(admitted(&limiter, "192.0.2.1"), 0);
        for loopback in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(admitted(&limiter, loopback), 10);
        }
    }
}
