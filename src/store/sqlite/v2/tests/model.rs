//! The second generation in its plainest form: a list of messages and what the recordings say about them. Restarts
//! are steps like any other.

use std::cmp::Reverse;

use super::*;
use crate::domain::v2::delivery::LeaseRefused;

const AGENTS: [&str; 3] = ["alpha", "beta", "gamma"];
const KEPT: Duration = Duration::from_secs(200);

#[derive(Clone, Debug)]
pub(super) enum Step {
    Ask { from: usize, to: usize, key: u8, ttl: u64 },
    Reply { to: usize, key: u8 },
    Pull { by: usize, limit: u32, seconds: u64 },
    Ack { by: usize, of: usize, token: Token, outcome: Option<Outcome> },
    Renew { by: usize, of: usize, token: Token, seconds: u64 },
    Manage { by: usize, of: usize, action: Action, is_admin: bool },
    Advance { seconds: u64 },
    Sweep,
    Restart,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Token {
    None,
    Current,
    Stale,
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let (by, of) = (0..AGENTS.len(), 0..12_usize);
    let token = || prop_oneof![1 => Just(Token::None), 2 => Just(Token::Current), 1 => Just(Token::Stale)];
    let outcome = prop_oneof![
        3 => Just(Some(Outcome::Completed)),
        4 => Just(Some(Outcome::Retry)),
        1 => Just(None)
    ];
    let action = prop_oneof![Just(Action::Requeue), Just(Action::Cancel)];
    prop_oneof![
        5 => (by.clone(), by.clone(), 0..8_u8, 60..120_u64)
            .prop_map(|(from, to, key, ttl)| Step::Ask { from, to, key, ttl }),
        2 => (of.clone(), 0..8_u8).prop_map(|(to, key)| Step::Reply { to, key }),
        6 => (by.clone(), 1..4_u32, 15..40_u64).prop_map(|(by, limit, seconds)| Step::Pull { by, limit, seconds }),
        5 => (by.clone(), of.clone(), token(), outcome)
            .prop_map(|(by, of, token, outcome)| Step::Ack { by, of, token, outcome }),
        2 => (by.clone(), of.clone(), token(), 15..40_u64)
            .prop_map(|(by, of, token, seconds)| Step::Renew { by, of, token, seconds }),
        2 => (by, of, action, any::<bool>())
            .prop_map(|(by, of, action, is_admin)| Step::Manage { by, of, action, is_admin }),
        4 => (1..50_u64).prop_map(|seconds| Step::Advance { seconds }),
        1 => Just(Step::Sweep),
        1 => Just(Step::Restart),
    ]
}

#[derive(Clone, Debug)]
struct Message {
    /// Of a notice, once it was seen.
    id: Option<DshId>,
    key: String,
    from: usize,
    to: usize,
    kind: Kind,
    parent: Option<String>,
    created: Timestamp,
    expires: Timestamp,
    status: Status,
    token: Option<LeaseId>,
    stale: Option<LeaseId>,
    until: Timestamp,
    attempts: u32,
    error: String,
    completed: Option<Timestamp>,
    told: bool,
}

/// In the order in which they were stored.
#[derive(Default)]
struct Model(Vec<Message>);

impl Message {
    fn new(key: &str, (from, to): (usize, usize), kind: Kind, created: Timestamp, ttl: u64) -> Self {
        Self {
            id: None,
            key: key.to_owned(),
            from,
            to,
            kind,
            parent: None,
            created,
            expires: created.plus(Duration::from_secs(ttl)),
            status: Status::Queued,
            token: None,
            stale: None,
            until: created,
            attempts: 0,
            error: String::new(),
            completed: None,
            told: false,
        }
    }

    fn turn(&mut self, status: Status) {
        self.status = status;
        if let Some(token) = self.token.take() {
            self.stale = Some(token);
        }
    }

    fn fail(&mut self, now: Timestamp, error: &str) {
        self.turn(Status::Failed);
        self.completed = Some(now);
        if self.error.is_empty() {
            self.error = error.to_owned();
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.status, Status::Queued | Status::Leased)
    }

