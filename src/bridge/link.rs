//! The state of the link to the relay, and what brings it up: keys registered, agents announced.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex, watch};

use super::keys::KeyRing;
use super::lacks::{Call, Lacks};
use super::names::CurrentNames;
use crate::domain::backoff::full_jitter;
use crate::domain::clock::{SharedClock, Timestamp};
use crate::domain::random::SharedRandom;
use crate::proto::dsh::names::AgentName;
use crate::proto::redsyn::address::{AgentAddress, TopicAddress};
use crate::proto::redsyn::keys::KeyRegistration;
use crate::redsyn_client::{Announcement, CallError, RelayClient};
use crate::store::sqlite::bridge::BridgeStore;

/// Without a successful call for this long the link is not called connected.
const FRESH: Duration = Duration::from_secs(60);
/// How often a 404 may make us introduce ourselves again. It mostly means that the recipient does not exist, and
/// announcing every agent for each mistyped address would be a burden to the relay.
const AGAIN: Duration = Duration::from_secs(60);

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
    store: BridgeStore,
    keys: Arc<KeyRing>,
    names: Arc<CurrentNames>,
    clock: SharedClock,
    random: SharedRandom,
    state: watch::Sender<LinkState>,
    /// One introduction at a time: many messages may find out together that the relay has forgotten us.
    introducing: Mutex<()>,
    /// How many introductions have succeeded.
    introductions: AtomicU64,
    /// The agents that the relay did not let us announce, and why.
    refused: std::sync::Mutex<Vec<(AgentName, String)>>,
    /// When a 404 last made us introduce ourselves, in milliseconds.
    after_404: AtomicI64,
    /// The calls that the relay does not have.
    pub lacks: Arc<Lacks>,
    /// The introduction after which it was found out whether there are keys.
    keys_looked_for: AtomicU64,
}

impl Link {
    pub fn new(
        client: RelayClient,
        store: BridgeStore,
        keys: Arc<KeyRing>,
        names: Arc<CurrentNames>,
        clock: SharedClock,
        random: SharedRandom,
    ) -> Self {
        let state = watch::Sender::new(LinkState::Starting);
        let introducing = Mutex::new(());
        Self {
            client,
            store,
            keys,
            names,
            clock,
            random,
            state,
            introducing,
            introductions: AtomicU64::new(0),
            refused: std::sync::Mutex::default(),
            after_404: AtomicI64::new(i64::MIN),
            lacks: Arc::default(),
            keys_looked_for: AtomicU64::new(0),
        }
    }

    pub(super) fn client(&self) -> &RelayClient {
        &self.client
    }

    /// True once after each introduction.
    pub(super) fn has_to_look_for_keys(&self) -> bool {
        let now = self.introductions();
        self.keys_looked_for.swap(now, Ordering::AcqRel) != now
    }

