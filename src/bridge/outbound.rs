//! The outbound pump: sends what is due in the outbox, one message of a conversation at a time, until the relay
//! has answered for it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::bells::Bells;
use super::events::{Event, Events};
use super::keys::KeyRing;
use super::link::Link;
use super::lookups::Lookups;
use super::names::CurrentNames;
use super::recipient::Recipient;
use super::{mapping, seal};
use crate::config::redsyn::Encrypt;
use crate::crypto::sign::VerifyingKey;
use crate::domain::backoff::full_jitter;
use crate::domain::clock::{SharedClock, Timestamp};
use crate::domain::random::SharedRandom;
use crate::proto::dsh::names::brief;
use crate::proto::redsyn::address::{AddressedAgent, Session, SessionId};
use crate::proto::redsyn::ids::Kind;
use crate::redsyn_client::{CallError, Receipt, Refusal, RelayClient};
use crate::store::StoreError;
use crate::store::bridge::{Accepted, Due, Failure, OutboxEntry};
use crate::store::sqlite::bridge::BridgeStore;

/// How many messages are on their way at once. Each is a few small calls; more would only queue at the relay.
const IN_FLIGHT: usize = 32;
/// How long the pump waits when its own store fails, before it looks again.
const STORE_PAUSE: Duration = Duration::from_secs(1);
/// The longest time between two looks into the outbox: what was put there without ringing, or expires while it is
/// held, waits no longer.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// Why an entry waits whose sender has withdrawn it and that nobody has ended yet.
const WITHDRAWING: &str = "its sender is taking it back";
/// How long an entry rests whose sending has panicked: at once it would only do so again.
const PANIC_PAUSE: Duration = Duration::from_secs(60);

/// Everything an outbound message needs.
#[derive(Debug)]
pub struct Outbound {
    pub store: BridgeStore,
    pub client: RelayClient,
    pub link: Arc<Link>,
    pub keys: Arc<KeyRing>,
    pub names: Arc<CurrentNames>,
    pub lookups: Lookups,
    pub encrypt: Encrypt,
    pub events: Events,
    pub clock: SharedClock,
    pub random: SharedRandom,
    /// Rung after a commit that added to the outbox.
    pub wake: Arc<Notify>,
    /// Rings the sender that a failure is told to.
    pub wakeups: Bells,
    /// The entries that are being sent: none of them can be taken back now.
    pub in_flight: InFlight,
}

/// The entries of the outbox that are being sent.
pub type InFlight = watch::Sender<HashSet<i64>>;

/// The tasks that send, and the entry each has.
#[derive(Debug, Default)]
struct Sends {
    tasks: JoinSet<()>,
    entries: HashMap<Id, i64>,
}

/// What a try has come to.
#[derive(Debug)]
pub(super) enum Outcome {
    Accepted {
        receipt: Receipt,
        sealed: bool,
    },
    Later {
        why: String,
        asked: Option<Duration>,
    },
    Hold {
        why: String,
        key: Option<VerifyingKey>,
    },
    Failed {
        code: &'static str,
        why: String,
    },
    /// It was settled or stopped meanwhile.
    Nothing,
}

