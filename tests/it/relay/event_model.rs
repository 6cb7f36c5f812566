//! Events, sessions and the day's quota against a model of them: random subscriptions, publications, requests in
//! threads, closed sessions and time. Each listener gets each event once and in order, in the session it belongs to,
//! and exactly as many messages are accepted as the plan allows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use redsyn_bridge::domain::clock::Timestamp;
use redsyn_bridge::domain::relay::plan::Plans;
use redsyn_bridge::domain::relay::refusal::{Quota, Refusal};
use redsyn_bridge::proto::redsyn::address::{AgentAddress, TopicAddress};
use redsyn_bridge::proto::redsyn::ids::Kind;
use redsyn_bridge::proto::redsyn::policy::Policy;
use redsyn_bridge::store::relay::{
    Announcement, Caller, Draft, Home, RelayStore, RelayStoreError, Route, Sender, Take, TakeWhat, TokenHash,
};

use super::target::{NOW, open_store};

const AGENTS: usize = 3;
const TOPICS: usize = 2;
/// Small, so that the quota is met again and again.
const A_DAY: u64 = 8;
const TTL_SECS: u64 = 20 * 3600;

#[derive(Clone, Debug)]
enum Step {
    Subscribe { agent: usize, topic: usize },
    Unsubscribe { agent: usize, topic: usize },
    Publish { agent: usize, topic: usize },
    Ask { from: usize, to: usize, thread: u8 },
    Take { agent: usize },
    Close { agent: usize, session: prop::sample::Index },
    Advance { hours: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (agent, topic) = (0..AGENTS, 0..TOPICS);
    let step = prop_oneof![
        3 => (agent.clone(), topic.clone()).prop_map(|(agent, topic)| Step::Subscribe { agent, topic }),
        1 => (agent.clone(), topic.clone()).prop_map(|(agent, topic)| Step::Unsubscribe { agent, topic }),
        5 => (agent.clone(), topic).prop_map(|(agent, topic)| Step::Publish { agent, topic }),
        3 => (agent.clone(), agent.clone(), 0..2u8)
            .prop_map(|(from, to, thread)| Step::Ask { from, to, thread }),
        3 => agent.clone().prop_map(|agent| Step::Take { agent }),
        1 => (agent, any::<prop::sample::Index>()).prop_map(|(agent, session)| Step::Close { agent, session }),
        2 => (1..15u64).prop_map(|hours| Step::Advance { hours }),
    ];
    prop::collection::vec(step, 1..60)
}

/// Why a session exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    Topic(usize),
    Thread(u8),
}

#[derive(Debug, Default)]
struct ModelAgent {
    hears: BTreeSet<usize>,
    /// The current session of each cause.
    current: BTreeMap<Cause, usize>,
    /// Whether each session is open; the first is s1.
    sessions: Vec<bool>,
    waiting: Vec<(String, usize, Timestamp)>,
}

impl ModelAgent {
    fn session(&mut self, cause: Cause) -> usize {
        match self.current.get(&cause) {
            Some(number) if self.sessions[number - 1] => *number,
            _ => {
                self.sessions.push(true);
                self.current.insert(cause, self.sessions.len());
                self.sessions.len()
            }
        }
    }

    fn arrives(&mut self, id: &str, cause: Cause, expires: Timestamp) {
        let session = self.session(cause);
        self.waiting.push((id.to_owned(), session, expires));
    }
}

#[derive(Debug, Default)]
struct Model {
    agents: [ModelAgent; AGENTS],
    day: i64,
    sent: u64,
    next_id: usize,
}

impl Model {
    /// Whether one more message fits into the day, which it then counts for.
    fn counts(&mut self, now: Timestamp) -> bool {
        let day = now.secs().div_euclid(86_400);
        if day != self.day {
            (self.day, self.sent) = (day, 0);
        }
        let fits = self.sent < A_DAY;
        self.sent += u64::from(fits);
        fits
    }
}

struct Relay {
    store: Arc<dyn RelayStore>,
    caller: Caller,
    now: Timestamp,
    model: Model,
    _folder: tempfile::TempDir,
}

fn agent(number: usize) -> AgentAddress {
    format!("local/general/me/a{number}").parse().unwrap()
}

fn topic(number: usize) -> TopicAddress {
    format!("topic:local/general/t{number}").parse().unwrap()
}

