//! The inbound pump of one agent: take → verify → open → keep in one transaction → ack (mapping §6, §8).
//! A crash anywhere before the ack makes the relay deliver again; the seen row makes that a second ack and no more.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::events::{Event, Events};
use super::keys::NodeKeys;
use super::link::Link;
use super::mapping::{self, Opened};
use super::names::Names;
use super::presence::Presence;
use crate::config::redsyn::{Accept, MappedAgent};
use crate::crypto::seal as sealing;
use crate::crypto::sealed_content::SealedContent;
use crate::crypto::sign::VerifyingKey;
use crate::domain::backoff::full_jitter;
use crate::domain::clock::{SharedClock, Timestamp};
use crate::domain::random::SharedRandom;
use crate::domain::wakeups::Wakeups;
use crate::proto::dsh::names::AgentName;
use crate::proto::redsyn::address::{AddressedAgent, Session, SessionId};
use crate::proto::redsyn::body::{Body, BodyView};
use crate::proto::redsyn::envelope::DeliveredEnvelope;
use crate::proto::redsyn::ids::{
    Kind, LEASE_DEFAULT_SECS, MessageId, SIGNATURE_WINDOW_SECS, TTL_MAX_SECS, WAIT_MAX_SECS,
};
use crate::proto::redsyn::signed;
use crate::redsyn_client::{RelayClient, Take};
use crate::store::StoreError;
use crate::store::bridge::{Held, Landed, PinState, Refusal};
use crate::store::sqlite::bridge::BridgeStore;

/// How long to wait after our own store failed: the mail stays leased to us meanwhile.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// Everything the inbound pumps share.
#[derive(Debug)]
pub struct Inbound {
    pub store: BridgeStore,
    pub client: RelayClient,
    pub link: Arc<Link>,
    pub keys: Arc<NodeKeys>,
    pub names: Arc<Names>,
    pub presence: Arc<Presence>,
    pub events: Events,
    pub clock: SharedClock,
    pub random: SharedRandom,
    /// Rung when an error reply was put into the outbox.
    pub wake_outbound: Arc<tokio::sync::Notify>,
    /// Rings the agent that mail has come for.
    pub wakeups: Wakeups<AgentName>,
}

/// What is to be done with a delivered envelope.
enum Verdict {
    Deliver {
        signer: Option<(VerifyingKey, bool)>,
        opened: Box<Opened>,
    },
    Refuse {
        why: String,
    },
    Hold {
        why: String,
    },
    /// A failure of our own: neither keep nor ack; the lease brings it back.
    Leave {
        why: StoreError,
    },
}