    fn may_ack(&self, token: Option<&LeaseId>, now: Timestamp) -> Result<(), LeaseRefused> {
        let is_leased = self.status == Status::Leased;
        match token {
            None if is_leased => Ok(()),
            None => Err(LeaseRefused::NotLeased),
            Some(token) if is_leased && self.token.as_ref() == Some(token) && now < self.until => Ok(()),
            Some(_) => Err(LeaseRefused::Mismatch),
        }
    }
}

impl Model {
    fn create(&mut self, message: Message) -> (bool, bool) {
        let known = self.0.iter().find(|known| known.from == message.from && known.key == message.key);
        match known {
            Some(known) => {
                let same =
                    (known.to, known.kind, &known.parent) == (message.to, message.kind, &message.parent);
                (true, !same)
            }
            None => {
                self.0.push(message);
                (false, false)
            }
        }
    }

    /// The places of what has ended, in the order in which it is told of.
    fn tidy(&mut self, now: Timestamp) -> Vec<usize> {
        let due = |model: &Self, is_due: &dyn Fn(&Message) -> bool| {
            let open = model.0.iter().enumerate().filter(|(_, message)| message.is_open() && is_due(message));
            open.map(|(at, _)| at).collect::<Vec<_>>()
        };
        let mut expired = due(self, &|message| message.expires <= now);
        expired.sort_by_key(|at| self.0[*at].expires);
        for at in &expired {
            self.0[*at].turn(Status::Expired);
        }
        let mut exhausted = due(self, &|message| message.attempts >= RULES.max_attempts);
        exhausted.sort_by_key(|at| self.0[*at].attempts);
        for at in &exhausted {
            let completed = self.0[*at].completed;
            self.0[*at].fail(completed.unwrap_or(now), "attempts exhausted without acknowledgement");
        }
        for at in due(self, &|message| message.status == Status::Leased && message.until <= now) {
            self.0[at].turn(Status::Queued);
        }
        expired.extend(exhausted);
        expired
    }

    fn tell(&mut self, ended: Vec<usize>, now: Timestamp) {
        for at in ended {
            let request = self.0[at].clone();
            if request.kind == Kind::Request && !request.told {
                self.0[at].told = true;
                let id = request.id.unwrap();
                let ends = (request.to, request.from);
                let notice = Message {
                    parent: Some(id.to_string()),
                    ..Message::new(&format!("undelivered:{id}"), ends, Kind::Reply, now, 3600)
                };
                self.create(notice);
            }
        }
    }

    fn queue(&self, agent: usize) -> Queue {
        let mut queue = Queue::default();
        for message in self.0.iter().filter(|message| message.to == agent) {
            match message.status {
                Status::Queued => {
                    queue.queued += 1;
                    queue.oldest_queued_at.get_or_insert(message.created);
                }
                Status::Leased => queue.leased += 1,
                Status::Completed => queue.completed += 1,
                Status::Failed => queue.failed += 1,
                Status::Expired => queue.expired += 1,
            }
        }
        queue
    }
}

struct World {
    kept: Kept,
    local: LocalStore,
    store: V2Store,
    model: Model,
    clock: ManualClock,
    made: usize,
}

fn beside(local: &LocalStore) -> V2Store {
    V2Store::new(local.db().clone(), SystemRandom::shared())
}

pub(super) async fn run(kept: Kept, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let local = kept.open();
    let store = beside(&local);
    let (model, clock) = (Model::default(), ManualClock::at(START));
    let mut world = World { kept, local, store, model, clock, made: 0 };
    for step in steps {
        world.apply(step).await?;
        world.compare().await?;
        world.compare_load().await?;
    }
    Ok(())
}

impl World {
    async fn apply(&mut self, step: Step) -> Result<(), TestCaseError> {
        let now = self.clock.now();
        match step {
            Step::Ask { from, to, key, ttl } => {
                let message = Message::new(&format!("k{key}"), (from, to), Kind::Request, now, ttl);
                self.create(message).await?;
            }
            Step::Reply { to, key } => {
                if let Some((_, parent)) = self.pick(to) {
                    let ends = (parent.to, parent.from);
                    let reply = Message::new(&format!("k{key}"), ends, Kind::Reply, now, 60);
                    self.create(Message { parent: parent.id.map(|id| id.to_string()), ..reply }).await?;
                }
            }
            Step::Pull { by, limit, seconds } => self.pull(by, limit, seconds).await?,
            Step::Ack { by, of, token, outcome } => self.ack(by, of, token, outcome).await?,
            Step::Renew { by, of, token, seconds } => self.renew(by, of, token, seconds).await?,
            Step::Manage { by, of, action, is_admin } => self.manage(by, of, action, is_admin).await?,
            Step::Advance { seconds } => self.clock.advance(Duration::from_secs(seconds)),
            Step::Sweep => {
                let too_old = now.minus(KEPT);
                self.store.sweep(now, too_old, RULES).await.unwrap();
                let ended = self.model.tidy(now);
                self.model.tell(ended, now);
                let old = |message: &Message| {
                    !message.is_open() && message.completed.unwrap_or(message.created) <= too_old
                };
                self.model.0.retain(|message| !old(message));
            }
            Step::Restart => {
                self.kept.reopen(&mut self.local).await;
                self.store = beside(&self.local);
                if self.kept.forgets() {
                    self.model = Model::default();
                }
            }
        }
        Ok(())
    }