impl Relay {
    async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut plans = Plans::default();
        let mut plan = plans.get("enterprise").clone();
        plan.messages_per_day = Some(A_DAY);
        plans.set("enterprise", plan);
        let store = open_store(folder.path(), Arc::new(plans)).await;
        let now = Timestamp::from_secs(NOW);
        let home = Home {
            email: "me@local".parse().unwrap(),
            plan: "enterprise".into(),
            org: "local".parse().unwrap(),
            team: "general".parse().unwrap(),
            user: "me".parse().unwrap(),
            node: "one".into(),
            version: "2026-09-25".into(),
        };
        store.ensure_home(home, TokenHash::of("one"), now).await.unwrap();
        let caller = store.caller(TokenHash::of("one")).await.unwrap().unwrap();
        for number in 0..AGENTS {
            let announcement = Announcement {
                agent: agent(number),
                description: None,
                adapter: None,
                listening: Some(Some(Policy::default())),
            };
            store.announce(caller.clone(), announcement, now).await.unwrap();
        }
        Self { store, caller, now, model: Model::default(), _folder: folder }
    }

    /// Sends, and checks that it is accepted exactly when the plan allows it.
    async fn send(
        &mut self,
        from: usize,
        route: Route,
        thread: Option<String>,
    ) -> Result<Option<String>, TestCaseError> {
        let id = format!("m{}", self.model.next_id);
        self.model.next_id += 1;
        let kind = if matches!(route, Route::Event { .. }) { Kind::Event } else { Kind::Request };
        let draft = Draft {
            sender: Sender { person: self.caller.person, ip: None },
            id: id.parse().unwrap(),
            kind,
            from: agent(from).into(),
            route,
            thread,
            ts: None,
            ttl_secs: Some(TTL_SECS),
            body: "{}".into(),
            encrypted: false,
            refs: "[]".into(),
            error: false,
            zip: None,
            signature: Ok(None),
        };
        let fits = self.model.counts(self.now);
        match self.store.send(draft, self.now).await {
            Ok(_) => {
                prop_assert!(fits, "{} was one too many", id);
                Ok(Some(id))
            }
            Err(RelayStoreError::Refused(refusal)) => {
                prop_assert_eq!(*refusal, Refusal::Quota(Quota::Messages));
                prop_assert!(!fits, "{} should have fitted", id);
                Ok(None)
            }
            Err(error) => Err(TestCaseError::fail(error.to_string())),
        }
    }

    async fn publish(&mut self, from: usize, number: usize) -> Result<(), TestCaseError> {
        let sent = self.send(from, Route::Event { topic: topic(number) }, None).await?;
        let expires = self.now.plus(Duration::from_secs(TTL_SECS));
        if let Some(id) = sent {
            for (at, listener) in self.model.agents.iter_mut().enumerate() {
                if at != from && listener.hears.contains(&number) {
                    listener.arrives(&id, Cause::Topic(number), expires);
                }
            }
        }
        Ok(())
    }

    async fn ask(&mut self, from: usize, to: usize, thread: u8) -> Result<(), TestCaseError> {
        let route = Route::Request { to: agent(to).into() };
        let sent = self.send(from, route, Some(format!("t{thread}"))).await?;
        let expires = self.now.plus(Duration::from_secs(TTL_SECS));
        if let Some(id) = sent {
            self.model.agents[to].arrives(&id, Cause::Thread(thread), expires);
        }
        Ok(())
    }

    /// Takes all and confirms it. Notices of requests that expired are checked over HTTP.
    async fn take(&mut self, number: usize) -> Result<(), TestCaseError> {
        let take = Take {
            person: self.caller.person,
            node: self.caller.node,
            agent: agent(number),
            what: TakeWhat::Any { lease_secs: 30 },
        };
        let taken = self.store.take(take, self.now).await.unwrap().value;
        let all = taken.iter().map(|item| item.message.id.clone()).collect();
        self.store.confirm(self.caller.person, agent(number), all, self.now).await.unwrap();
        let given: Vec<(String, String)> = taken
            .into_iter()
            .filter(|item| item.message.kind != Kind::Reply)
            .map(|item| (item.message.id.to_string(), item.message.to))
            .collect();
        let waiting = std::mem::take(&mut self.model.agents[number].waiting);
        let expected: Vec<(String, String)> = waiting
            .into_iter()
            .filter(|(_, _, expires)| *expires > self.now)
            .map(|(id, session, _)| (id, format!("{}#s{session}", agent(number))))
            .collect();
        prop_assert_eq!(given, expected);
        Ok(())
    }

    async fn play(&mut self, steps: Vec<Step>) -> Result<(), TestCaseError> {
        let person = self.caller.person;
        for step in steps {
            match step {
                Step::Subscribe { agent: at, topic: number } => {
                    self.store.subscribe(person, agent(at), topic(number), self.now).await.unwrap();
                    self.model.agents[at].hears.insert(number);
                }
                Step::Unsubscribe { agent: at, topic: number } => {
                    self.store.unsubscribe(person, agent(at), topic(number)).await.unwrap();
                    self.model.agents[at].hears.remove(&number);
                }
                Step::Publish { agent, topic } => self.publish(agent, topic).await?,
                Step::Ask { from, to, thread } => self.ask(from, to, thread).await?,
                Step::Take { agent } => self.take(agent).await?,
                Step::Close { agent: at, session } => {
                    let sessions = &mut self.model.agents[at].sessions;
                    if !sessions.is_empty() {
                        let index = session.index(sessions.len());
                        sessions[index] = false;
                        let id = format!("s{}", index + 1);
                        self.store.close_session(person, agent(at), id).await.unwrap();
                    }
                }
                Step::Advance { hours } => {
                    self.now = self.now.plus(Duration::from_secs(hours * 3600));
                    while self.store.sweep(self.now).await.unwrap().value.more {}
                }
            }
        }
        for number in 0..AGENTS {
            self.take(number).await?;
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn topics_and_quotas_do_what_their_model_does(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { Relay::open().await.play(steps).await })?;
    }
}
