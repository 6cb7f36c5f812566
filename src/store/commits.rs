//! What a store's owning thread measures of its commits. One observation for each commit, not for each call in it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::StoreError;
use crate::domain::metrics::Histogram;

/// How many calls shared a commit.
const CALLS: [u64; 8] = [1, 2, 4, 8, 16, 64, 256, 512];
/// How long a commit took, with the work in it, in microseconds: from memory to a disk that hangs.
const MICROS: [u64; 11] = [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 500_000, 2_500_000];

#[derive(Debug)]
pub struct Commits {
    pub calls: Histogram<{ CALLS.len() }>,
    pub micros: Histogram<{ MICROS.len() }>,
    failed: AtomicU64,
    trouble: Mutex<Option<StoreError>>,
}

impl Default for Commits {
    fn default() -> Self {
        Self {
            calls: Histogram::new(CALLS),
            micros: Histogram::new(MICROS),
            failed: AtomicU64::new(0),
            trouble: Mutex::default(),
        }
    }
}

impl Commits {
    pub(super) fn done(&self, calls: usize, took: Duration, is_kept: bool) {
        self.calls.observe(u64::try_from(calls).unwrap_or(u64::MAX));
        self.micros.observe(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        if !is_kept {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn trouble_is(&self, trouble: Option<StoreError>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    /// Why something failed since anything was last written; `None` when all is well.
    pub fn trouble(&self) -> Option<StoreError> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many of them kept nothing.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}
