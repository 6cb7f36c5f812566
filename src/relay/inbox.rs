//! Mailboxes: the held poll, and confirming.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::RelayError;
use super::metrics::Counter;
use super::service::Service;
use super::views::DeliveredJson;
use crate::domain::clock::Timestamp;
use crate::proto::redsyn::address::AgentAddress;
use crate::proto::redsyn::ids::{LEASE_DEFAULT_SECS, MessageId, TTL_MAX_SECS, WAIT_MAX_SECS};
use crate::store::relay::{Caller, Delivered, Take, TakeWhat};

/// The most ids of one ack: twenty full takes.
const ACK_MAX: usize = 1000;

/// `GET /inbox/…`, as it was asked.
#[derive(Clone, Debug)]
pub struct InboxQuery {
    pub wait_secs: u64,
    pub lease_secs: u64,
    pub reply_to: Option<MessageId>,
    pub peek: bool,
}

impl Default for InboxQuery {
    fn default() -> Self {
        Self { wait_secs: 0, lease_secs: LEASE_DEFAULT_SECS, reply_to: None, peek: false }
    }
}

impl InboxQuery {
    fn what(&self) -> TakeWhat {
        // Longer than any message lives would be a lease for ever.
        let lease_secs = self.lease_secs.clamp(1, TTL_MAX_SECS);
        match (&self.reply_to, self.peek) {
            (answers_to, true) => TakeWhat::Peek { answers_to: answers_to.clone() },
            (Some(request), false) => TakeWhat::AnswersTo { request: request.clone(), lease_secs },
            (None, false) => TakeWhat::Any { lease_secs },
        }
    }
}

impl Service {
    /// Takes what waits. Holds the call until something does, at most [`WAIT_MAX_SECS`]; a stopping relay answers
    /// empty at once. If the client goes away before the answer, what was taken is simply leased.
    ///
    /// # Errors
    /// When the mailbox is not the caller's.
    pub fn take(
        self: Arc<Self>,
        caller: &Caller,
        agent: AgentAddress,
        query: &InboxQuery,
    ) -> impl Future<Output = Result<Vec<DeliveredJson>, RelayError>> + Send + use<> {
        let deadline = self.now().plus(Duration::from_secs(query.wait_secs.min(WAIT_MAX_SECS)));
        let (node, is_peek) = (caller.node, query.peek);
        let take = Take { person: caller.person, node, agent, what: query.what() };
        async move {
            let delivered = self.wait_for_something(take, deadline).await?;
            if !is_peek {
                self.metrics.add(Counter::MessagesTaken, u64::try_from(delivered.len()).unwrap_or(u64::MAX));
            }
            for message in &delivered {
                let (id, attempts) = (&message.message.id, message.attempts);
                tracing::debug!(id = ?id.as_str(), %node, attempts, "relay_message_taken");
            }
            Ok(delivered.into_iter().map(DeliveredJson::new).collect())
        }
    }

    async fn wait_for_something(
        self: &Arc<Self>,
        take: Take,
        deadline: Timestamp,
    ) -> Result<Vec<Delivered>, RelayError> {
        let mailbox = self.wakeups.subscribe(take.agent.clone());
        loop {
            // Subscribed before the look: what arrives after it wakes the wait.
            let mut woken = pin!(mailbox.woken());
            woken.as_mut().enable();
            let (store, now, looked) = (Arc::clone(&self.store), self.now(), take.clone());
            // Boxed: a poll that waits does not keep the room for looking.
            let delivered = Box::pin(self.settle(async move { store.take(looked, now).await })).await?;
            if !delivered.is_empty() || now >= deadline || self.is_stopping() {
                return Ok(delivered);
            }
            tokio::select! {
                () = woken => {}
                () = self.clock.sleep_until(deadline) => {}
            }
            if self.is_stopping() {
                return Ok(Vec::new());
            }
        }
    }

    /// `POST /inbox/…/ack`: gives what is confirmed now.
    ///
    /// # Errors
    /// When the mailbox is not the caller's.
    pub async fn confirm(
        self: &Arc<Self>,
        caller: &Caller,
        agent: AgentAddress,
        ids: Vec<MessageId>,
    ) -> Result<Vec<MessageId>, RelayError> {
        if ids.len() > ACK_MAX {
            return Err(RelayError::invalid(format!("ids: at most {ACK_MAX} at once")));
        }
        let (store, now, person) = (Arc::clone(&self.store), self.now(), caller.person);
        let confirmed = self.settle(async move { store.confirm(person, agent, ids, now).await }).await?;
        self.metrics.add(Counter::MessagesConfirmed, u64::try_from(confirmed.len()).unwrap_or(u64::MAX));
        Ok(confirmed)
    }
}
