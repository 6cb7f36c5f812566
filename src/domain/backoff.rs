//! How long to wait before the next try: full jitter, so that many bridges do not come back at the same moment.

use std::time::Duration;

use super::random::Random;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// The longest wish that is granted: a relay that asks for a year has made a mistake, and nobody would find out.
const LONGEST_ASKED: Duration = Duration::from_secs(60 * 60);

/// A random time between nothing and the cap of the `attempt`-th failure (1 s, 2 s, 4 s … 60 s); never less than
/// what the other side asked for, up to an hour.
pub fn full_jitter(attempt: u32, asked: Option<Duration>, random: &dyn Random) -> Duration {
    let cap =
        FIRST.saturating_mul(1_u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX)).min(LONGEST);
    let millis = u64::try_from(cap.as_millis()).unwrap_or(u64::MAX);
    let jittered = Duration::from_millis(u64::from_le_bytes(random.bytes()) % millis.max(1));
    asked.map_or(jittered, |asked| jittered.max(asked.min(LONGEST_ASKED)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::random::SystemRandom;

    #[test]
    fn the_cap_doubles_up_to_a_minute() {
        for (attempt, cap) in [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (40, 60), (u32::MAX, 60)] {
            for _ in 0..50 {
                assert!(full_jitter(attempt, None, &SystemRandom) < Duration::from_secs(cap));
            }
        }
    }

    #[test]
    fn what_the_relay_asks_for_is_the_least() {
        let asked = Duration::from_secs(90);
        assert_eq!(full_jitter(1, Some(asked), &SystemRandom), asked);
        assert_eq!(full_jitter(1, Some(Duration::MAX), &SystemRandom), LONGEST_ASKED);
    }
}
