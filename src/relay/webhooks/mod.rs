//! Webhooks: registering one, and pushing what waits. One task starts the pushes; each is a task of its own, so that
//! a slow target holds up nobody else.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::{Id, JoinError, JoinSet};

use super::metrics::Counter;
use super::service::Service;
use super::views::DeliveredJson;
use super::{RelayError, versions};
use crate::crypto::base64url;
use crate::crypto::secret::Secret;
use crate::crypto::webhook;
use crate::domain::relay::target::Target;
use crate::proto::redsyn::address::AgentAddress;
use crate::store::relay::{Caller, Push, Pushed, Webhook};

mod post;

use post::{Delivery, Poster};

/// Marks a webhook's secret for people and for secret scanners.
const SECRET_PREFIX: &str = "whsec_";
const SECRET_BYTES: usize = 32;
/// How long a target may take to answer (the relay's own rule; the spec names none).
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a push holds its message: longer than any push takes. After a crash it is pushed again this much later.
const HOLD: Duration = Duration::from_secs(30);
/// The wait after the first failure; it doubles with each (spec, «Webhooks»).
const FIRST_WAIT: Duration = Duration::from_secs(10);
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);
/// The most pushes of one agent at once: its server should not drown in what waited while it was down.
const PER_AGENT: usize = 8;
/// The most pushes at once: each is a socket, and a thousand slow targets must not take all of them.
const AT_ONCE: usize = 512;
/// How long after a failure the store is asked again.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// How long pushes under way may take once the relay stops.
const GRACE: Duration = Duration::from_secs(1);

/// Agents that have something to push, each once.
#[derive(Debug, Default)]
pub(super) struct PushQueue {
    agents: Mutex<BTreeSet<AgentAddress>>,
    marked: Notify,
}

impl PushQueue {
    pub(super) fn mark(&self, agent: AgentAddress) {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner).insert(agent);
        // Kept for the one task that waits, also when it is busy just now.
        self.marked.notify_one();
    }

    fn next(&self) -> Option<AgentAddress> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner).pop_first()
    }
}

/// Pushes under way, and whose they are.
#[derive(Default)]
struct Running {
    tasks: JoinSet<()>,
    agents: HashMap<Id, AgentAddress>,
    of_agent: HashMap<AgentAddress, usize>,
}

impl Running {
    fn room_for(&self, agent: &AgentAddress) -> usize {
        let left = AT_ONCE.saturating_sub(self.tasks.len());
        PER_AGENT.saturating_sub(self.of_agent.get(agent).copied().unwrap_or(0)).min(left)
    }

    fn start(&mut self, agent: &AgentAddress, push: impl Future<Output = ()> + Send + 'static) {
        let id = self.tasks.spawn(push).id();
        self.agents.insert(id, agent.clone());
        *self.of_agent.entry(agent.clone()).or_default() += 1;
    }

    /// The agent whose push has ended: it may have room for another.
    fn ended(&mut self, ended: Result<(Id, ()), JoinError>) -> Option<AgentAddress> {
        let id = match ended {
            Ok((id, ())) => id,
            Err(error) => {
                tracing::error!(%error, "relay_push_died");
                error.id()
            }
        };
        let agent = self.agents.remove(&id)?;
        if let Some(count) = self.of_agent.get_mut(&agent) {
            *count -= 1;
            if *count == 0 {
                self.of_agent.remove(&agent);
            }
        }
        Some(agent)
    }
}

impl Service {
    /// `PUT /agents/{…}/webhook`. The secret is shown this once; a second webhook has a new one.
    ///
    /// # Errors
    /// When the agent is not the caller's, the target is not allowed, or the plan allows no more webhooks.
    pub async fn set_webhook(
        self: &Arc<Self>,
        caller: &Caller,
        agent: AgentAddress,
        url: &str,
    ) -> Result<Webhook, RelayError> {
        let target = Target::parse(url, self.settings.insecure_targets)
            .map_err(|error| RelayError::invalid(error.to_string()))?;
        let bytes = zeroize::Zeroizing::new(self.random.bytes::<SECRET_BYTES>());
        let secret = Secret::new(format!("{SECRET_PREFIX}{}", base64url::encode(&*bytes)));
        let webhook = Webhook { target, secret };
        let (store, now, person) = (Arc::clone(&self.store), self.now(), caller.person);
        let (kept, of) = (webhook.clone(), agent.clone());
        self.settle(async move { store.set_webhook(person, of, kept, now).await }).await?;
        tracing::info!(%agent, "relay_webhook_set");
        Ok(webhook)
    }

    /// `DELETE /agents/{…}/webhook`: back to the mailbox.
    ///
    /// # Errors
    /// When the agent is not the caller's.
    pub async fn remove_webhook(
        self: &Arc<Self>,
        caller: &Caller,
        agent: AgentAddress,
    ) -> Result<(), RelayError> {
        let (store, now, person) = (Arc::clone(&self.store), self.now(), caller.person);
        let of = agent.clone();
        self.settle(async move { store.remove_webhook(person, of, now).await }).await?;
        tracing::info!(%agent, "relay_webhook_removed");
        Ok(())
    }

