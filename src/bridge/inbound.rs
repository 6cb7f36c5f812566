//! The inbound pump of one agent: take → verify → open → keep in one transaction → ack.
//! A crash anywhere before the ack makes the relay deliver again; the seen row makes that a second ack and no more.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::acks::Owed;
use super::bells::Bells;
use super::events::{Event, Events};
use super::judge::Verdict;
use super::keys::KeyRing;
use super::link::Link;
use super::mapping::{self, Opened};
use super::names::CurrentNames;
use super::order::{Order, conversation};
use super::presence::Presence;
use super::release::Decided;
use crate::config::redsyn::MappedAgent;
use crate::crypto::sign::VerifyingKey;
use crate::domain::backoff::full_jitter;
use crate::domain::clock::{SharedClock, Timestamp};
use crate::domain::random::SharedRandom;
use crate::proto::dsh::names::{AgentName, brief};
use crate::proto::redsyn::address::{AddressedAgent, AgentAddress, Session, SessionId};
use crate::proto::redsyn::envelope::DeliveredEnvelope;
use crate::proto::redsyn::ids::{LEASE_DEFAULT_SECS, MessageId};
use crate::redsyn_client::{RelayClient, Take};
use crate::store::StoreError;
use crate::store::bridge::{Landed, Refusal, WaitsFor};
use crate::store::sqlite::bridge::BridgeStore;

/// How long to wait after our own store failed: the mail stays leased to us meanwhile.
const STORE_PAUSE: Duration = Duration::from_secs(1);
/// A call that was to be held and came back empty sooner than this was not held: a relay that does not know how
/// must not be asked without pause.
const HELD_AT_LEAST: Duration = Duration::from_secs(1);

/// Everything the inbound pumps share.
#[derive(Debug)]
pub struct Inbound {
    pub store: BridgeStore,
    pub client: RelayClient,
    pub link: Arc<Link>,
    pub keys: Arc<KeyRing>,
    pub names: Arc<CurrentNames>,
    pub presence: Arc<Presence>,
    pub events: Events,
    pub clock: SharedClock,
    pub random: SharedRandom,
    /// Rung when an error reply was put into the outbox.
    pub wake_outbound: Arc<tokio::sync::Notify>,
    /// Rings the agent that mail has come for.
    pub wakeups: Bells,
    /// What decisions about held mail have left to do.
    pub decided: Arc<Decided>,
}

