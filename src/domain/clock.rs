//! The one source of time. Every rule about time takes a [`Clock`]; only [`SystemClock`] reads the real one.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// A moment in Unix milliseconds (UTC).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded down.
    pub const fn secs(self) -> i64 {
        self.0.div_euclid(1000)
    }

    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }

    #[must_use]
    pub fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long from `earlier` until now; zero when `earlier` lies ahead.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What tells the time and wakes sleepers.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    fn now(&self) -> Timestamp;

    /// Completes once `now()` has reached `deadline`.
    fn sleep_until(&self, deadline: Timestamp) -> Sleep;

    fn sleep(&self, by: Duration) -> Sleep {
        self.sleep_until(self.now().plus(by))
    }
}

pub type SharedClock = Arc<dyn Clock>;

/// How long something takes. For numbers that people look at; no rule may depend on it, since tests cannot move it.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(std::time::Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "a measurement is of real time")]
    pub fn start() -> Self {
        Self(std::time::Instant::now())
    }

    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl SystemClock {
    pub fn shared() -> SharedClock {
        Arc::new(Self)
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the system clock")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that waits by the system clock")]
    fn sleep_until(&self, deadline: Timestamp) -> Sleep {
        let left = deadline.since(self.now());
        Box::pin(tokio::time::sleep(left))
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug, Clone)]
pub struct ManualClock {
    now: watch::Sender<Timestamp>,
}

impl ManualClock {
    pub fn at(start: Timestamp) -> Self {
        Self { now: watch::Sender::new(start) }
    }

    pub fn advance(&self, by: Duration) {
        self.now.send_modify(|now| *now = now.plus(by));
    }

    pub fn set(&self, to: Timestamp) {
        self.now.send_replace(to);
    }

    /// How many sleepers wait. Who moves the clock before somebody has gone to sleep only moves their bedtime.
    pub fn sleepers(&self) -> usize {
        self.now.receiver_count()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.now.borrow()
    }

    fn sleep_until(&self, deadline: Timestamp) -> Sleep {
        let mut seen = self.now.subscribe();
        Box::pin(async move {
            // The sender lives in `self`; if it is gone, nobody can move time any more and the sleeper waits for ever.
            if seen.wait_for(|now| *now >= deadline).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_manual_clock_wakes_sleepers_when_it_is_moved() {
        let clock = ManualClock::at(Timestamp::from_secs(100));
        let sleeper = tokio::spawn(clock.sleep(Duration::from_secs(5)));
        tokio::task::yield_now().await;
        assert_eq!(clock.sleepers(), 1);
        clock.advance(Duration::from_secs(4));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        clock.advance(Duration::from_secs(1));
        sleeper.await.unwrap();
        assert_eq!(clock.sleepers(), 0);
    }

    #[test]
    fn seconds_round_down_and_differences_never_go_negative() {
        assert_eq!(Timestamp::from_millis(1999).secs(), 1);
        assert_eq!(Timestamp::from_millis(-1).secs(), -1);
        assert_eq!(Timestamp::from_secs(1).since(Timestamp::from_secs(2)), Duration::ZERO);
    }
}