    /// How the API date that the relay uses differs from the one it is asked for.
    pub fn lacks_date(&self) -> Option<String> {
        self.client.lacks_date()
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

    /// When a call last succeeded, by our clock.
    pub fn last_success(&self) -> Option<Timestamp> {
        self.client.last_success().map(|last| self.client.to_local(last))
    }

    /// Asks the relay who we are. By how many milliseconds its clock is ahead of ours.
    ///
    /// # Errors
    /// In words for a person, when it does not say.
    pub async fn probe(&self) -> Result<i64, String> {
        // It may know the token and still take nothing from this node.
        if matches!(self.state(), LinkState::Down { .. })
            && let Err(error) = self.introduce().await
        {
            self.lost(&error);
            return Err(explain(&error));
        }
        match self.client.get("/me").await {
            Ok(_) => self.lacks.has(Call::Me),
            Err(error) if error.is_not_offered() => self.lacks.note(Call::Me, &error),
            Err(error) => {
                self.lost(&error);
                return Err(explain(&error));
            }
        }
        self.found();
        Ok(self.client.relay_now().millis().saturating_sub(self.clock.now().millis()))
    }

    /// The agents that the relay did not let us announce, and why.
    pub fn refused(&self) -> Vec<(AgentName, String)> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
    /// See [`Link::introduce_since`].
    pub async fn introduce(&self) -> Result<(), CallError> {
        self.introduce_since(self.introductions()).await
    }

    /// How many introductions have succeeded, to be given to [`Link::introduce_since`] after a call that was
    /// refused as if we were strangers.
    pub fn introductions(&self) -> u64 {
        self.introductions.load(Ordering::Acquire)
    }

    /// Introduces this node, unless another task has done so since `known`.
    ///
    /// # Errors
    /// When the relay cannot be reached or does not take the key, or refuses every agent. An agent that it refuses
    /// alone (a limit of the plan, say) does not stop the others.
    pub async fn introduce_since(&self, known: u64) -> Result<(), CallError> {
        let _one_at_a_time = self.introducing.lock().await;
        if self.introductions() != known {
            return Ok(());
        }
        self.register().await?;
        let mut refused = None;
        let mut all_refused = Vec::new();
        let mut announced = 0_usize;
        for (name, agent) in self.names.get().agents() {
            let announcement =
                Announcement { description: agent.description.clone(), policy: agent.policy.clone() };
            match self.client.announce(&agent.address, &announcement).await {
                Ok(()) => announced += 1,
                Err(error) if error.is_worth_retrying() || error.status() == Some(401) => return Err(error),
                Err(error) => {
                    tracing::error!(%name, address = %agent.address, %error, "agent_not_announced");
                    all_refused.push((name.clone(), explain(&error)));
                    refused = Some(error);
                }
            }
        }
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = all_refused;
        self.subscribe().await?;
        match refused {
            Some(error) if announced == 0 => Err(error),
            _ => {
                self.introductions.fetch_add(1, Ordering::AcqRel);
                Ok(())
            }
        }
    }

    /// Introduces this node after a call that was refused as if the relay did not know us: with 401 always, with 404
    /// at most once a minute. Whether the call is worth another try.
    ///
    /// # Errors
    /// See [`Link::introduce_since`].
    pub async fn introduce_again(&self, known: u64, status: u16) -> Result<bool, CallError> {
        if status == 404 && self.introductions() == known {
            let now = self.clock.now();
            let last = Timestamp::from_millis(self.after_404.load(Ordering::Acquire));
            if last.millis() != i64::MIN && now.since(last) < AGAIN {
                return Ok(false);
            }
            self.after_404.store(now.millis(), Ordering::Release);
        }
        self.introduce_since(known).await.map(|()| true)
    }

    /// Registers the next keys in place of the current ones when a person has asked for that, else the current ones.
    async fn register(&self) -> Result<(), CallError> {
        if let Some(next) = self.keys.next() {
            let registration = KeyRegistration { rotate: true, ..next.registration() };
            match self.client.register_key(&registration).await {
                Ok(()) => {
                    self.keys.rotated(&next);
                    tracing::info!(fingerprint = next.signing.verifying_key().fingerprint(), "keys_rotated");
                    return Ok(());
                }
                Err(error) if error.is_worth_retrying() || error.status() == Some(401) => return Err(error),
                // A relay that does not let us rotate must not cost us the link: the old keys are good still.
                Err(error) => tracing::error!(%error, "keys_not_rotated"),
            }
        }
        match self.client.register_key(&self.keys.current().registration()).await {
            Ok(()) => self.lacks.has(Call::RegisterKey),
            // Whether the URL is wrong altogether, the announcements tell.
            Err(error) if error.is_not_offered() => self.lacks.note(Call::RegisterKey, &error),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Subscribes to the configured topics, and unsubscribes from those that have left the configuration. What the
    /// relay refuses alone stops nothing else.
    async fn subscribe(&self) -> Result<(), CallError> {
        let names = self.names.get();
        let wanted: Vec<_> = names
            .agents()
            .flat_map(|(_, agent)| agent.topics.iter().map(|topic| (agent.address.clone(), topic.clone())))
            .collect();
        for (address, topic) in &wanted {
            match self.client.subscribe(address, topic).await {
                // Remembered only now: the worst that a crash before this does is one subscription too many.
                Ok(()) => {
                    self.lacks.has(Call::Subscriptions);
                    self.remember(address, topic, true).await;
                }
                Err(error) if error.is_not_offered() => self.lacks.note(Call::Subscriptions, &error),
                Err(error) if error.is_worth_retrying() => return Err(error),
                Err(error) => tracing::error!(%address, %topic, %error, "topic_not_subscribed"),
            }
        }
        let remembered = match self.store.subscriptions().await {
            Ok(remembered) => remembered,
            Err(error) => {
                tracing::error!(%error, "subscriptions_unreadable");
                return Ok(());
            }
        };
        for (address, topic) in remembered.into_iter().filter(|one| !wanted.contains(one)) {
            match self.client.unsubscribe(&address, &topic).await {
                Ok(()) => self.remember(&address, &topic, false).await,
                Err(error) if error.is_worth_retrying() && !error.is_not_offered() => return Err(error),
                Err(error) => tracing::error!(%address, %topic, %error, "topic_not_unsubscribed"),
            }
        }
        Ok(())
    }

    async fn remember(&self, address: &AgentAddress, topic: &TopicAddress, listens: bool) {
        if let Err(error) = self.store.listens(address.clone(), topic.clone(), listens).await {
            tracing::error!(%address, %topic, %error, "subscription_not_kept");
        }
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
        self.names.get().agents().map(|(_, agent)| agent.address.clone()).collect()
    }
}

/// What a person can do about it.
fn explain(error: &CallError) -> String {
    match error.status() {
        Some(401) => format!("{error}: the relay does not know this token; put a valid one in place of it"),
        Some(409) => {
            format!(
                "{error}: the relay has another key for this node; put back the key file that belongs to this token, or run `redsyn-bridge keys rotate` to replace the key it has"
            )
        }
        Some(404) => format!(
            "{error}: an organisation, team or user of redsyn.scope is missing at the relay; make it there (see \
             docs/relay.md), correct redsyn.scope, or correct the URL in redsyn.relay"
        ),
        Some(400) => format!("{error}: the relay does not offer this API date; see redsyn.version"),
        _ => error.to_string(),
    }
}
