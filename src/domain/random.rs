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