    /// Pushes what is to be pushed until the relay stops.
    pub async fn push_until_stopped(self: Arc<Self>) {
        if self.settings.insecure_targets {
            tracing::warn!("relay_webhooks_insecure: webhooks may point anywhere; this is for tests");
        }
        // What waited when the relay was stopped.
        match self.store.webhook_agents().await {
            Ok(agents) => agents.into_iter().for_each(|agent| self.to_push.mark(agent)),
            Err(error) => tracing::error!(%error, "relay_webhooks_not_read"),
        }
        let poster = Arc::new(Poster::new(self.settings.insecure_targets));
        let mut running = Running::default();
        while !self.is_stopping() {
            while running.tasks.len() < AT_ONCE
                && let Some(agent) = self.to_push.next()
            {
                self.start_pushes(&agent, &poster, &mut running).await;
            }
            tokio::select! {
                () = self.to_push.marked.notified() => {}
                Some(ended) = running.tasks.join_next_with_id() => {
                    if let Some(agent) = running.ended(ended) {
                        self.to_push.mark(agent);
                    }
                }
                () = self.stopped() => break,
            }
        }
        tokio::select! {
            () = async { while running.tasks.join_next().await.is_some() {} } => {}
            () = self.clock.sleep(GRACE) => {}
        }
        running.tasks.shutdown().await;
    }

    async fn start_pushes(
        self: &Arc<Self>,
        agent: &AgentAddress,
        poster: &Arc<Poster>,
        running: &mut Running,
    ) {
        let room = running.room_for(agent);
        if room == 0 {
            // The end of one of its pushes marks it again.
            return;
        }
        let now = self.now();
        let claimed = self.store.claim_pushes(agent.clone(), room, now.plus(HOLD), now).await;
        match claimed.map(|changed| self.spread(changed)) {
            Ok(pushes) => {
                for push in pushes {
                    running.start(agent, Arc::clone(self).push(agent.clone(), push, Arc::clone(poster)));
                }
            }
            Err(error) => {
                tracing::error!(%agent, %error, "relay_pushes_not_claimed");
                // Its end marks the agent again.
                running.start(agent, self.clock.sleep(AFTER_FAILURE));
            }
        }
    }

    /// One push, from the request to what the store remembers of it.
    async fn push(self: Arc<Self>, agent: AgentAddress, push: Push, poster: Arc<Poster>) {
        let (id, attempts) = (push.delivered.message.id.clone(), push.delivered.attempts);
        let delivery = push.delivery;
        let how = match self.deliver(push, &poster).await {
            Ok(()) => {
                tracing::info!(id = ?id.as_str(), %agent, attempts, "relay_message_pushed");
                Pushed::Taken
            }
            Err(error) => {
                tracing::info!(id = ?id.as_str(), %agent, attempts, error, "relay_push_failed");
                Pushed::Failed { again: self.now().plus(wait_after(attempts)) }
            }
        };
        match self.store.pushed(delivery, how, self.now()).await {
            Ok(changed) => self.spread(changed),
            // Its hold ends by itself, and it is pushed again.
            Err(error) => tracing::error!(id = ?id.as_str(), %agent, %error, "relay_push_not_settled"),
        }
        let counter = if how == Pushed::Taken { Counter::PushesTaken } else { Counter::PushesFailed };
        self.metrics.add(counter, 1);
    }

    async fn deliver(&self, push: Push, poster: &Poster) -> Result<(), String> {
        let target =
            Target::parse(&push.url, self.settings.insecure_targets).map_err(|error| error.to_string())?;
        let id = push.delivered.message.id.to_string();
        let json = DeliveredJson::new(push.delivered);
        let body = serde_json::to_vec(&json).map_err(|error| error.to_string())?;
        let delivery = Delivery {
            id: &id,
            version: versions::pinned(Some(&push.version)),
            signature: webhook::header(&push.secret, self.now().secs(), &body),
            body,
        };
        tokio::select! {
            sent = poster.post(&target, delivery) => sent,
            () = self.clock.sleep(PATIENCE) => Err("no answer in time".to_owned()),
        }
    }
}

/// 10 s, 20 s, 40 s … up to an hour.
fn wait_after(attempts: u32) -> Duration {
    let doublings = attempts.saturating_sub(1).min(16);
    FIRST_WAIT.saturating_mul(1 << doublings).min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_an_hour() {
        let secs: Vec<u64> = (1..=11).map(|attempts| wait_after(attempts).as_secs()).collect();
        assert_eq!(secs, [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]);
        assert_eq!(wait_after(u32::MAX), LONGEST_WAIT);
    }

    #[test]
    fn an_agent_is_queued_once() {
        let queue = PushQueue::default();
        let agent: AgentAddress = "acme/finance/ana/close".parse().unwrap();
        queue.mark(agent.clone());
        queue.mark(agent.clone());
        assert_eq!((queue.next(), queue.next()), (Some(agent), None));
    }
}
