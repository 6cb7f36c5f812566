//! Mail that waits for a person: a copy of it, with its files, is kept here. It is not acked (mapping §8), and a relay
//! gives up what was taken ten times: so it is left with the relay as long as it may wait (docs/decisions/held-mail.md).

use std::time::Duration;

use super::acks::Owed;
use super::events::Event;
use super::inbound::{Dealt, Inbound, Left, Waits, left};
use super::order::Order;
use crate::config::redsyn::MappedAgent;
use crate::crypto::sha256;
use crate::domain::clock::Timestamp;
use crate::proto::dsh::names::{AgentName, brief};
use crate::proto::redsyn::envelope::DeliveredEnvelope;
use crate::proto::redsyn::ids::{LEASE_DEFAULT_SECS, TTL_MAX_SECS, WAIT_MAX_SECS};
use crate::redsyn_client::Take;
use crate::store::StoreError;
use crate::store::bridge::{Held, Holding};

/// How long before held mail comes back no call is held at the relay any more: the relay's lease began before we had
/// its answer.
const BEFORE: Duration = Duration::from_secs(5);
/// How long after that moment it is looked for: the relay may have given it up meanwhile.
const AFTER: Duration = Duration::from_secs(30);
/// By how many seconds a lease outlasts the message: its end and the relay's clock are told in whole seconds.
const PAST_THE_END: u64 = 5;

impl Inbound {
    pub(super) async fn hold(
        &self,
        agent: &AgentName,
        envelope: &DeliveredEnvelope,
        until: Option<Timestamp>,
        Waits { why, key, waits_for }: Waits,
    ) -> Result<Dealt, Left> {
        let failed = |error| left(&envelope.id, &error);
        let zip = self.files_to_hold(agent, envelope).await.map_err(failed)?;
        let held = Held {
            agent: agent.clone(),
            id: envelope.id.clone(),
            person: envelope.from.agent.person(),
            reason: why.clone(),
            envelope: envelope.raw().clone().into(),
            key: key.map(|key| key.to_string()),
            waits_for,
            zip,
            leased_until: until,
            now: self.clock.now(),
        };
        let Holding { goes_on, dropped } = self.store.hold_arrival(held).await.map_err(failed)?;
        self.events.emit(Event::HeldIn { id: envelope.id.clone(), kind: envelope.kind, why });
        if !dropped.is_empty() {
            tracing::warn!(count = dropped.len(), "held_mail_refused_for_newer");
            self.wake_outbound.notify_one();
        }
        if goes_on {
            self.decided.ring();
        }
        Ok(Dealt::Held)
    }

    /// The zip as it travelled. What the relay does not give now is asked for again when the message comes back, or is
    /// accepted.
    async fn files_to_hold(
        &self,
        agent: &AgentName,
        envelope: &DeliveredEnvelope,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(info) = &envelope.files else { return Ok(None) };
        let (id, person) = (envelope.id.clone(), envelope.from.agent.person());
        if !self.store.has_room_for_files(agent.clone(), id, person, info.bytes).await? {
            return Ok(None);
        }
        match self.client.files(&envelope.id).await {
            Ok(zip) => Ok(Some(zip).filter(|zip| sha256::hex(zip) == info.sha256)),
            Err(error) => {
                tracing::info!(id = ?brief(envelope.id.as_str()), %error, "held_files_not_kept");
                Ok(None)
            }
        }
    }

    /// How many seconds the next take may be held: not beyond the moment when held mail comes back, or it would be
    /// taken along, and after ten takes given up. `None`: it has come back and was seen to; look again.
    pub(super) async fn patience(
        &self,
        agent: &AgentName,
        mapped: &MappedAgent,
        order: &Order,
        owed: &mut Owed,
    ) -> Option<u64> {
        let now = self.clock.now();
        let secs = |back: Option<Timestamp>| {
            back.map_or(WAIT_MAX_SECS, |back| back.minus(BEFORE).since(now).as_secs().min(WAIT_MAX_SECS))
        };
        // Most agents have no held mail, and no take of theirs waits for the store.
        let known = secs(order.back());
        if known > 0 {
            return Some(known);
        }
        match self.store.held_back(agent.clone(), now.minus(AFTER)).await {
            Ok(back) => order.is_back_at(back),
            Err(error) => {
                tracing::error!(%agent, %error, "held_mail_unreadable");
                return Some(WAIT_MAX_SECS);
            }
        }
        match secs(order.back()) {
            0 => (!self.lease_again(agent, mapped, order, owed).await).then_some(0),
            secs => Some(secs),
        }
    }

    /// Takes held mail that has come back for as long as it may wait. Not when other mail waits with it: were the answer
    /// lost, that would be away as long.
    async fn lease_again(
        &self,
        agent: &AgentName,
        mapped: &MappedAgent,
        order: &Order,
        owed: &mut Owed,
    ) -> bool {
        let Ok(shown) = self.client.peek(&mapped.address).await else { return false };
        let shown: Result<Vec<_>, _> = shown.into_iter().map(DeliveredEnvelope::parse).collect();
        let Some(shown) = shown.ok().filter(|shown| !shown.is_empty()) else { return false };
        let ids = shown.iter().map(|envelope| envelope.id.clone()).collect();
        if !matches!(self.store.first_unknown(agent.clone(), ids).await, Ok(None)) {
            return false;
        }
        let relay_now = self.client.relay_now().secs();
        let left = shown.iter().filter_map(|envelope| envelope.expires).max().unwrap_or(i64::MAX);
        let left = u64::try_from(left.saturating_sub(relay_now)).unwrap_or(0);
        let lease_secs = left.saturating_add(PAST_THE_END).clamp(LEASE_DEFAULT_SECS, TTL_MAX_SECS);
        match self.client.take(&mapped.address, Take { wait_secs: 0, lease_secs }).await {
            Ok(items) if items.is_empty() => false,
            Ok(items) => {
                let until = self.clock.now().plus(Duration::from_secs(lease_secs));
                self.take_in(agent, mapped, items, until, order, owed).await;
                true
            }
            Err(error) => {
                tracing::info!(%agent, %error, "held_mail_not_leased");
                order.doubt(self.clock.now());
                false
            }
        }
    }
}
