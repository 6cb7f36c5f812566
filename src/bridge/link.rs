//! The state of the link to the relay, and what brings it up: keys registered, agents announced (mapping §6, §8).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, watch};

use super::keys::NodeKeys;
use super::names::Names;
use crate::domain::backoff::full_jitter;
use crate::domain::clock::{SharedClock, Timestamp};
use crate::domain::random::SharedRandom;
use crate::proto::redsyn::address::AgentAddress;
use crate::redsyn_client::{Announcement, CallError, RelayClient};

/// Without a successful call for this long the link is not called connected (mapping §6).
const FRESH: Duration = Duration::from_secs(60);

/// What is known of the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Nothing has been tried yet.
    Starting,
    /// Keys and agents are known to the relay.
    Up { since: Timestamp },
    /// The last call did not succeed.
    Down { since: Timestamp, why: String },
}

/// The link of one node to one relay.
#[derive(Debug)]
pub struct Link {
    client: RelayClient,
    keys: Arc<NodeKeys>,
    names: Arc<Names>,
    clock: SharedClock,
    random: SharedRandom,
    state: watch::Sender<LinkState>,
    /// One repair at a time: many messages may find out together that the relay has forgotten us.
    repair: Mutex<()>,
}

impl Link {
    pub fn new(
        client: RelayClient,
        keys: Arc<NodeKeys>,
        names: Arc<Names>,
        clock: SharedClock,
        random: SharedRandom,
    ) -> Self {
        let state = watch::Sender::new(LinkState::Starting);
        Self { client, keys, names, clock, random, state, repair: Mutex::new(()) }
    }

    pub fn state(&self) -> LinkState {
        self.state.borrow().clone()
    }

    /// Up, and a call succeeded within the last minute.
    pub fn is_connected(&self) -> bool {
        let fresh =
            self.client.last_success().is_some_and(|last| self.client.relay_now().since(last) <= FRESH);
        fresh && matches!(self.state(), LinkState::Up { .. })
    }

    /// Resolves once the link has been up.
    pub async fn up(&self) {
        let mut state = self.state.subscribe();
        if state.wait_for(|state| matches!(state, LinkState::Up { .. })).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Tries to register and announce until it works.
    pub async fn bring_up(&self) {
        let mut attempt = 0_u32;
        while let Err(error) = self.introduce().await {
            attempt = attempt.saturating_add(1);
            self.lost(&error);
            self.clock.sleep(full_jitter(attempt, error.retry_after(), &*self.random)).await;
        }
        self.found();
    }

    /// Registers the keys and announces every agent. Safe to repeat.
    ///
    /// # Errors
    /// The first call that did not succeed.
    pub async fn introduce(&self) -> Result<(), CallError> {
        let _one_at_a_time = self.repair.lock().await;
        self.client.register_key(&self.keys.registration()).await?;
        for (_, agent) in self.names.agents() {
            let announcement =
                Announcement { description: agent.description.clone(), policy: agent.policy.clone() };
            self.client.announce(&agent.address, &announcement).await?;
        }
        Ok(())
    }

    /// A call succeeded.
    pub fn found(&self) {
        let now = self.clock.now();
        let changed = self.state.send_if_modified(|state| {
            let is_new = !matches!(state, LinkState::Up { .. });
            if is_new {
                *state = LinkState::Up { since: now };
            }
            is_new
        });
        if changed {
            tracing::info!("relay_link_up");
        }
    }

    /// A call did not succeed in a way that tells of the link, not of the message.
    pub fn lost(&self, error: &CallError) {
        let now = self.clock.now();
        let why = explain(error);
        let changed = self.state.send_if_modified(|state| match state {
            LinkState::Down { why: before, .. } if *before == why => false,
            LinkState::Down { why: before, .. } => {
                before.clone_from(&why);
                true
            }
            _ => {
                *state = LinkState::Down { since: now, why: why.clone() };
                true
            }
        });
        if changed {
            tracing::warn!(why, "relay_link_down");
        }
    }

    /// The addresses this node answers for.
    pub fn addresses(&self) -> Vec<AgentAddress> {
        self.names.agents().map(|(_, agent)| agent.address.clone()).collect()
    }
}

/// What a person can do about it.
fn explain(error: &CallError) -> String {
    match error.status() {
        Some(401) => format!("{error}: the relay does not know this token; put a valid one in place of it"),
        Some(409) => {
            format!("{error}: the relay has another key for this node; use the node's own token and key file")
        }
        Some(400) => format!("{error}: the relay does not offer this API date; see redsyn.version"),
        _ => error.to_string(),
    }
}