impl Outbound {
    /// Runs until `stop`; what is on its way then is finished or comes again after the next start.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => return,
            () = self.link.up() => {}
        }
        let mut sends = Sends::default();
        loop {
            // One moment for both questions: what became due between two would be seen by neither.
            let now = self.clock.now();
            let again = match self.fill(now, &mut sends).await {
                Ok(again) => again,
                Err(error) => {
                    tracing::error!(%error, "outbox_unreadable");
                    now.plus(STORE_PAUSE)
                }
            };
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.wake.notified() => {}
                () = self.clock.sleep_until(again) => {}
                Some(done) = sends.tasks.join_next_with_id() => self.ended(done, &mut sends).await,
            }
            // One look for all that have ended meanwhile.
            while let Some(done) = sends.tasks.try_join_next_with_id() {
                self.ended(done, &mut sends).await;
            }
        }
        sends.tasks.shutdown().await;
    }

    /// Starts what is due at `now`, and says when to look again.
    async fn fill(self: &Arc<Self>, now: Timestamp, sends: &mut Sends) -> Result<Timestamp, StoreError> {
        let latest = now.plus(LOOK_AGAIN);
        let room = IN_FLIGHT.saturating_sub(sends.entries.len());
        if room == 0 {
            // The next one that ends makes room, and another look.
            return Ok(latest);
        }
        let under_way = self.in_flight.borrow().clone();
        let in_flight = self.in_flight.clone();
        // Told before whoever stops one later: they look here afterwards.
        let leave = move |due: &Due| {
            in_flight.send_modify(|entries| entries.extend(due.entries.iter().map(|entry| entry.seq)));
        };
        let due = self.store.due(now, under_way, room, leave).await?;
        for entry in due.entries {
            let (pump, seq) = (Arc::clone(self), entry.seq);
            let task = sends.tasks.spawn(async move { pump.send(entry).await });
            sends.entries.insert(task.id(), seq);
        }
        Ok(due.next.map_or(latest, |next| next.min(latest)))
    }

    async fn ended(&self, done: Result<(Id, ()), JoinError>, sends: &mut Sends) {
        let (task, panic) = match done {
            Ok((task, ())) => (task, None),
            Err(error) => (error.id(), Some(error)),
        };
        let Some(seq) = sends.entries.remove(&task) else { return };
        if let Some(error) = panic {
            tracing::error!(seq, %error, "outbound_task_failed");
            let (next, why) =
                (self.clock.now().plus(PANIC_PAUSE), "sending it failed here; see the log".to_owned());
            if let Err(error) = self.store.postpone(seq, next, why).await {
                tracing::error!(seq, %error, "outbound_not_settled");
            }
        }
        self.in_flight.send_modify(|entries| {
            entries.remove(&seq);
        });
    }

    async fn send(&self, entry: OutboxEntry) {
        let outcome = if entry.expires_at <= self.clock.now() {
            Outcome::Failed { code: "expired", why: "it expired before the relay took it".into() }
        } else {
            self.attempt(&entry).await
        };
        let (id, kind) = (entry.id.clone(), entry.kind);
        if let Err(error) = self.settle(entry, outcome).await {
            // The entry stays in the outbox and goes again under its id.
            tracing::error!(id = ?brief(id.as_str()), %kind, %error, "outbound_not_settled");
            self.clock.sleep(STORE_PAUSE).await;
        }
    }

    async fn settle(&self, entry: OutboxEntry, outcome: Outcome) -> Result<(), StoreError> {
        let (id, kind) = (entry.id.clone(), entry.kind);
        let now = self.clock.now();
        match outcome {
            // Gone, or its sender wants it back; a withdrawal that nobody has ended leaves it until it expires.
            Outcome::Nothing => {
                self.store
                    .postpone(entry.seq, now.plus(LOOK_AGAIN).min(entry.expires_at), WITHDRAWING.to_owned())
                    .await?
            }
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
                // Its sender hears of the expiry when it comes, however long the relay wants to be left alone.
                let next = now.plus(pause).min(entry.expires_at);
                self.store.postpone(entry.seq, next, why.clone()).await?;
                self.events.emit(Event::Postponed { id, kind, why });
            }
            Outcome::Hold { why, key } => {
                let is_news = entry.held.as_ref() != Some(&why);
                self.store.hold(entry, why.clone(), key, now).await?;
                if is_news {
                    self.events.emit(Event::HeldOut { id, kind, why });
                }
            }
            Outcome::Failed { code, why } => {
                let notice = mapping::undelivered(&entry, &self.names.get(), code, &why, now);
                let agent = entry.agent.clone();
                self.store.failed(Failure { entry, code, reason: why.clone(), now }, notice).await?;
                self.wakeups.wake(&agent);
                self.events.emit(Event::Failed { id, kind, code, why });
            }
        }
        Ok(())
    }

    /// A 401 may mean that the relay has lost our key, a 404 that it has lost our agents: introduce ourselves
    /// again, once, and try again.
    async fn attempt(&self, entry: &OutboxEntry) -> Outcome {
        let introductions = self.link.introductions();
        let refusal = match self.once(entry).await {
            Ok(outcome) => return outcome,
            Err(CallError::Refused(refusal)) if matches!(refusal.status(), 401 | 404) => refusal,
            Err(error) => return self.not_sent(error),
        };
        match self.link.introduce_again(introductions, refusal.status()).await {
            Ok(true) => {}
            Ok(false) => return self.not_sent(CallError::Refused(refusal)),
            Err(error) => {
                self.link.lost(&error);
                // The node itself is not welcome: that says nothing about the message.
                return Outcome::Later { why: error.to_string(), asked: error.retry_after() };
            }
        }
        tracing::info!(id = ?brief(entry.id.as_str()), status = refusal.status(), "introduced_again");
        self.once(entry).await.unwrap_or_else(|error| self.not_sent(error))
    }

    /// One try, from the recipient's key to the relay's answer.
    async fn once(&self, entry: &OutboxEntry) -> Result<Outcome, CallError> {
        if entry.is_withdrawn {
            return Ok(Outcome::Nothing);
        }
        let zip = match entry.has_zip {
            false => None,
            true => match self.store.outbox_zip(entry.seq).await {
                Ok(Some(zip)) => Some(zip),
                Ok(None) => return Ok(Outcome::Nothing),
                Err(error) => return Ok(Outcome::Later { why: error.to_string(), asked: None }),
            },
        };
        let wish = entry.encrypt.as_deref().and_then(Encrypt::parse);
        let recipient = match self.recipient(entry, wish).await? {
            Recipient::Key(key) => Some(key),
            Recipient::Open => None,
            Recipient::Nobody(outcome) => return Ok(outcome),
        };
        let relay_now = self.client.relay_now();
        let now = self.clock.now();
        let keys = self.keys.current();
        match seal::envelope(entry, zip.as_deref(), recipient.as_ref(), &keys, now, relay_now, &*self.random)
        {
            Ok(envelope) => {
                let receipt = self.client.send(&envelope).await?;
                Ok(match other_message(entry, &receipt) {
                    Some(why) => Outcome::Failed { code: "conflict", why },
                    None => Outcome::Accepted { receipt, sealed: recipient.is_some() },
                })
            }
            // What cannot be written now never can.
            Err(why) => Ok(Outcome::Failed { code: "bad_request", why }),
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
}

/// A relay answers an id it knows with the first message of that id. Went that one to somebody else, ours was never
/// taken.
fn other_message(entry: &OutboxEntry, receipt: &Receipt) -> Option<String> {
    if !receipt.duplicate || entry.kind != Kind::Request {
        return None;
    }
    let first: AddressedAgent = receipt.to.as_deref()?.parse().ok()?;
    (Some(&first.agent) != entry.remote.agent())
        .then(|| format!("its id was used before, for a message to {}", first.agent))
}

fn session(receipt: &Receipt) -> Option<SessionId> {
    let to: AddressedAgent = receipt.to.as_deref()?.parse().ok()?;
    match to.session? {
        Session::Id(id) => Some(id),
        Session::New => None,
    }
}

/// The stable word for a refusal, as local senders see it.
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
