//! Held calls. Each costs a parked task: it subscribes, looks, then waits to be woken. A key exists here only while
//! somebody waits at it.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

type Waiting<K> = Mutex<HashMap<K, Arc<Notify>>>;

/// Who waits at what. Cloning is cheap and gives the same one.
pub struct Wakeups<K> {
    waiting: Arc<Waiting<K>>,
}

impl<K> Clone for Wakeups<K> {
    fn clone(&self) -> Self {
        Self { waiting: Arc::clone(&self.waiting) }
    }
}

impl<K> Default for Wakeups<K> {
    fn default() -> Self {
        Self { waiting: Arc::default() }
    }
}

impl<K: Eq + Hash> fmt::Debug for Wakeups<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wakeups").field("held", &self.held()).finish()
    }
}

impl<K: Eq + Hash> Wakeups<K> {
    /// From now on a wake of `key` reaches whoever awaits [`Subscription::woken`].
    pub fn subscribe(&self, key: K) -> Subscription<K>
    where
        K: Clone,
    {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let notify = Arc::clone(waiting.entry(key.clone()).or_default());
        Subscription { key, notify, all: Arc::clone(&self.waiting) }
    }

    /// Everybody who waits at `key` looks again.
    pub fn wake(&self, key: &K) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(notify) = waiting.get(key) {
            notify.notify_waiters();
        }
    }

    /// Everybody looks again.
    pub fn wake_all(&self) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for notify in waiting.values() {
            notify.notify_waiters();
        }
    }

    /// At how many keys somebody waits.
    pub fn held(&self) -> usize {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// One held call.
pub struct Subscription<K: Eq + Hash> {
    key: K,
    notify: Arc<Notify>,
    all: Arc<Waiting<K>>,
}

impl<K: Eq + Hash> fmt::Debug for Subscription<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

impl<K: Eq + Hash> Subscription<K> {
    /// Enable it before looking: a wake between the look and the wait then counts.
    pub fn woken(&self) -> tokio::sync::futures::Notified<'_> {
        self.notify.notified()
    }
}

impl<K: Eq + Hash> Drop for Subscription<K> {
    fn drop(&mut self) {
        let mut waiting = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        // The map's and ours: nobody else waits, and under the lock nobody can start to.
        if Arc::strong_count(&self.notify) == 2 {
            waiting.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_wake_after_subscribing_is_not_lost() {
        let wakeups = Wakeups::default();
        let subscription = wakeups.subscribe("close");
        let mut woken = pin!(subscription.woken());
        woken.as_mut().enable();
        wakeups.wake(&"other");
        assert!(woken.as_mut().now_or_never().is_none());
        wakeups.wake(&"close");
        assert!(woken.now_or_never().is_some());
    }

    #[test]
    fn a_key_goes_with_the_last_who_waits() {
        let wakeups = Wakeups::default();
        let (one, two) = (wakeups.subscribe(1), wakeups.subscribe(1));
        drop(one);
        assert_eq!(wakeups.held(), 1);
        drop(two);
        assert_eq!(wakeups.held(), 0);
    }
}
