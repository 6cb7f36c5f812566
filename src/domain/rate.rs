//! How many calls somebody may make in a minute: `governor`, on a clock that is passed in and with as many keys as
//! memory is meant for.

use std::fmt;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

use super::clock::{SharedClock, Timestamp};

/// How many keys have a budget of their own: bounds memory under a flood of them.
const MOST_KEYS: usize = 65_536;
const MINUTE: Duration = Duration::from_secs(60);

/// When calls come back. All of a minute may be used at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refill {
    /// One by one.
    Evenly,
    /// All at the end of each minute, counted from when the limiter was made: within one, a call over the limit is
    /// over it however slowly the others came.
    EachMinute,
}

/// How long a limiter has lived, by the clock that was passed in. A clock that is set back locks nobody out.
#[derive(Clone)]
struct Age(Arc<Ageing>);

struct Ageing {
    clock: SharedClock,
    refill: Refill,
    /// The clock's last word, and the age then.
    last: Mutex<(Timestamp, Duration)>,
}

impl fmt::Debug for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Age").finish_non_exhaustive()
    }
}

impl Age {
    fn new(clock: &SharedClock, refill: Refill) -> Self {
        let last = Mutex::new((clock.now(), Duration::ZERO));
        Self(Arc::new(Ageing { clock: Arc::clone(clock), refill, last }))
    }
}

impl governor::clock::Clock for Age {
    type Instant = Duration;

    fn now(&self) -> Duration {
        let Ageing { clock, refill, last } = &*self.0;
        let now = clock.now();
        // Two numbers are right whatever panicked meanwhile.
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = (now, last.1 + now.since(last.0));
        match refill {
            Refill::Evenly => last.1,
            Refill::EachMinute => Duration::from_secs(last.1.as_secs() / MINUTE.as_secs() * MINUTE.as_secs()),
        }
    }
}

type Limiter<K> = RateLimiter<K, HashMapStateStore<K>, Age, NoOpMiddleware<Duration>>;

/// A budget for each key.
#[derive(Debug)]
pub struct Keyed<K: Hash + Eq + Clone> {
    limiter: Limiter<K>,
    age: Age,
    /// When those who have been quiet were last forgotten, in seconds.
    swept: AtomicU64,
}

impl<K: Hash + Eq + Clone> Keyed<K> {
    pub fn new(per_minute: NonZeroU32, refill: Refill, clock: &SharedClock) -> Self {
        let age = Age::new(clock, refill);
        let limiter =
            RateLimiter::new(Quota::per_minute(per_minute), HashMapStateStore::default(), age.clone());
        Self { limiter, age, swept: AtomicU64::new(0) }
    }

    /// Counts a call. When nobody can be forgotten, `crowd` is counted instead of a new key.
    ///
    /// # Errors
    /// How long to wait, when there were too many.
    pub fn check(&self, key: &K, crowd: &K) -> Result<(), Duration> {
        use governor::clock::Clock as _;
        let now = self.age.now();
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

impl Keyed<IpAddr> {
    /// Counts a call from a network address: an IPv6 subscriber has a /64 to themselves.
    ///
    /// # Errors
    /// How long to wait, when there were too many.
    pub fn check_address(&self, address: IpAddr) -> Result<(), Duration> {
        let address = address.to_canonical();
        self.check(&subscriber(address), &neighbourhood(address))
    }
}

fn subscriber(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    }
}

/// Who is counted together once there are too many to count apart: whoever floods us from a network of their own then
/// has one budget, and the rest of the world is not in it.
fn neighbourhood(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() >> 16 << 16)),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 96 << 96)),
    }
}

/// Requests allowed per source and minute.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub loopback: NonZeroU32,
    pub remote: NonZeroU32,
}

/// The limit of protocol v1, which tells this machine from others.
#[derive(Debug)]
pub struct RateLimit {
    loopback: Keyed<IpAddr>,
    remote: Keyed<IpAddr>,
}

impl RateLimit {
    pub fn new(limits: Limits, clock: &SharedClock) -> Self {
        let keyed = |most| Keyed::new(most, Refill::EachMinute, clock);
        Self { loopback: keyed(limits.loopback), remote: keyed(limits.remote) }
    }

