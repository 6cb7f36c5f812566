//! Held polls. Each costs a parked task: it subscribes to its mailbox, looks, then waits to be woken. A mailbox
//! exists here only while somebody waits at it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::proto::redsyn::address::AgentAddress;

type Mailboxes = Mutex<HashMap<AgentAddress, Arc<Notify>>>;

#[derive(Clone, Default)]
pub(super) struct Wakeups {
    mailboxes: Arc<Mailboxes>,
}

impl fmt::Debug for Wakeups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wakeups").field("mailboxes", &self.held()).finish()
    }
}

impl Wakeups {
    /// From now on a wake of `agent` reaches whoever awaits [`Subscription::woken`].
    pub(super) fn subscribe(&self, agent: &AgentAddress) -> Subscription {
        let mut mailboxes = self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner);
        let mailbox = Arc::clone(mailboxes.entry(agent.clone()).or_default());
        Subscription { agent: agent.clone(), mailbox, all: Arc::clone(&self.mailboxes) }
    }

    /// Everybody who waits at `agent`'s mailbox looks again.
    pub(super) fn wake(&self, agent: &AgentAddress) {
        let mailboxes = self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mailbox) = mailboxes.get(agent) {
            mailbox.notify_waiters();
        }
    }

    /// How many mailboxes somebody waits at.
    pub(super) fn held(&self) -> usize {
        self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// One waiting poll.
pub(super) struct Subscription {
    agent: AgentAddress,
    mailbox: Arc<Notify>,
    all: Arc<Mailboxes>,
}

impl Subscription {
    /// Enable it before looking: a wake between the look and the wait then counts.
    pub(super) fn woken(&self) -> tokio::sync::futures::Notified<'_> {
        self.mailbox.notified()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut mailboxes = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        // The map's and ours: nobody else waits, and under the lock nobody can start to.
        if Arc::strong_count(&self.mailbox) == 2 {
            mailboxes.remove(&self.agent);
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
        let agent = "acme/ops/ana/close".parse().unwrap();
        let subscription = wakeups.subscribe(&agent);
        let mut woken = pin!(subscription.woken());
        woken.as_mut().enable();
        wakeups.wake(&agent);
        assert!(woken.now_or_never().is_some());
    }

    #[test]
    fn a_mailbox_goes_with_the_last_who_waits() {
        let wakeups = Wakeups::default();
        let agent = "acme/ops/ana/close".parse().unwrap();
        let (one, two) = (wakeups.subscribe(&agent), wakeups.subscribe(&agent));
        drop(one);
        assert_eq!(wakeups.held(), 1);
        drop(two);
        assert_eq!(wakeups.held(), 0);
    }
}
