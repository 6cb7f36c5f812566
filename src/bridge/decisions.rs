//! What a person decides about keys and held mail, with what follows from it here. Works on the store alone when
//! nothing runs: then what was set free goes on at the next start.

use std::sync::Arc;

use tokio::sync::Notify;

use super::bells::Bells;
use super::events::{Event, Events};
use super::mapping;
use super::names::CurrentNames;
use super::release::Decided;
use crate::domain::clock::SharedClock;
use crate::proto::redsyn::address::{AgentAddress, Person};
use crate::store::StoreError;
use crate::store::bridge::{Acceptance, Confirmation, Failure, Released};
use crate::store::sqlite::bridge::BridgeStore;

/// The word for outbound mail that failed since a person rejected the recipient's key.
const KEY_CHANGED: &str = "key_changed";

/// Where decisions are made. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Decisions {
    pub store: BridgeStore,
    pub names: Arc<CurrentNames>,
    pub events: Events,
    pub clock: SharedClock,
    /// Rings the outbound pump.
    pub wake_outbound: Arc<Notify>,
    /// Rings the senders of what failed.
    pub wakeups: Bells,
    pub decided: Arc<Decided>,
}

impl Decisions {
    /// For a store that no pump works on.
    pub fn without_pumps(store: BridgeStore, names: Arc<CurrentNames>, clock: SharedClock) -> Self {
        Self {
            store,
            names,
            events: Events::default(),
            clock,
            wake_outbound: Arc::default(),
            wakeups: Bells::default(),
            decided: Arc::default(),
        }
    }

    /// # Errors
    /// When the store fails, as everywhere below; then nothing was decided.
    pub async fn accept(
        &self,
        person: Person,
        fingerprint: Option<String>,
    ) -> Result<Acceptance, StoreError> {
        let accepted = self.store.accept_key(person, fingerprint, self.clock.now()).await?;
        self.ring();
        Ok(accepted)
    }

    /// # Errors
    /// See [`Decisions::accept`].
    pub async fn confirm(&self, person: Person, fingerprint: String) -> Result<Confirmation, StoreError> {
        let confirmed = self.store.confirm_key(person, fingerprint, self.clock.now()).await?;
        self.ring();
        Ok(confirmed)
    }

    /// Drops what is held of and for the person: remote senders get an error reply, local ones a notice.
    ///
    /// # Errors
    /// See [`Decisions::accept`]; what was dropped until then stays so, and the rest waits as before.
    pub async fn reject(&self, person: Person) -> Result<Released, StoreError> {
        let now = self.clock.now();
        let inbound = self.store.reject_held(person.clone(), now).await?;
        let mut rejected = Released { inbound: inbound.len(), outbound: 0 };
        self.decided.rejected(inbound);
        for held in self.store.held_out().await? {
            if held.entry.remote.person() != Some(person.clone()) {
                continue;
            }
            let why = format!("a person here rejected it: {}", held.reason);
            let notice = mapping::undelivered(&held.entry, &self.names.get(), KEY_CHANGED, &why, now);
            let (id, kind, agent) = (held.entry.id.clone(), held.entry.kind, held.entry.agent.clone());
            let failure = Failure { entry: held.entry, code: KEY_CHANGED, reason: why.clone(), now };
            self.store.failed(failure, notice).await?;
            self.wakeups.wake(&agent);
            self.events.emit(Event::Failed { id, kind, code: KEY_CHANGED, why });
            rejected.outbound += 1;
        }
        self.ring();
        Ok(rejected)
    }

    /// # Errors
    /// See [`Decisions::accept`].
    pub async fn allow_plain(
        &self,
        person: Person,
        address: Option<AgentAddress>,
    ) -> Result<Option<Released>, StoreError> {
        let allowed = self.store.allow_plain(person, address, self.clock.now()).await?;
        self.ring();
        Ok(allowed)
    }

    /// # Errors
    /// See [`Decisions::accept`].
    pub async fn allow_unsigned(&self, person: Person) -> Result<Released, StoreError> {
        let allowed = self.store.allow_unsigned(person, self.clock.now()).await?;
        self.ring();
        Ok(allowed)
    }

    fn ring(&self) {
        self.wake_outbound.notify_one();
        self.decided.ring();
    }
}