    /// A message whose id is known, and its place.
    fn pick(&self, of: usize) -> Option<(usize, Message)> {
        self.model.0.get(of).filter(|message| message.id.is_some()).map(|message| (of, message.clone()))
    }

    async fn create(&mut self, message: Message) -> Result<(), TestCaseError> {
        self.made += 1;
        let id = DshId::new(format!("m{}", self.made));
        let new = NewMessage {
            kind: message.kind,
            parent_id: message.parent.clone(),
            body: message.key.clone(),
            created_at: message.created,
            expires_at: message.expires,
            idempotency_key: message.key.clone(),
            ..request(id.as_str(), AGENTS[message.from], AGENTS[message.to])
        };
        let created = create(&self.store, new).await;
        let known = self.model.create(Message { id: Some(id), ..message });
        prop_assert_eq!((created.duplicate, created.conflict), known);
        Ok(())
    }

    async fn pull(&mut self, by: usize, limit: u32, seconds: u64) -> Result<(), TestCaseError> {
        let now = self.clock.now();
        let until = now.plus(Duration::from_secs(seconds));
        let pulled = self
            .store
            .pull(Pull { agent: name(AGENTS[by]), limit, now, until, rules: RULES }, |_| ())
            .await
            .unwrap();
        let ended = self.model.tidy(now);
        let queued =
            self.model.0.iter_mut().filter(|message| message.to == by && message.status == Status::Queued);
        let queued: Vec<_> = queued.take(limit as usize).collect();
        prop_assert_eq!(pulled.messages.len(), queued.len());
        for (stored, message) in pulled.messages.into_iter().zip(queued) {
            let key = (&stored.message.idempotency_key, stored.message.origin.as_str());
            prop_assert_eq!(key, (&message.key, AGENTS[message.from]));
            let State::Leased(lease) = stored.delivery.state else { panic!("not leased") };
            prop_assert_eq!(lease.until, until);
            (message.id, message.token) = (Some(stored.message.id), Some(lease.id));
            (message.status, message.until) = (Status::Leased, until);
            message.attempts += 1;
        }
        self.model.tell(ended, now);
        Ok(())
    }

    fn token(message: &Message, token: Token) -> Option<LeaseId> {
        let given = match token {
            Token::None => return None,
            Token::Current => message.token.clone(),
            Token::Stale => message.stale.clone(),
        };
        given.or_else(|| Some(LeaseId::new("never given")))
    }

    async fn ack(
        &mut self,
        by: usize,
        of: usize,
        token: Token,
        outcome: Option<Outcome>,
    ) -> Result<(), TestCaseError> {
        let Some((at, message)) = self.pick(of) else { return Ok(()) };
        let (now, lease_token) = (self.clock.now(), Self::token(&message, token));
        let id = message.id.clone().unwrap();
        let (agent, error) = (name(AGENTS[by]), "why".to_owned());
        let ack = Ack { agent, id, lease_token: lease_token.clone(), outcome, error, now, rules: RULES };
        let got = self.store.ack(ack, |_| ()).await.unwrap();
        if message.to != by {
            prop_assert_eq!(got, Acked::NotAssigned);
            return Ok(());
        }
        if let Err(refused) = message.may_ack(lease_token.as_ref(), now) {
            prop_assert_eq!(got, Acked::Refused(refused));
            return Ok(());
        }
        let message = &mut self.model.0[at];
        match outcome {
            None => {
                prop_assert_eq!(got, Acked::InvalidOutcome);
                return Ok(());
            }
            Some(Outcome::Completed) => {
                message.turn(Status::Completed);
                message.completed = Some(now);
                message.error.clear();
            }
            Some(Outcome::Retry) => {
                message.error = "why".into();
                if message.attempts < RULES.max_attempts {
                    message.turn(Status::Queued);
                } else {
                    message.fail(now, "");
                    self.model.tell(vec![at], now);
                }
            }
        }
        let is_settled = matches!(got, Acked::Settled { .. });
        prop_assert!(is_settled);
        Ok(())
    }

