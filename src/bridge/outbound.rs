//! The outbound pump: sends what is due in the outbox, one message of a conversation at a time, until the relay
//! has answered for it (mapping §6).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::events::{Event, Events};
use super::keys::NodeKeys;
use super::link::Link;
use super::names::Names;
use super::{mapping, seal};
use crate::config::redsyn::Encrypt;
use crate::crypto::enc_key::EncKey;
use crate::domain::backoff::full_jitter;
use crate::domain::clock::SharedClock;
use crate::domain::random::SharedRandom;
use crate::domain::wakeups::Wakeups;
use crate::proto::dsh::names::AgentName;
use crate::proto::redsyn::address::{AddressedAgent, Session};
use crate::proto::redsyn::ids::Kind;
use crate::redsyn_client::{CallError, Receipt, Refusal, RelayClient};
use crate::store::StoreError;
use crate::store::bridge::{Accepted, Failure, OutboxEntry, PinState};
use crate::store::sqlite::bridge::BridgeStore;

/// How many messages are on their way at once. Each is a few small calls; more would only queue at the relay.
const IN_FLIGHT: usize = 32;
/// How long the pump waits when its own store fails, before it looks again.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// Everything an outbound message needs.
#[derive(Debug)]
pub struct Outbound {
    pub store: BridgeStore,
    pub client: RelayClient,
    pub link: Arc<Link>,
    pub keys: Arc<NodeKeys>,
    pub names: Arc<Names>,
    pub encrypt: Encrypt,
    pub events: Events,
    pub clock: SharedClock,
    pub random: SharedRandom,
    /// Rung after a commit that added to the outbox.
    pub wake: Arc<Notify>,
    /// Rings the sender that a failure is told to.
    pub wakeups: Wakeups<AgentName>,
}

