//! The one source of randomness, so that tests and vectors can fix it.

use std::fmt;
use std::sync::Arc;

/// Fills buffers with bytes that nobody can predict.
pub trait Random: Send + Sync + fmt::Debug + 'static {
    fn fill(&self, bytes: &mut [u8]);
}

impl dyn Random {
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut out = [0; N];
        self.fill(&mut out);
        out
    }

    /// `2 * N` lower-case hex characters.
    pub fn hex<const N: usize>(&self) -> String {
        hex::encode(self.bytes::<N>())
    }

    /// A version 7 UUID in its usual text form: those of one time stand together in an index, so that to store one
    /// touches a page that is in use anyway. `millis` is the Unix time; times before 1970 count as 0.
    pub fn uuid_at(&self, millis: i64) -> String {
        self.ordered(millis).to_string()
    }

    /// The same as 32 lower-case hex characters.
    pub fn hex_at(&self, millis: i64) -> String {
        self.ordered(millis).simple().to_string()
    }

    fn ordered(&self, millis: i64) -> uuid::Uuid {
        let millis = u64::try_from(millis).unwrap_or_default();
        uuid::Builder::from_unix_timestamp_millis(millis, &self.bytes::<10>()).into_uuid()
    }

    /// A version 4 UUID in its usual text form.
    pub fn uuid(&self) -> String {
        uuid::Builder::from_random_bytes(self.bytes::<16>()).into_uuid().to_string()
    }
}

pub type SharedRandom = Arc<dyn Random>;

#[derive(Debug, Default, Clone, Copy)]
pub struct SystemRandom;

impl SystemRandom {
    pub fn shared() -> SharedRandom {
        Arc::new(Self)
    }
}

impl Random for SystemRandom {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the operating system")]
    #[expect(
        clippy::panic,
        reason = "without randomness no key or id is safe: stopping is the only right answer"
    )]
    fn fill(&self, bytes: &mut [u8]) {
        if let Err(error) = getrandom::fill(bytes) {
            panic!("the operating system gives no randomness: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_a_later_moment_come_later_and_those_of_one_moment_differ() {
        let random = SystemRandom::shared();
        let ids: Vec<String> = [-5, 0, 1, 1_800_000_000_000].map(|millis| random.uuid_at(millis)).into();
        assert_eq!(ids[0][..13], ids[1][..13]);
        assert!(ids[1] < ids[2] && ids[2] < ids[3], "{ids:?}");
        assert!(ids.iter().all(|id| id.len() == 36 && id.as_bytes()[14] == b'7'), "{ids:?}");
        assert_ne!(random.uuid_at(7), random.uuid_at(7));
        let (one, other) = (random.hex_at(1), random.hex_at(2));
        assert!(one < other && one.len() == 32 && !one.contains('-'), "{one} {other}");
    }
}
