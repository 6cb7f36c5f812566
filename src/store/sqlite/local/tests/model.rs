//! Protocol v1.1 in its plainest form: a list of messages and what the documents say about them.

use super::*;

const AGENTS: [&str; 2] = ["beta", "gamma"];
const MAX_ATTEMPTS: u32 = 1;
/// How many ids there are; one more is asked for than is ever sent.
const IDS: u8 = 12;
/// How long a message is kept.
const KEPT: Duration = Duration::from_secs(9);

#[derive(Clone, Debug)]
pub(super) enum Step {
    Send {
        id: u8,
        to: usize,
        /// Its own end of life.
        ttl: Option<u64>,
    },
    Pull {
        by: usize,
        limit: u32,
        seconds: u64,
    },
    Ack {
        by: usize,
        id: u8,
        stale: bool,
        retry: bool,
    },
    Poll {
        by: usize,
        since: Option<u8>,
        limit: u32,
    },
    Advance {
        millis: u64,
    },
    Sweep,
    /// Close it and open it again.
    Restart,
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let by = 0..AGENTS.len();
    prop_oneof![
        4 => (0..IDS, by.clone(), prop::option::weighted(0.3, 1..6_u64))
            .prop_map(|(id, to, ttl)| Step::Send { id, to, ttl }),
        4 => (by.clone(), 1..4_u32, 1..4_u64).prop_map(|(by, limit, seconds)| Step::Pull { by, limit, seconds }),
        4 => (by.clone(), 0..=IDS, prop::bool::weighted(0.2), any::<bool>())
            .prop_map(|(by, id, stale, retry)| Step::Ack { by, id, stale, retry }),
        4 => (by, prop::option::of(0..=IDS), 1..4_u32).prop_map(|(by, since, limit)| Step::Poll { by, since, limit }),
        3 => (1..3000_u64).prop_map(|millis| Step::Advance { millis }),
        1 => Just(Step::Sweep),
        1 => Just(Step::Restart),
    ]
}

struct Message {
    id: String,
    to: usize,
    stored: Timestamp,
    expires: Option<Timestamp>,
    status: Status,
    token: Option<LeaseId>,
    stale: Option<LeaseId>,
    until: Timestamp,
    attempts: u32,
    redeliver: bool,
}

impl Message {
    fn is_over(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|end| end <= now)
    }
}

#[derive(Default)]
struct Model {
    /// In the order in which they were stored.
    messages: Vec<Message>,
}

impl Model {
    fn send(&mut self, id: &str, to: usize, stored: Timestamp, expires: Option<Timestamp>) -> bool {
        let duplicate = self.messages.iter().any(|message| message.id == id);
        if !duplicate {
            let (token, stale, until) = (None, None, START);
            let id = id.to_owned();
            self.messages.push(Message {
                id,
                to,
                stored,
                expires,
                status: Status::Queued,
                token,
                stale,
                until,
                attempts: 0,
                redeliver: false,
            });
        }
        duplicate
    }

    fn requeue(&mut self, now: Timestamp) {
        for message in &mut self.messages {
            if message.status == Status::Leased && message.until <= now {
                message.status = Status::Queued;
                message.redeliver = true;
                message.stale = message.token.take();
            }
        }
    }

    /// What is past its time is gone, whatever became of it.
    fn sweep(&mut self, now: Timestamp) {
        self.requeue(now);
        self.messages.retain(|message| message.stored > now.minus(KEPT) && !message.is_over(now));
    }

    fn queued(&mut self, to: usize, now: Timestamp) -> impl Iterator<Item = (usize, &mut Message)> {
        let queued = self.messages.iter_mut().enumerate();
        queued.filter(move |(_, message)| {
            message.to == to && message.status == Status::Queued && !message.is_over(now)
        })
    }

    fn pull(&mut self, by: usize, limit: u32, now: Timestamp, until: Timestamp) -> Vec<String> {
        let take = |(_, message): (usize, &mut Message)| {
            (message.status, message.until, message.redeliver) = (Status::Leased, until, false);
            message.id.clone()
        };
        self.queued(by, now).take(limit as usize).map(take).collect()
    }

    fn ack(&mut self, by: usize, id: &str, token: &LeaseId, retry: bool) -> Acked {
        let Some(message) = self.messages.iter_mut().find(|message| message.id == id) else {
            return Acked::UnknownMessage;
        };
        if message.to != by {
            return Acked::NotRecipient;
        }
        if message.status != Status::Leased {
            return Acked::Refused(AckRefused::NotLeased);
        }
        if message.token.as_ref() != Some(token) {
            return Acked::Refused(AckRefused::LeaseMismatch);
        }
        message.stale = message.token.take();
        message.attempts += u32::from(retry);
        message.status = match retry {
            false => Status::Done,
            true if message.attempts > MAX_ATTEMPTS => Status::Failed,
            true => Status::Queued,
        };
        Acked::Settled { status: message.status, attempts: message.attempts }
    }