impl Inbound {
    /// Takes for `agent` while it is alive, until `stop`.
    pub async fn run(self: Arc<Self>, agent: AgentName, mapped: MappedAgent, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => return,
            () = self.link.up() => {}
        }
        let mut failures = 0_u32;
        loop {
            let awakening = tokio::select! {
                () = stop.cancelled() => return,
                awakening = self.presence.alive(&agent) => awakening,
            };
            // Somebody waits for the first look, so it must not be held.
            let wait_secs = if self.presence.is_awaited(&agent) { 0 } else { WAIT_MAX_SECS };
            let take = Take { wait_secs, lease_secs: LEASE_DEFAULT_SECS };
            let taken = tokio::select! {
                // An answer that is lost here stays leased at the relay and comes again.
                () = stop.cancelled() => return,
                taken = self.client.take(&mapped.address, take) => taken,
                () = self.answer_awakenings(&agent, wait_secs) => continue,
            };
            match taken {
                Ok(items) => {
                    failures = 0;
                    self.link.found();
                    self.deal_with(&agent, &mapped, items).await;
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    if error.status() == Some(404) || error.status() == Some(401) {
                        // The relay may have been replaced by an empty one.
                        if let Err(error) = self.link.introduce().await {
                            self.link.lost(&error);
                        }
                    } else {
                        self.link.lost(&error);
                    }
                    self.presence.looked(&agent, awakening);
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = self.clock.sleep(full_jitter(failures, error.retry_after(), &*self.random)) => {}
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

    async fn deal_with(&self, agent: &AgentName, mapped: &MappedAgent, items: Vec<Value>) {
        let mut done = Vec::with_capacity(items.len());
        for item in items {
            if let Some(id) = self.one(agent, mapped, item).await {
                done.push(id);
            }
        }
        if done.is_empty() {
            return;
        }
        match self.client.ack(&mapped.address, &done).await {
            Ok(()) => self.events.emit(Event::Acked { ids: done }),
            // They come again after their lease, and are then acked as seen.
            Err(error) => {
                self.link.lost(&error);
                tracing::warn!(%error, count = done.len(), "inbound_ack_failed");
            }
        }
    }

    /// The id to ack, if any.
    async fn one(&self, agent: &AgentName, mapped: &MappedAgent, item: Value) -> Option<MessageId> {
        let envelope = match DeliveredEnvelope::parse(item.clone()) {
            Ok(envelope) => envelope,
            Err(error) => {
                let id = item.get("id").and_then(Value::as_str).unwrap_or("?");
                tracing::warn!(id, %error, "inbound_not_an_envelope");
                return None;
            }
        };
        let (id, kind) = (envelope.id.clone(), envelope.kind);
        let session = own_session(&envelope);
        match self.judge(mapped, &envelope).await {
            Verdict::Deliver { signer, opened } => {
                self.deliver(agent, mapped, envelope, item, session, signer, *opened).await
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
                        self.events.emit(Event::Refused { id: id.clone(), kind, why });
                        self.wake_outbound.notify_one();
                        Some(id)
                    }
                    Err(error) => self.left(&id, &error).await,
                }
            }
            Verdict::Hold { why } => self.hold(agent, &envelope, item, why).await,
            Verdict::Leave { why } => self.left(&id, &why).await,
        }
    }

    async fn left(&self, id: &MessageId, error: &StoreError) -> Option<MessageId> {
        tracing::error!(%id, %error, "inbound_not_kept");
        self.clock.sleep(STORE_PAUSE).await;
        None
    }

    async fn hold(
        &self,
        agent: &AgentName,
        envelope: &DeliveredEnvelope,
        item: Value,
        why: String,
    ) -> Option<MessageId> {
        let held = Held {
            agent: agent.clone(),
            id: envelope.id.clone(),
            person: envelope.from.agent.person(),
            reason: why.clone(),
            envelope: item,
            now: self.clock.now(),
        };
        match self.store.hold_arrival(held).await {
            Ok(()) => {
                self.events.emit(Event::HeldIn { id: envelope.id.clone(), kind: envelope.kind, why });
                None
            }
            Err(error) => self.left(&envelope.id, &error).await,
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one delivery, each made by another step")]
    async fn deliver(
        &self,
        agent: &AgentName,
        mapped: &MappedAgent,
        envelope: DeliveredEnvelope,
        item: Value,
        session: Option<SessionId>,
        signer: Option<(VerifyingKey, bool)>,
        opened: Opened,
    ) -> Option<MessageId> {
        let (id, kind) = (envelope.id.clone(), envelope.kind);
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
            names: &self.names,
            now: self.clock.now(),
        });
        match self.store.arrive(arrival).await {
            Ok(Landed::Delivered) => {
                self.wakeups.wake(agent);
                self.events.emit(Event::Delivered { id: id.clone(), kind, agent: agent.to_string() });
                Some(id)
            }
            Ok(Landed::Seen) => Some(id),
            Ok(Landed::Unasked) => {
                let why = "it answers nothing that was asked of its sender".to_owned();
                self.events.emit(Event::Refused { id: id.clone(), kind, why });
                Some(id)
            }
            Ok(Landed::Held) => {
                self.hold(agent, &envelope, item, "its signing key is not the pinned one".into()).await
            }
            Err(error) => self.left(&id, &error).await,
        }
    }

    async fn judge(&self, mapped: &MappedAgent, envelope: &DeliveredEnvelope) -> Verdict {
        let refuse = |why: &str| Verdict::Refuse { why: why.to_owned() };
        if !is_for(mapped, envelope) {
            return refuse("it is addressed to somebody else");
        }
        let signer = match self.signer(mapped, envelope).await {
            Ok(signer) => signer,
            Err(verdict) => return verdict,
        };
        if mapped.accept == Accept::Encrypted
            && envelope.kind == Kind::Request
            && !envelope.body.is_encrypted()
        {
            return refuse("only encrypted requests are taken here");
        }
        match self.open(envelope) {
            Ok(opened) => Verdict::Deliver { signer, opened: Box::new(opened) },
            Err(why) => Verdict::Refuse { why },
        }
    }

    /// The verified signing key and whether a person has confirmed it; `None` for mail that may be unsigned.
    async fn signer(
        &self,
        mapped: &MappedAgent,
        envelope: &DeliveredEnvelope,
    ) -> Result<Option<(VerifyingKey, bool)>, Verdict> {
        let refuse = |why: &str| Verdict::Refuse { why: why.to_owned() };
        let leave = |why: StoreError| Verdict::Leave { why };
        let person = envelope.from.agent.person();
        if !envelope.has_signature() {
            if is_relay_notice(envelope) {
                return Ok(None);
            }
            if mapped.accept != Accept::Any && envelope.kind == Kind::Request {
                return Err(refuse("only signed requests are taken here"));
            }
            if self.store.has_pin(person.clone()).await.map_err(leave)? {
                let why = format!("{person} has a pinned key and sends unsigned");
                return Err(Verdict::Hold { why });
            }
            return Ok(None);
        }
        let signer = signed::check_delivered(envelope.raw())
            .map_err(|error| refuse(&format!("the signature does not hold: {error}")))?;
        if !is_timely(envelope.ts, self.client.relay_now()) {
            return Err(refuse("its signature is older than any message can be, or from the future"));
        }
        match self.store.pin_state(person.clone(), signer.key).await.map_err(leave)? {
            PinState::First => Ok(Some((signer.key, false))),
            PinState::Known { verified } => Ok(Some((signer.key, verified))),
            PinState::Other => {
                let fingerprint = signer.key.fingerprint();
                Err(Verdict::Hold {
                    why: format!("{person} has another key than the pinned one: {fingerprint}"),
                })
            }
        }
    }

    fn open(&self, envelope: &DeliveredEnvelope) -> Result<Opened, String> {
        let BodyView::Encrypted(enc) = envelope.body.view() else {
            return Ok(Opened {
                body: envelope.body.clone(),
                refs: envelope.refs.clone(),
                reply_key: None,
                encrypted: false,
            });
        };
        const CANNOT: &str = "cannot decrypt";
        let plaintext = sealing::open(&self.keys.enc, envelope.id.as_str(), envelope.kind.as_str(), &enc)
            .map_err(|error| format!("{CANNOT}: {error}"))?;
        let content = SealedContent::parse(&plaintext)
            .map_err(|_| format!("{CANNOT}: what was sealed is not a message"))?;
        let body = Body::parse(content.body).map_err(|error| format!("{CANNOT}: {error}"))?;
        if body.is_encrypted() {
            return Err(format!("{CANNOT}: what was sealed is sealed again"));
        }
        let reply_key = Some(content.reply_key).filter(|key| !key.is_empty());
        Ok(Opened { body, refs: content.refs, reply_key, encrypted: true })
    }
}

fn own_session(envelope: &DeliveredEnvelope) -> Option<SessionId> {
    let to: AddressedAgent = envelope.to.parse().ok()?;
    match to.session? {
        Session::Id(id) => Some(id),
        Session::New => None,
    }
}

fn is_for(mapped: &MappedAgent, envelope: &DeliveredEnvelope) -> bool {
    match envelope.to.parse::<AddressedAgent>() {
        Ok(to) => to.agent == mapped.address,
        // Events may name the topic instead of the subscriber.
        Err(_) => envelope.kind == Kind::Event,
    }
}

/// What a relay says itself about a request nobody took: an unsigned error reply in the spec's words. It could as
/// well drop the message, so believing it gives away nothing.
fn is_relay_notice(envelope: &DeliveredEnvelope) -> bool {
    let says_so = matches!(envelope.body.view(), BodyView::Text(text) if text.starts_with("not delivered: "));
    envelope.kind == Kind::Reply && envelope.error && says_so
}

/// A relay checks the ten minutes when a message arrives; it may then wait for the longest TTL. Older than that,
/// the seen rows no longer protect against a replay (see docs/decisions/signature-time.md).
fn is_timely(ts: i64, relay_now: Timestamp) -> bool {
    let age = relay_now.secs().saturating_sub(ts);
    let oldest = i64::try_from(TTL_MAX_SECS).unwrap_or(i64::MAX).saturating_sub(SIGNATURE_WINDOW_SECS);
    (-SIGNATURE_WINDOW_SECS..=oldest).contains(&age)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_may_wait_as_long_as_a_message_may_and_no_longer() {
        let now = Timestamp::from_secs(1_790_000_000);
        assert!(is_timely(1_790_000_000, now));
        assert!(is_timely(1_790_000_600, now));
        assert!(!is_timely(1_790_000_601, now));
        assert!(is_timely(1_790_000_000 - 29 * 86_400, now));
        assert!(!is_timely(1_790_000_000 - 30 * 86_400, now));
    }
}