impl Inbound {
    /// Takes for `agent` while it is alive, until `stop`.
    pub async fn run(self: Arc<Self>, agent: AgentName, mapped: MappedAgent, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => return,
            () = self.link.up() => {}
        }
        let mut failures = 0_u32;
        let order = Order::after_start(self.clock.now());
        let mut owed = Owed::nothing();
        loop {
            let awakening = tokio::select! {
                // Most of the time it is alive, and nothing is begun here that the next step would drop.
                biased;
                () = stop.cancelled() => return,
                awakening = self.presence.alive(&agent) => awakening,
                () = self.ack_again(&mapped, &mut owed) => continue,
            };
            // Somebody waits for the first look, so it must not be held.
            let is_awaited = self.presence.is_awaited(&agent);
            let wait_secs = if is_awaited {
                0
            } else {
                tokio::select! {
                    () = stop.cancelled() => return,
                    patience = self.patience(&agent, &mapped, &order, &mut owed) => match patience {
                        Some(secs) => secs,
                        None => continue,
                    },
                }
            };
            let take = Take { wait_secs, lease_secs: LEASE_DEFAULT_SECS };
            let (introductions, began) = (self.link.introductions(), self.clock.now());
            let taken = tokio::select! {
                // An answer that is lost here stays leased at the relay and comes again.
                () = stop.cancelled() => return,
                taken = self.client.take(&mapped.address, take) => taken,
                () = self.answer_awakenings(&agent, wait_secs) => continue,
                () = self.ack_again(&mapped, &mut owed) => continue,
            };
            match taken {
                Ok(items) => {
                    failures = 0;
                    self.link.found();
                    let until = self.clock.now().plus(Duration::from_secs(take.lease_secs));
                    let rest = items.is_empty() && !is_awaited;
                    // What is cut short here is neither lost nor doubled: it stays leased, and comes again.
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = self.take_in(&agent, &mapped, items, until, &order, &mut owed) => {}
                    }
                    if rest && self.clock.now().since(began) < HELD_AT_LEAST {
                        tokio::select! {
                            () = stop.cancelled() => return,
                            _ = self.presence.awaited(&agent) => {}
                            () = self.clock.sleep(HELD_AT_LEAST) => {}
                        }
                    }
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    if error.is_worth_retrying() {
                        order.doubt(self.clock.now());
                    }
                    if let Some(status @ (401 | 404)) = error.status() {
                        // The relay may have been replaced by an empty one.
                        tokio::select! {
                            () = stop.cancelled() => return,
                            introduced = self.link.introduce_again(introductions, status) => {
                                if let Err(error) = introduced {
                                    self.link.lost(&error);
                                }
                            }
                        }
                    } else {
                        self.link.lost(&error);
                    }
                    self.presence.looked(&agent, awakening);
                    let asked = error.retry_after();
                    tokio::select! {
                        () = stop.cancelled() => return,
                        // A call that has just brought the agent to life is worth a try of its own.
                        _ = self.presence.awaited(&agent), if asked.is_none() => {}
                        () = self.clock.sleep(full_jitter(failures, asked, &*self.random)) => {}
                    }
                }
            }
            self.presence.looked(&agent, awakening);
        }
    }

    /// While a call is held at the relay, whoever waits for a look has it already: mail would end the call at once.
    /// Never resolves, so that the held call is never dropped for it.
    async fn answer_awakenings(&self, agent: &AgentName, wait_secs: u64) {
        if wait_secs == 0 {
            return std::future::pending().await;
        }
        loop {
            let awakening = self.presence.awaited(agent).await;
            self.presence.looked(agent, awakening);
        }
    }

    /// Deals with what was taken and is leased until then, and acks it.
    pub(super) async fn take_in(
        &self,
        agent: &AgentName,
        mapped: &MappedAgent,
        items: Vec<Value>,
        until: Timestamp,
        order: &Order,
        owed: &mut Owed,
    ) {
        let done = self.deal_with(agent, mapped, items, until, order).await;
        if !done.is_empty() {
            owed.add(done, until);
            self.ack(mapped, owed).await;
        }
    }

    /// What to ack of it.
    async fn deal_with(
        &self,
        agent: &AgentName,
        mapped: &MappedAgent,
        items: Vec<Value>,
        until: Timestamp,
        order: &Order,
    ) -> Vec<MessageId> {
        // Only what belongs together has to wait for each other: the rest shares its commits.
        let groups = side_by_side(items).into_iter();
        let dealt = join_all(groups.map(|group| self.in_turn(agent, mapped, group, until, order)));
        let (done, whole): (Vec<_>, Vec<_>) = dealt.await.into_iter().unzip();
        if whole.contains(&false) {
            self.clock.sleep(STORE_PAUSE).await;
        }
        done.concat()
    }

    /// The ids to ack, and whether the store has kept up with all of it.
    async fn in_turn(
        &self,
        agent: &AgentName,
        mapped: &MappedAgent,
        items: Vec<Value>,
        until: Timestamp,
        order: &Order,
    ) -> (Vec<MessageId>, bool) {
        let mut done = Vec::with_capacity(items.len());
        let mut items = items.into_iter();
        while let Some(item) = items.next() {
            match self.one(agent, mapped, item, Some(until), order).await {
                Ok(id) => done.extend(id),
                Err(Left) => {
                    // What follows must not overtake it: all of it comes again after its lease.
                    for envelope in items.filter_map(|item| DeliveredEnvelope::parse(item).ok()) {
                        order.wait_for(conversation(&envelope), envelope.id, self.clock.now());
                    }
                    return (done, false);
                }
            }
        }
        (done, true)
    }

    /// The id to ack, if any. What is not dealt with comes again, and its conversation waits for it. `until`: when its
    /// lease ends; `None` for what was taken long ago.
    pub(super) async fn one(
        &self,
        agent: &AgentName,
        mapped: &MappedAgent,
        item: Value,
        until: Option<Timestamp>,
        order: &Order,
    ) -> Result<Option<MessageId>, Left> {
        let named = item.get("id").and_then(Value::as_str).map(|id| brief(id).to_owned());
        let envelope = match DeliveredEnvelope::parse(item) {
            Ok(envelope) => envelope,
            Err(error) => {
                tracing::warn!(id = ?named.as_deref().unwrap_or("?"), %error, "inbound_not_an_envelope");
                return Ok(None);
            }
        };
        let (id, conversation) = (envelope.id.clone(), conversation(&envelope));
        let dealt = self.deal_with_one(agent, mapped, envelope, until, order).await;
        if let (Ok(Dealt::Held), Some(until)) = (&dealt, until) {
            order.comes_back(until);
        }
        match &dealt {
            Ok(Dealt::Ack | Dealt::Held) => order.came(&conversation, &id),
            Ok(Dealt::Later) | Err(Left) => order.wait_for(conversation, id.clone(), self.clock.now()),
        }
        dealt.map(|dealt| (dealt == Dealt::Ack).then_some(id))
    }

    async fn deal_with_one(
        &self,
        agent: &AgentName,
        mapped: &MappedAgent,
        envelope: DeliveredEnvelope,
        until: Option<Timestamp>,
        order: &Order,
    ) -> Result<Dealt, Left> {
        let (id, kind) = (envelope.id.clone(), envelope.kind);
        // Before any judgement: what was delivered once is not held because pins have changed since.
        let person = envelope.from.agent.person();
        let doubt = order.doubts(&envelope, self.clock.now());
        let thread = doubt.as_ref().and_then(|doubt| doubt.thread.clone());
        let known = self.store.known(agent.clone(), id.clone(), person, thread).await;
        let known = known.map_err(|error| left(&id, &error))?;
        if known.is_seen {
            return Ok(Dealt::Ack);
        }
        if self.comes_too_early(agent, mapped, &envelope, order, doubt, known.thread_since).await? {
            return Ok(Dealt::Later);
        }
        let session = own_session(&envelope);
        match self.judge(agent, mapped, &envelope, &known.pins).await {
            Verdict::Deliver { signer, opened } => {
                self.deliver(agent, mapped, envelope, until, session, signer, *opened).await
            }
            Verdict::Refuse { why } => {
                let refusal = Refusal {
                    agent: agent.clone(),
                    address: mapped.address.clone(),
                    id: id.clone(),
                    kind,
                    from: envelope.from,
                    session,
                    thread: envelope.thread,
                    reason: why.clone(),
                    now: self.clock.now(),
                };
                match self.store.refuse(refusal).await {
                    Ok(()) => {
                        self.events.emit(Event::Refused { id, kind, why });
                        self.wake_outbound.notify_one();
                        Ok(Dealt::Ack)
                    }
                    Err(error) => Err(left(&id, &error)),
                }
            }
            Verdict::Hold { why, key, waits_for } => {
                self.hold(agent, &envelope, until, Waits { why, key, waits_for }).await
            }
            Verdict::Leave { why } => Err(left(&id, &why)),
            Verdict::Later { why } => {
                // What one sender's message lacks must not cost the others theirs.
                tracing::warn!(id = ?brief(id.as_str()), %kind, error = %why, "inbound_not_complete");
                Ok(Dealt::Later)
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one delivery, each made by another step")]
    async fn deliver(
        &self,
        agent: &AgentName,
        mapped: &MappedAgent,
        envelope: DeliveredEnvelope,
        until: Option<Timestamp>,
        session: Option<SessionId>,
        signer: Option<(VerifyingKey, bool)>,
        opened: Opened,
    ) -> Result<Dealt, Left> {
        let (id, kind) = (envelope.id.clone(), envelope.kind);
        let key = signer.as_ref().map(|(key, _)| *key);
        self.events.emit(Event::Checked {
            id: id.clone(),
            kind,
            from: envelope.from.agent.clone(),
            fingerprint: signer.as_ref().map(|(key, _)| key.fingerprint()),
            sealed: envelope.body.is_encrypted(),
        });
        let expires_at = envelope.expires.map(|secs| self.client.to_local(Timestamp::from_secs(secs)));
        let arrival = mapping::arrival(mapping::Delivery {
            agent,
            mapped,
            envelope: &envelope,
            session,
            signer,
            opened,
            expires_at,
            names: &self.names.get(),
            now: self.clock.now(),
        });
        let (bells, inbox) = (self.wakeups.clone(), agent.clone());
        let ring = move |landed: &Landed| {
            if *landed == Landed::Delivered {
                bells.wake(&inbox);
            }
        };
        match self.store.arrive(arrival, ring).await {
            Ok(Landed::Delivered) => {
                self.events.emit(Event::Delivered { id, kind, agent: agent.to_string() });
                Ok(Dealt::Ack)
            }
            Ok(Landed::Seen) => Ok(Dealt::Ack),
            Ok(Landed::Unasked) => {
                let why = "it answers nothing that was asked of its sender".to_owned();
                self.events.emit(Event::Refused { id, kind, why });
                Ok(Dealt::Ack)
            }
            Ok(Landed::Held) => {
                let why = "its signing key is not the pinned one".to_owned();
                self.hold(agent, &envelope, until, Waits { why, key, waits_for: WaitsFor::Acceptance }).await
            }
            Ok(Landed::Behind) => {
                let why = "earlier mail of its conversation is not delivered yet".to_owned();
                self.hold(agent, &envelope, until, Waits { why, key, waits_for: WaitsFor::Earlier }).await
            }
            Err(error) => Err(left(&id, &error)),
        }
    }
}

/// The items of one take, in groups that need not wait for each other: each conversation is one, in its order. Those
/// with files are one together, since files are large and each is in memory until it is kept.
fn side_by_side(items: Vec<Value>) -> Vec<Vec<Value>> {
    let text = |item: &Value, name: &str| item.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
    let mut places = HashMap::new();
    let mut groups: Vec<Vec<Value>> = Vec::new();
    for item in items {
        let from = text(&item, "from").map(|from| from.split('#').next().unwrap_or_default().to_owned());
        let place = *places.entry((from, text(&item, "thread"))).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    let has_files =
        |group: &Vec<Value>| group.iter().any(|item| item.get("files").is_some_and(|f| !f.is_null()));
    let (with_files, mut groups): (Vec<_>, Vec<_>) = groups.into_iter().partition(has_files);
    groups.push(with_files.into_iter().flatten().collect());
    groups
}

/// What must stay in order: a remote agent and a thread with it.
pub(super) type Conversation = (AgentAddress, Option<String>);

/// What has become of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dealt {
    /// It is kept or refused: the relay need not deliver it again.
    Ack,
    /// It waits for a person.
    Held,
    /// It comes again.
    Later,
}

/// Why a message is held.
pub(super) struct Waits {
    pub(super) why: String,
    pub(super) key: Option<VerifyingKey>,
    pub(super) waits_for: WaitsFor,
}

/// Our own store has failed: the message was neither kept nor acked, and comes again after its lease.
pub(super) struct Left;

pub(super) fn left(id: &MessageId, error: &StoreError) -> Left {
    tracing::error!(id = ?brief(id.as_str()), %error, "inbound_not_kept");
    Left
}

fn own_session(envelope: &DeliveredEnvelope) -> Option<SessionId> {
    let to: AddressedAgent = envelope.to.parse().ok()?;
    match to.session? {
        Session::Id(id) => Some(id),
        Session::New => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conversations_go_side_by_side_and_files_one_after_the_other() {
        let item = |id: &str, from: &str, thread: &str, files: Value| json!({"id": id, "from": from, "thread": thread, "files": files});
        let groups = side_by_side(vec![
            item("a1", "o/t/u/a#s1", "t1", Value::Null),
            item("b1", "o/t/u/b#s1", "t1", Value::Null),
            item("c1", "o/t/u/a#s3", "t3", json!({"bytes": 1})),
            item("a2", "o/t/u/a#s2", "t1", Value::Null),
            item("d1", "o/t/u/a#s1", "t4", Value::Null),
            item("d2", "o/t/u/a#s1", "t4", json!({"bytes": 1})),
        ]);
        let ids: Vec<Vec<_>> = groups
            .iter()
            .map(|group| group.iter().map(|item| item["id"].as_str().unwrap()).collect())
            .collect();
        assert_eq!(ids, [vec!["a1", "a2"], vec!["b1"], vec!["c1", "d1", "d2"]]);
    }
}