    fn poll(
        &mut self,
        by: usize,
        since: Option<&str>,
        limit: u32,
        now: Timestamp,
    ) -> (Vec<String>, Option<String>) {
        let known = since.and_then(|since| self.messages.iter().position(|message| message.id == since));
        let is_behind = |at: usize| known.is_some_and(|known| at <= known);
        let (mut shown, mut cursor) = (Vec::new(), since.map(str::to_owned));
        for (at, message) in self
            .queued(by, now)
            .filter(|(at, message)| !is_behind(*at) || message.redeliver)
            .take(limit as usize)
        {
            message.redeliver = false;
            shown.push(message.id.clone());
            if !is_behind(at) {
                cursor = Some(message.id.clone());
            }
        }
        (shown, cursor)
    }
}

fn ids(messages: &[StoredMessage]) -> Vec<String> {
    messages.iter().map(|message| message.message.id.to_string()).collect()
}

pub(super) async fn run(kept: Kept, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let clock = ManualClock::at(START);
    let mut store = kept.open();
    register(&store).await;
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Restart => {
                kept.reopen(&mut store).await;
                if kept.forgets() {
                    model = Model::default();
                    register(&store).await;
                }
            }
            step => apply(step, &store, &mut model, &clock).await?,
        }
        compare(&store, &model).await?;
    }
    Ok(())
}

async fn register(store: &LocalStore) {
    for name in AGENTS {
        store.register(agent(name), START).await.unwrap();
    }
}

/// Every message is as the model says, none is missing and none came back, and so is what waits in all.
async fn compare(store: &LocalStore, model: &Model) -> Result<(), TestCaseError> {
    let ids: Vec<_> = (0..=IDS).map(|id| id.to_string()).collect();
    for (id, line) in store.status(agent("alpha"), ids).await.unwrap() {
        let message = model.messages.iter().find(|message| message.id == id);
        let want = message.map(|message| (message.status, message.attempts));
        prop_assert_eq!(line.map(|line| (line.status, line.attempts)), want);
    }
    let count = |status| model.messages.iter().filter(|message| message.status == status).count() as i64;
    let waiting = model.messages.iter().filter(|message| message.status == Status::Queued);
    let oldest_queued = waiting.map(|message| message.stored).min();
    let want = Load { queued: count(Status::Queued), leased: count(Status::Leased), oldest_queued };
    prop_assert_eq!(store.load().await.unwrap(), want);
    Ok(())
}

async fn apply(
    step: Step,
    store: &LocalStore,
    model: &mut Model,
    clock: &ManualClock,
) -> Result<(), TestCaseError> {
    let now = clock.now();
    match step {
        Step::Send { id, to, ttl } => {
            let id = id.to_string();
            let expires_at = ttl.map(|ttl| now.plus(Duration::from_secs(ttl)));
            let new = NewMessage { ts: now, expires_at, ..message(&id, AGENTS[to]) };
            let sent = store.send(new, agent(AGENTS[to]), |_| ()).await.unwrap().unwrap();
            prop_assert_eq!(sent.duplicate, model.send(&id, to, now, expires_at));
        }
        Step::Pull { by, limit, seconds } => {
            let until = now.plus(Duration::from_secs(seconds));
            let pull = Pull { agent: agent(AGENTS[by]), limit, now, until };
            let leased = store.pull(pull, SystemRandom::shared()).await.unwrap().messages;
            model.requeue(now);
            prop_assert_eq!(ids(&leased), model.pull(by, limit, now, until));
            for stored in leased {
                let message = model
                    .messages
                    .iter_mut()
                    .find(|message| message.id == stored.message.id.as_str())
                    .unwrap();
                prop_assert_eq!(stored.delivery.attempts, message.attempts);
                let State::Leased(lease) = stored.delivery.state else { panic!("not leased") };
                prop_assert_eq!(lease.until, until);
                message.token = Some(lease.id);
            }
        }
        Step::Ack { by, id, stale, retry } => {
            let id = id.to_string();
            let known = model.messages.iter().find(|message| message.id == id);
            let token =
                known.and_then(|message| if stale { message.stale.clone() } else { message.token.clone() });
            let token = token.unwrap_or_else(|| LeaseId::new("never given"));
            let ack = Ack {
                agent: agent(AGENTS[by]),
                id: DshId::new(id.clone()),
                lease_id: token.clone(),
                outcome: if retry { Outcome::Retry } else { Outcome::Completed },
                error: JsonText::null(),
                max_attempts: MAX_ATTEMPTS,
                now,
            };
            prop_assert_eq!(store.ack(ack, |_| ()).await.unwrap(), model.ack(by, &id, &token, retry));
        }
        Step::Poll { by, since, limit } => {
            let since = since.map(|since| since.to_string());
            let poll = Poll { agent: agent(AGENTS[by]), since: since.clone().map(DshId::new), limit, now };
            let polled = store.poll(poll).await.unwrap();
            let cursor = polled.cursor.as_ref().map(ToString::to_string);
            prop_assert_eq!((ids(&polled.messages), cursor), model.poll(by, since.as_deref(), limit, now));
        }
        Step::Advance { millis } => clock.advance(Duration::from_millis(millis)),
        Step::Restart => {}
        Step::Sweep => {
            store.sweep(now, now.minus(KEPT)).await.unwrap();
            model.sweep(now);
        }
    }
    Ok(())
}
