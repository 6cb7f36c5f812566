//! Connections that the system does not give us, most often for want of file descriptors. It goes on for as long as
//! others hold theirs, so it is told once a minute, and tried again at a growing distance.

use std::time::Duration;

use crate::domain::clock::Timestamp;

const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How often it is told, at the most.
const EVERY: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct AcceptFailures {
    pause: Duration,
    told: Option<Timestamp>,
    untold: u64,
}

/// What to do about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// How long to wait before the next try.
    pub pause: Duration,
    /// How many failures the log is to tell of now; none when it has told of others lately.
    pub tell: Option<u64>,
}

impl Default for AcceptFailures {
    fn default() -> Self {
        Self { pause: SHORTEST_PAUSE, told: None, untold: 0 }
    }
}

impl AcceptFailures {
    pub fn failed(&mut self, now: Timestamp) -> Advice {
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        self.untold += 1;
        let is_due = self.told.is_none_or(|told| now.since(told) >= EVERY);
        let tell = is_due.then(|| {
            self.told = Some(now);
            std::mem::take(&mut self.untold)
        });
        Advice { pause, tell }
    }

    /// A connection was accepted.
    pub const fn over(&mut self) {
        self.pause = SHORTEST_PAUSE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_once_a_minute_and_tried_at_a_growing_distance() {
        let mut failures = AcceptFailures::default();
        let at = |millis: i64| Timestamp::from_millis(1_700_000_000_000 + millis);
        let advice = |pause: u64, tell: Option<u64>| Advice { pause: Duration::from_millis(pause), tell };
        assert_eq!(failures.failed(at(0)), advice(100, Some(1)));
        for (now, pause) in [(100, 200), (300, 400), (700, 800), (1500, 1000), (59_999, 1000)] {
            assert_eq!(failures.failed(at(now)), advice(pause, None), "{now}");
        }
        assert_eq!(failures.failed(at(60_000)), advice(1000, Some(6)));
        failures.over();
        assert_eq!(failures.failed(at(60_100)), advice(100, None), "one connection ends no shortage");
        assert_eq!(failures.failed(at(120_000)), advice(200, Some(2)));
    }
}