/// What a try has come to.
#[derive(Debug)]
enum Outcome {
    Accepted { receipt: Receipt, sealed: bool },
    Later { why: String, asked: Option<Duration> },
    Hold { why: String },
    Failed { code: &'static str, why: String },
}

impl Outbound {
    /// Runs until `stop`; what is on its way then is finished or comes again after the next start.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => return,
            () = self.link.up() => {}
        }
        let mut sends = JoinSet::new();
        let mut in_flight = HashSet::new();
        loop {
            if let Err(error) = self.fill(&mut sends, &mut in_flight).await {
                tracing::error!(%error, "outbox_unreadable");
                self.clock.sleep(STORE_PAUSE).await;
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.wake.notified() => {}
                () = self.until_next_due() => {}
                Some(done) = sends.join_next(), if !sends.is_empty() => match done {
                    Ok(seq) => { in_flight.remove(&seq); }
                    Err(error) => {
                        tracing::error!(%error, "outbound_task_failed");
                        // Which entry it was is lost with the task; looking at all of them again is safe.
                        in_flight.clear();
                    }
                },
            }
        }
        sends.shutdown().await;
    }

    async fn fill(
        self: &Arc<Self>,
        sends: &mut JoinSet<i64>,
        in_flight: &mut HashSet<i64>,
    ) -> Result<(), StoreError> {
        if in_flight.len() >= IN_FLIGHT {
            return Ok(());
        }
        let due = self.store.due(self.clock.now(), IN_FLIGHT * 2).await?;
        for entry in due {
            if in_flight.len() >= IN_FLIGHT {
                break;
            }
            if in_flight.insert(entry.seq) {
                let pump = Arc::clone(self);
                sends.spawn(async move {
                    let seq = entry.seq;
                    pump.send(entry).await;
                    seq
                });
            }
        }
        Ok(())
    }

    async fn until_next_due(&self) {
        match self.store.next_due(self.clock.now()).await {
            Ok(Some(next)) => self.clock.sleep_until(next).await,
            Ok(None) => std::future::pending().await,
            Err(error) => {
                tracing::error!(%error, "outbox_unreadable");
                self.clock.sleep(STORE_PAUSE).await;
            }
        }
    }

    async fn send(&self, entry: OutboxEntry) {
        let outcome = if entry.expires_at <= self.clock.now() {
            Outcome::Failed { code: "expired", why: "it expired before the relay could be reached".into() }
        } else {
            self.attempt(&entry).await
        };
        let (id, kind) = (entry.id.clone(), entry.kind);
        if let Err(error) = self.settle(entry, outcome).await {
            // The entry stays in the outbox and goes again under its id.
            tracing::error!(%id, %kind, %error, "outbound_not_settled");
            self.clock.sleep(STORE_PAUSE).await;
        }
    }

    async fn settle(&self, entry: OutboxEntry, outcome: Outcome) -> Result<(), StoreError> {
        let (id, kind) = (entry.id.clone(), entry.kind);
        let now = self.clock.now();
        match outcome {
            Outcome::Accepted { receipt, sealed } => {
                self.link.found();
                let to = receipt.to.clone().unwrap_or_else(|| entry.remote.to_string());
                let accepted = Accepted {
                    seq: entry.seq,
                    id: id.clone(),
                    agent: entry.agent,
                    remote_session: (kind == Kind::Request).then(|| session(&receipt)).flatten(),
                    thread: receipt.thread,
                    sealed,
                    now,
                };
                self.store.accepted(accepted).await?;
                self.events.emit(Event::Accepted { id, kind, to, sealed });
            }
            Outcome::Later { why, asked } => {
                let pause = full_jitter(entry.attempts.saturating_add(1), asked, &*self.random);
                self.store.postpone(entry.seq, now.plus(pause)).await?;
                self.events.emit(Event::Postponed { id, kind, why });
            }
            Outcome::Hold { why } => {
                self.store.hold(entry, why.clone(), now).await?;
                self.events.emit(Event::HeldOut { id, kind, why });
            }
            Outcome::Failed { code, why } => {
                let notice = mapping::undelivered(&entry, &self.names, code, &why, now);
                let agent = entry.agent.clone();
                self.store.failed(Failure { entry, code, reason: why.clone(), now }, notice).await?;
                self.wakeups.wake(&agent);
                self.events.emit(Event::Failed { id, kind, code, why });
            }
        }
        Ok(())
    }

    async fn attempt(&self, entry: &OutboxEntry) -> Outcome {
        let recipient = match self.recipient_key(entry).await {
            Ok(recipient) => recipient,
            Err(outcome) => return outcome,
        };
        match self.post(entry, recipient.as_ref()).await {
            Err(CallError::Refused(refusal)) if matches!(refusal.status(), 401 | 404) => {
                self.after_repair(entry, recipient.as_ref(), refusal).await
            }
            result => self.outcome(result, recipient.is_some()),
        }
    }

    /// A 401 may mean that the relay has lost our key, a 404 that it has lost our agents: introduce ourselves
    /// again, once, and send again.
    async fn after_repair(
        &self,
        entry: &OutboxEntry,
        recipient: Option<&EncKey>,
        refusal: Refusal,
    ) -> Outcome {
        if let Err(error) = self.link.introduce().await {
            self.link.lost(&error);
            // The node itself is not welcome: that says nothing about the message.
            return Outcome::Later { why: error.to_string(), asked: error.retry_after() };
        }
        tracing::info!(id = %entry.id, status = refusal.status(), "introduced_again");
        self.outcome(self.post(entry, recipient).await, recipient.is_some())
    }

    async fn post(&self, entry: &OutboxEntry, recipient: Option<&EncKey>) -> Result<Receipt, CallError> {
        let relay_now = self.client.relay_now();
        let envelope = seal::envelope(entry, recipient, &self.keys, relay_now, &*self.random)
            .map_err(CallError::Malformed)?;
        self.client.send(&envelope).await
    }

    fn outcome(&self, result: Result<Receipt, CallError>, sealed: bool) -> Outcome {
        match result {
            Ok(receipt) => Outcome::Accepted { receipt, sealed },
            Err(error) => self.not_sent(error),
        }
    }

    fn not_sent(&self, error: CallError) -> Outcome {
        if error.is_worth_retrying() {
            self.link.lost(&error);
            return Outcome::Later { why: error.to_string(), asked: error.retry_after() };
        }
        match error {
            CallError::Refused(refusal) => {
                Outcome::Failed { code: failure_code(&refusal), why: refusal.body.error }
            }
            other => Outcome::Later { why: other.to_string(), asked: None },
        }
    }

    /// The key to seal for; `None` when the message goes in the open.
    async fn recipient_key(&self, entry: &OutboxEntry) -> Result<Option<EncKey>, Outcome> {
        if let Some(reply_key) = &entry.reply_key {
            // It came inside the sealed and signed request: nobody but its sender can have put it there.
            return reply_key.parse().map(Some).map_err(|error| Outcome::Failed {
                code: "bad_key",
                why: format!("the request's reply_key is no key: {error}"),
            });
        }
        if self.encrypt == Encrypt::Never {
            return Ok(None);
        }
        let address = &entry.remote.agent;
        let answer = self.client.agent_key(address).await.map_err(|error| self.not_sent(error))?;
        let later = |error: StoreError| Outcome::Later { why: error.to_string(), asked: None };
        let Some(answer) = answer else {
            if self.encrypt == Encrypt::Require {
                let why = format!("{address} has no key to seal for, and redsyn.encrypt is `require`");
                return Err(Outcome::Failed { code: "no_key", why });
            }
            if !entry.error && self.store.was_sealed(address.clone()).await.map_err(later)? {
                let why =
                    format!("{address} had a key and has none now: plain text waits for a person's consent");
                return Err(Outcome::Hold { why });
            }
            return Ok(None);
        };
        let person = address.person();
        let keys = answer.check().map_err(|error| Outcome::Hold {
            why: format!("the relay's key for {address} does not hold: {error}"),
        })?;
        let pin = self
            .store
            .pin_recipient(address.clone(), keys.signing_key, self.clock.now())
            .await
            .map_err(later)?;
        match pin {
            PinState::Other => {
                let fingerprint = keys.signing_key.fingerprint();
                Err(Outcome::Hold {
                    why: format!("{person} has another key than the pinned one: {fingerprint}"),
                })
            }
            PinState::First => {
                tracing::info!(%person, fingerprint = keys.signing_key.fingerprint(), "pin_first_use");
                Ok(Some(keys.enc_key))
            }
            PinState::Known { .. } => Ok(Some(keys.enc_key)),
        }
    }
}

fn session(receipt: &Receipt) -> Option<crate::proto::redsyn::address::SessionId> {
    let to: AddressedAgent = receipt.to.as_deref()?.parse().ok()?;
    match to.session? {
        Session::Id(id) => Some(id),
        Session::New => None,
    }
}

/// The stable word for a refusal, as local senders see it (mapping §6).
fn failure_code(refusal: &Refusal) -> &'static str {
    match refusal.status() {
        _ if refusal.body.quota => "quota",
        400 => "unsupported_version",
        401 => "unauthenticated",
        404 => "no_such_agent",
        409 => "conflict",
        413 => "too_large",
        422 => "bad_request",
        _ => "forbidden",
    }
}