    /// Whether one more request from `address` fits. If so it counts.
    pub fn admits(&self, address: IpAddr) -> bool {
        let keyed = if address.to_canonical().is_loopback() { &self.loopback } else { &self.remote };
        keyed.check_address(address).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::clock::ManualClock;

    fn limit(loopback: u32, remote: u32) -> (RateLimit, ManualClock) {
        let clock = ManualClock::at(Timestamp::from_secs(1_700_000_000));
        let limits = Limits { loopback: loopback.try_into().unwrap(), remote: remote.try_into().unwrap() };
        let shared: SharedClock = Arc::new(clock.clone());
        (RateLimit::new(limits, &shared), clock)
    }

    fn count(rate: &RateLimit, address: &str) -> usize {
        (0..1000).filter(|_| rate.admits(address.parse().unwrap())).count()
    }

    #[test]
    fn each_source_has_its_own_minute() {
        let (rate, clock) = limit(3, 2);
        assert_eq!(count(&rate, "127.0.0.1"), 3);
        assert_eq!(count(&rate, "::ffff:127.0.0.1"), 0);
        assert_eq!(count(&rate, "::1"), 3);
        assert_eq!(count(&rate, "192.0.2.1"), 2);
        assert_eq!(count(&rate, "2001:db8::1"), 2);
        assert_eq!(count(&rate, "2001:db8::2"), 0);
        assert_eq!(count(&rate, "2001:db8:0:1::1"), 2);
        clock.advance(Duration::from_secs(59));
        assert_eq!(count(&rate, "127.0.0.1"), 0);
        clock.advance(Duration::from_secs(1));
        assert_eq!(count(&rate, "127.0.0.1"), 3);
    }

    #[test]
    fn what_comes_slowly_comes_back_no_sooner() {
        let (rate, clock) = limit(600, 1);
        for _ in 0..600 {
            assert!(rate.admits("127.0.0.1".parse().unwrap()));
            clock.advance(Duration::from_millis(99));
        }
        assert_eq!(count(&rate, "127.0.0.1"), 0);
        clock.advance(Duration::from_secs(1));
        assert_eq!(count(&rate, "127.0.0.1"), 600);
        assert_eq!(count(&rate, "127.0.0.1"), 0);
        clock.advance(Duration::from_secs(600));
        assert_eq!(count(&rate, "127.0.0.1"), 600, "quiet minutes are not saved up");
    }

    #[test]
    fn a_clock_that_is_set_back_locks_nobody_out() {
        for refill in [Refill::EachMinute, Refill::Evenly] {
            let clock = ManualClock::at(Timestamp::from_secs(1_700_000_000));
            let shared: SharedClock = Arc::new(clock.clone());
            let keyed = Keyed::new(NonZeroU32::MIN, refill, &shared);
            assert!(keyed.check(&1, &0).is_ok() && keyed.check(&1, &0).is_err());
            clock.set(Timestamp::from_secs(1_600_000_000));
            assert!(keyed.check(&1, &0).is_err());
            clock.advance(MINUTE);
            assert!(keyed.check(&1, &0).is_ok());
        }
    }

    #[test]
    fn a_flood_of_addresses_shares_one_budget() {
        let (rate, clock) = limit(3, 2);
        let flood = (0..MOST_KEYS + 10).filter(|n| {
            let address = 0x0a00_0000_u32.wrapping_add(u32::try_from(*n).unwrap());
            rate.admits(IpAddr::from(address.to_be_bytes()))
        });
        assert_eq!(flood.count(), MOST_KEYS + 2);
        assert_eq!(rate.remote.limiter.len(), MOST_KEYS + 1);
        assert_eq!(count(&rate, "192.0.2.1"), 2, "others are not in it");
        clock.advance(MINUTE * 2);
        assert_eq!(count(&rate, "192.0.2.1"), 2);
        assert!(rate.remote.limiter.len() < 10, "whoever has been quiet is forgotten");
    }
}