    async fn renew(&mut self, by: usize, of: usize, token: Token, seconds: u64) -> Result<(), TestCaseError> {
        let Some((at, message)) = self.pick(of) else { return Ok(()) };
        let now = self.clock.now();
        let lease_token = Self::token(&message, token).unwrap_or_else(|| LeaseId::new(""));
        let until = now.plus(Duration::from_secs(seconds));
        let (agent, id) = (name(AGENTS[by]), message.id.clone().unwrap());
        let renew = Renew { agent, id, lease_token: lease_token.clone(), now, until };
        let got = self.store.renew(renew).await.unwrap();
        let want = match message.to == by {
            true => message.may_ack(Some(&lease_token), now),
            false => Err(LeaseRefused::Mismatch),
        };
        prop_assert_eq!(got, want);
        if want.is_ok() {
            self.model.0[at].until = until;
        }
        Ok(())
    }

    async fn manage(
        &mut self,
        by: usize,
        of: usize,
        action: Action,
        is_admin: bool,
    ) -> Result<(), TestCaseError> {
        let Some((at, message)) = self.pick(of) else { return Ok(()) };
        let now = self.clock.now();
        let id = message.id.clone().unwrap();
        let got = self
            .store
            .manage(Manage { action, agent: name(AGENTS[by]), id, is_admin, now }, |_| ())
            .await
            .unwrap();
        let is_done = message.status == Status::Completed;
        let is_own = message.kind == Kind::Request
            && match action {
                Action::Requeue => message.to == by && !is_done,
                Action::Cancel => message.from == by,
            };
        if !is_admin && !is_own {
            prop_assert_eq!(got, Managed::NotAllowed);
            return Ok(());
        }
        let message = &mut self.model.0[at];
        let said = match action {
            Action::Requeue if message.status != Status::Queued => {
                message.turn(Status::Queued);
                message.attempts = 0;
                "requeued by operator"
            }
            Action::Cancel if !is_done => {
                message.turn(Status::Completed);
                message.completed = Some(now);
                "cancelled by operator"
            }
            _ => {
                prop_assert_eq!(got, Managed::OtherState);
                return Ok(());
            }
        };
        let is_managed = matches!(got, Managed::Done { .. });
        prop_assert!(is_managed);
        if message.error.is_empty() {
            message.error = said.to_owned();
        }
        Ok(())
    }

    async fn compare_load(&self) -> Result<(), TestCaseError> {
        let count = |status| self.model.0.iter().filter(|message| message.status == status).count() as i64;
        let waiting = self.model.0.iter().filter(|message| message.status == Status::Queued);
        // The first of each inbox was put there first, and the clock does not go back.
        let oldest_queued = waiting.map(|message| message.created).min();
        let want = Load { queued: count(Status::Queued), leased: count(Status::Leased), oldest_queued };
        prop_assert_eq!(self.store.load().await.unwrap(), want);
        Ok(())
    }

    /// Every message is as the model says, and so are the counts and what an agent may look up.
    async fn compare(&self) -> Result<(), TestCaseError> {
        for (agent, name) in AGENTS.iter().enumerate().map(|(agent, text)| (agent, name(text))) {
            let own = self
                .model
                .0
                .iter()
                .enumerate()
                .filter(|(_, message)| message.from == agent || message.to == agent);
            let mut want: Vec<_> = own
                .map(|(at, message)| {
                    let Message { key, created, status, attempts, error, completed, .. } = message.clone();
                    (Reverse((created, at)), key, status, attempts, error, completed)
                })
                .collect();
            want.sort_by_key(|message| message.0);
            let found = self.store.query(Query::all(name.clone(), START, 1000)).await.unwrap();
            prop_assert_eq!(found.len(), want.len());
            for (stored, (_, key, status, attempts, error, completed)) in found.into_iter().zip(want) {
                let got = &stored.delivery;
                prop_assert_eq!(stored.message.idempotency_key, key);
                prop_assert_eq!((got.status(), got.attempts), (status, attempts));
                prop_assert_eq!((&got.last_error, got.completed_at), (&error, completed));
            }
            let queues = self.store.queues(vec![name]).await.unwrap();
            prop_assert_eq!(queues[0], self.model.queue(agent));
        }
        Ok(())
    }
}
