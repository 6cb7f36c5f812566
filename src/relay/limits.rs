//! How many calls one token and one network address may make. Beyond that: 429 without `quota`, which says to come
//! back soon. Without this, one program in a tight loop would take the store from everybody.

use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::clock::Clock as GovernorClock;
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

use crate::domain::clock::SharedClock;
use crate::store::relay::NodeId;

/// Calls a minute; `None` is no limit. All of a minute may come at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallLimits {
    pub per_token: Option<NonZeroU32>,
    pub per_address: Option<NonZeroU32>,
}

/// How many keys have a budget of their own: bounds memory under a flood of addresses.
const MOST_KEYS: usize = 65_536;

/// The relay's clock, as governor wants it.
#[derive(Clone, Debug)]
struct SinceEpoch(SharedClock);

impl GovernorClock for SinceEpoch {
    type Instant = Duration;

    fn now(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.now().millis()).unwrap_or(0))
    }
}

type Limiter<K> = RateLimiter<K, HashMapStateStore<K>, SinceEpoch, NoOpMiddleware<Duration>>;

#[derive(Debug)]
struct Keyed<K: Hash + Eq + Clone> {
    limiter: Limiter<K>,
    clock: SinceEpoch,
    /// When those who have been quiet were last forgotten, in seconds.
    swept: AtomicU64,
}

impl<K: Hash + Eq + Clone> Keyed<K> {
    fn new(per_minute: NonZeroU32, clock: &SharedClock) -> Self {
        let clock = SinceEpoch(Arc::clone(clock));
        let quota = Quota::per_minute(per_minute);
        let limiter = RateLimiter::new(quota, HashMapStateStore::default(), clock.clone());
        Self { limiter, clock, swept: AtomicU64::new(0) }
    }

    /// How long to wait, when there were too many. When nobody can be forgotten, `crowd` is counted instead.
    fn check(&self, key: &K, crowd: &K) -> Result<(), Duration> {
        let now = self.clock.now();
        // At most once a second: it looks at every key.
        if self.limiter.len() >= MOST_KEYS
            && self.swept.swap(now.as_secs(), Ordering::Relaxed) != now.as_secs()
        {
            self.limiter.retain_recent();
        }
        let key = if self.limiter.len() >= MOST_KEYS { crowd } else { key };
        self.limiter.check_key(key).map_err(|early| early.wait_time_from(now))
    }
}

#[derive(Debug)]
pub(super) struct CallLimiter {
    tokens: Option<Keyed<NodeId>>,
    addresses: Option<Keyed<IpAddr>>,
}

impl CallLimiter {
    pub(super) fn new(limits: CallLimits, clock: &SharedClock) -> Self {
        Self {
            tokens: limits.per_token.map(|most| Keyed::new(most, clock)),
            addresses: limits.per_address.map(|most| Keyed::new(most, clock)),
        }
    }

    pub(super) fn check_token(&self, node: NodeId) -> Result<(), Duration> {
        self.tokens.as_ref().map_or(Ok(()), |tokens| tokens.check(&node, &node))
    }

    /// Loopback is not limited: behind a proxy that is not trusted, it is everybody.
    pub(super) fn check_address(&self, address: IpAddr) -> Result<(), Duration> {
        let address = address.to_canonical();
        if address.is_loopback() {
            return Ok(());
        }
        let (own, crowd) = (subscriber(address), neighbourhood(address));
        self.addresses.as_ref().map_or(Ok(()), |addresses| addresses.check(&own, &crowd))
    }
}

/// An IPv6 subscriber has a /64 to themselves.
fn subscriber(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    }
}

/// Who is counted together once there are too many to count apart: whoever floods the relay from a network of their
/// own then has one budget, and the rest of the world is not in it.
fn neighbourhood(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() >> 16 << 16)),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 96 << 96)),
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_flood_from_one_network_shares_one_budget() {
        let (limiter, clock) = limiter(2);
        let flood = (0..MOST_KEYS + 10).filter(|n| {
            let address = IpAddr::from(u32::try_from(*n).unwrap().wrapping_add(0x0a00_0000).to_be_bytes());
            limiter.check_address(address).is_ok()
        });
        assert_eq!(flood.count(), MOST_KEYS + 2);
        assert_eq!(admitted(&limiter, "192.0.2.1"), 2, "others are not in it");
        clock.advance(Duration::from_secs(61));
        assert_eq!(admitted(&limiter, "192.0.2.1"), 2);
    }
}
