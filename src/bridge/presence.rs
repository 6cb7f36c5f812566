//! Which local agents are alive, since only their mailboxes are taken from: registered, pulled or
//! polled within ninety seconds, or held open by `hold: true`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::watch;

use crate::domain::clock::{SharedClock, Timestamp};
use crate::proto::dsh::names::AgentName;

/// How long an agent counts as alive after its last call.
const ALIVE_FOR: Duration = Duration::from_secs(90);
/// How long the call that brings an agent to life waits for one look into its remote mailbox.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// The agents with an address, and when they were last heard.
#[derive(Debug)]
pub struct Presence {
    clock: SharedClock,
    agents: RwLock<HashMap<AgentName, Arc<Agent>>>,
}

#[derive(Debug)]
struct Agent {
    hold: bool,
    last: Mutex<Option<Timestamp>>,
    /// Counts how often the agent came to life; the inbound pump waits on it.
    awakened: watch::Sender<u64>,
    /// The last awakening after which a take was completed.
    looked: watch::Sender<u64>,
}

impl Presence {
    /// `agents` with their `hold` flag.
    pub fn new(agents: impl IntoIterator<Item = (AgentName, bool)>, clock: SharedClock) -> Self {
        let presence = Self { clock, agents: RwLock::default() };
        presence.replace(agents);
        presence
    }

    /// Other agents from now on. What stays as it was goes on unnoticed; a changed `hold` begins anew.
    pub fn replace(&self, agents: impl IntoIterator<Item = (AgentName, bool)>) {
        let mut known = self.agents.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *known);
        known.extend(agents.into_iter().map(|(name, hold)| {
            let agent = match before.get(&name) {
                Some(agent) if agent.hold == hold => Arc::clone(agent),
                _ => Arc::new(Agent {
                    hold,
                    last: Mutex::new(None),
                    awakened: watch::Sender::new(0),
                    looked: watch::Sender::new(0),
                }),
            };
            (name, agent)
        }));
    }

    fn agent(&self, name: &AgentName) -> Option<Arc<Agent>> {
        self.agents.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Notes a call of `agent`. When it came to life by this call, resolves after the first look into its
    /// mailbox, or after a second; otherwise at once.
    pub async fn touched(&self, agent: &AgentName) {
        let Some(state) = self.agent(agent) else { return };
        let mut looked = state.looked.subscribe();
        let awakening = {
            // Under the lock that `is_alive` takes: whoever sees the agent alive sees this awakening, too.
            let Ok(mut last) = state.last.lock() else { return };
            let now = self.clock.now();
            let was_alive = last.replace(now).is_some_and(|last| now.since(last) < ALIVE_FOR);
            if was_alive || state.hold {
                return;
            }
            state.awakened.send_modify(|count| *count += 1);
            *state.awakened.borrow()
        };
        tokio::select! {
            _ = looked.wait_for(|count| *count >= awakening) => {}
            () = self.clock.sleep(FIRST_LOOK) => {}
        }
    }

    /// Whether mail is taken for `agent` now.
    pub fn is_alive(&self, agent: &AgentName) -> bool {
        self.agent(agent).is_some_and(|state| {
            let Ok(last) = state.last.lock() else { return state.hold };
            state.hold || last.is_some_and(|last| self.clock.now().since(last) < ALIVE_FOR)
        })
    }

    /// Resolves once `agent` is alive, with the awakening to report back with [`Presence::looked`].
    pub async fn alive(&self, agent: &AgentName) -> u64 {
        let Some(state) = self.agent(agent) else { return std::future::pending().await };
        let mut awakened = state.awakened.subscribe();
        while !self.is_alive(agent) {
            if awakened.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
        *awakened.borrow()
    }

    /// A take that began after the awakening has been dealt with.
    pub fn looked(&self, agent: &AgentName, awakening: u64) {
        if let Some(state) = self.agent(agent) {
            state.looked.send_modify(|count| *count = (*count).max(awakening));
        }
    }

    /// Resolves once a call waits for a first look into the mailbox of `agent`, with the awakening to report back.
    pub async fn awaited(&self, agent: &AgentName) -> u64 {
        let Some(state) = self.agent(agent) else { return std::future::pending().await };
        let mut awakened = state.awakened.subscribe();
        while !self.is_awaited(agent) {
            if awakened.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
        *awakened.borrow()
    }

    /// Whether a call is waiting for a first look into the mailbox of `agent`.
    pub fn is_awaited(&self, agent: &AgentName) -> bool {
        self.agent(agent).is_some_and(|state| *state.awakened.borrow() > *state.looked.borrow())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::clock::ManualClock;

    fn presence(hold: bool) -> (Arc<Presence>, ManualClock, AgentName) {
        let clock = ManualClock::at(Timestamp::from_secs(1000));
        let name: AgentName = AgentName::parse("close").unwrap();
        (Arc::new(Presence::new([(name.clone(), hold)], Arc::new(clock.clone()))), clock, name)
    }

    #[tokio::test]
    async fn the_first_call_waits_for_one_look_and_the_next_does_not() {
        let (presence, _clock, name) = presence(false);
        let first = tokio::spawn({
            let (presence, name) = (Arc::clone(&presence), name.clone());
            async move { presence.touched(&name).await }
        });
        let awakening = presence.alive(&name).await;
        assert!(!first.is_finished());
        presence.looked(&name, awakening);
        first.await.unwrap();
        presence.touched(&name).await;
    }

    #[tokio::test]
    async fn the_first_call_waits_no_longer_than_a_second() {
        let (presence, clock, name) = presence(false);
        let first = tokio::spawn({
            let (presence, name) = (Arc::clone(&presence), name.clone());
            async move { presence.touched(&name).await }
        });
        presence.alive(&name).await;
        tokio::task::yield_now().await;
        clock.advance(FIRST_LOOK);
        first.await.unwrap();
    }

    #[tokio::test]
    async fn an_agent_dies_after_ninety_seconds_unless_it_is_held() {
        let (held, clock, name) = presence(true);
        assert!(held.is_alive(&name));
        clock.advance(ALIVE_FOR * 2);
        assert!(held.is_alive(&name));

        let (presence, clock, name) = presence(false);
        assert!(!presence.is_alive(&name));
        let touch = presence.touched(&name);
        tokio::pin!(touch);
        assert!(futures_util::poll!(&mut touch).is_pending());
        clock.advance(ALIVE_FOR - Duration::from_millis(1));
        assert!(presence.is_alive(&name));
        clock.advance(Duration::from_millis(1));
        assert!(!presence.is_alive(&name));
    }

    #[tokio::test]
    async fn strangers_do_not_wait() {
        let (presence, _clock, _name) = presence(false);
        presence.touched(&AgentName::parse("other").unwrap()).await;
    }
}
