//! At most so many requests from one source in any 60 seconds. Pure: it is told the time.
//!
//! A log of moments rather than a bucket that refills: the protocol promises a limit per minute, and its recorded
//! cases see the difference.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use super::clock::Timestamp;

const WINDOW: Duration = Duration::from_secs(60);
/// How many sources have a budget of their own; the others share one. Bounds memory under a flood of addresses.
const MOST_SOURCES: usize = 8192;

/// Requests allowed per source and minute.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub loopback: u32,
    pub remote: u32,
}

/// Who is counted as one: an IPv4 address, or the /64 that an IPv6 subscriber has to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    V4(u32),
    V6(u64),
    Crowd,
}

#[derive(Debug)]
pub struct RateLimit {
    limits: Limits,
    seen: HashMap<Source, VecDeque<Timestamp>>,
}

impl RateLimit {
    pub fn new(limits: Limits) -> Self {
        Self { limits, seen: HashMap::new() }
    }

    /// Whether one more request from `address` fits. If so it counts.
    pub fn admits(&mut self, address: IpAddr, now: Timestamp) -> bool {
        let address = address.to_canonical();
        let limit = if address.is_loopback() { self.limits.loopback } else { self.limits.remote };
        let source = self.place(source(address), now);
        let seen = self.seen.entry(source).or_default();
        // A clock that was set back leaves moments of the future behind: they count no longer.
        while seen.back().is_some_and(|last| *last > now) {
            seen.pop_back();
        }
        while seen.front().is_some_and(|first| now.since(*first) >= WINDOW) {
            seen.pop_front();
        }
        let fits = seen.len() < usize::try_from(limit).unwrap_or(usize::MAX);
        if fits {
            seen.push_back(now);
        }
        fits
    }

    /// Where a source is counted. When the table is full, first those leave who have been quiet for a minute.
    fn place(&mut self, source: Source, now: Timestamp) -> Source {
        if self.seen.contains_key(&source) || self.seen.len() < MOST_SOURCES {
            return source;
        }
        self.seen.retain(|_, seen| seen.back().is_some_and(|last| now.since(*last) < WINDOW));
        if self.seen.len() < MOST_SOURCES { source } else { Source::Crowd }
    }
}

fn source(address: IpAddr) -> Source {
    match address {
        IpAddr::V4(address) => Source::V4(address.to_bits()),
        IpAddr::V6(address) => Source::V6((address.to_bits() >> 64) as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { loopback: 3, remote: 2 };

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn count(rate: &mut RateLimit, address: &str, now: Timestamp) -> usize {
        (0..10).filter(|_| rate.admits(address.parse().unwrap(), now)).count()
    }

    #[test]
    fn each_source_has_its_own_minute() {
        let mut rate = RateLimit::new(LIMITS);
        assert_eq!(count(&mut rate, "127.0.0.1", at(0)), 3);
        assert_eq!(count(&mut rate, "::ffff:127.0.0.1", at(1)), 0);
        assert_eq!(count(&mut rate, "::1", at(1)), 3);
        assert_eq!(count(&mut rate, "192.0.2.1", at(1)), 2);
        assert_eq!(count(&mut rate, "2001:db8::1", at(1)), 2);
        assert_eq!(count(&mut rate, "2001:db8::2", at(1)), 0);
        assert_eq!(count(&mut rate, "127.0.0.1", at(59)), 0);
        assert_eq!(count(&mut rate, "127.0.0.1", at(60)), 3);
    }

    #[test]
    fn a_clock_that_is_set_back_locks_nobody_out() {
        let mut rate = RateLimit::new(Limits { loopback: 1, remote: 1 });
        let address = IpAddr::from([192, 0, 2, 1]);
        assert!(rate.admits(address, Timestamp::from_secs(10_000)));
        assert!(rate.admits(address, Timestamp::from_secs(100)));
        assert!(!rate.admits(address, Timestamp::from_secs(101)));
    }

    #[test]
    fn the_window_slides() {
        let mut rate = RateLimit::new(LIMITS);
        let address = "192.0.2.1".parse().unwrap();
        assert!(rate.admits(address, at(0)) && rate.admits(address, at(40)) && !rate.admits(address, at(59)));
        assert!(
            rate.admits(address, at(60)) && !rate.admits(address, at(61)) && rate.admits(address, at(100))
        );
    }

    #[test]
    fn a_flood_of_addresses_shares_one_budget() {
        let mut rate = RateLimit::new(LIMITS);
        let flood = (0..3 * MOST_SOURCES).filter(|n| {
            rate.admits(
                IpAddr::from(0x0a00_0000_u32.wrapping_add(u32::try_from(*n).unwrap()).to_be_bytes()),
                at(0),
            )
        });
        assert_eq!(flood.count(), MOST_SOURCES + 2);
        assert_eq!(rate.seen.len(), MOST_SOURCES + 1);
        assert_eq!(count(&mut rate, "192.0.2.1", at(61)), 2);
        assert_eq!(rate.seen.len(), 1);
    }
}
