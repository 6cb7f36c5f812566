//! A mailbox against a model of it: random sends, takes by two nodes, confirmations and time. No message is in two
//! hands under one lease, none is lost, and a session keeps its order. Retention may delete at any moment whatever has
//! ended: the model knows nothing of it, and ids stay known.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use redsyn_bridge::domain::clock::Timestamp;
use redsyn_bridge::proto::redsyn::address::AgentAddress;
use redsyn_bridge::proto::redsyn::ids::Kind;
use redsyn_bridge::proto::redsyn::policy::Policy;
use redsyn_bridge::store::relay::{
    Announcement, Caller, Draft, Home, RelayStore, Route, Sender, Take, TakeWhat, TokenHash,
};

use super::target::{NOW, open_store};

#[derive(Clone, Debug)]
enum Step {
    Send {
        thread: u8,
        sealed: bool,
        ttl_secs: u64,
    },
    Take {
        node: usize,
        lease_secs: u64,
    },
    /// Confirms the n-th of what is in somebody's hands, or was.
    Confirm {
        which: prop::sample::Index,
    },
    Advance {
        secs: u64,
    },
    /// Deletes what ended so long ago, or just now.
    Forget {
        secs_ago: u64,
    },
    /// Sends the n-th message again.
    Again {
        which: prop::sample::Index,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..3u8, prop::bool::weighted(0.2), prop_oneof![4 => Just(100_000u64), 1 => 1..60u64])
            .prop_map(|(thread, sealed, ttl_secs)| Step::Send { thread, sealed, ttl_secs }),
        4 => (0..2usize, 1..30u64).prop_map(|(node, lease_secs)| Step::Take { node, lease_secs }),
        3 => any::<prop::sample::Index>().prop_map(|which| Step::Confirm { which }),
        2 => (1..40u64).prop_map(|secs| Step::Advance { secs }),
        2 => (0..20u64).prop_map(|secs_ago| Step::Forget { secs_ago }),
        1 => any::<prop::sample::Index>().prop_map(|which| Step::Again { which }),
    ];
    prop::collection::vec(step, 1..50)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Hands {
    Nobody,
    Node { node: usize, until: Timestamp },
    Done,
}

#[derive(Clone, Debug)]
struct Message {
    id: String,
    thread: u8,
    reserved: Option<usize>,
    expires: Timestamp,
    attempts: u32,
    hands: Hands,
}

/// What a mailbox is, written as plainly as possible.
#[derive(Debug, Default)]
struct Model {
    messages: Vec<Message>,
}

impl Model {
    fn time_passes(&mut self, now: Timestamp) {
        for message in &mut self.messages {
            if let Hands::Node { until, .. } = message.hands
                && until <= now
            {
                message.hands = if message.attempts >= 10 { Hands::Done } else { Hands::Nobody };
            }
            if message.hands == Hands::Nobody && message.expires <= now {
                message.hands = Hands::Done;
            }
        }
    }

    fn take(&mut self, node: usize, until: Timestamp) -> Vec<(String, u32)> {
        let mut blocked = BTreeSet::new();
        let mut taken = Vec::new();
        for message in &mut self.messages {
            let elsewhere = match message.hands {
                Hands::Done => false,
                Hands::Node { node: holder, .. } => holder != node,
                Hands::Nobody => message.reserved.is_some_and(|reserved| reserved != node),
            };
            if elsewhere {
                blocked.insert(message.thread);
            }
            if message.hands == Hands::Nobody && !blocked.contains(&message.thread) {
                message.attempts += 1;
                message.hands = Hands::Node { node, until };
                taken.push((message.id.clone(), message.attempts));
            }
        }
        taken
    }

    /// What a confirmation would end: taken at least once and not done.
    fn confirmable(&self) -> Vec<usize> {
        let open = |message: &Message| message.attempts > 0 && message.hands != Hands::Done;
        (0..self.messages.len()).filter(|at| open(&self.messages[*at])).collect()
    }
}

struct Mailbox {
    store: Arc<dyn RelayStore>,
    nodes: [Caller; 2],
    agent: AgentAddress,
    now: Timestamp,
    model: Model,
    _folder: tempfile::TempDir,
}

impl Mailbox {
    async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = open_store(folder.path(), Arc::default()).await;
        let now = Timestamp::from_secs(NOW);
        let mut nodes = Vec::new();
        for name in ["one", "two"] {
            let home = Home {
                email: "me@local".parse().unwrap(),
                plan: "enterprise".into(),
                org: "local".parse().unwrap(),
                team: "general".parse().unwrap(),
                user: "me".parse().unwrap(),
                node: name.into(),
                version: "2026-09-25".into(),
            };
            store.ensure_home(home, TokenHash::of(name), now).await.unwrap();
            nodes.push(store.caller(TokenHash::of(name)).await.unwrap().unwrap());
        }
        let agent: AgentAddress = "local/general/me/box".parse().unwrap();
        let announcement = Announcement {
            agent: agent.clone(),
            description: None,
            adapter: None,
            listening: Some(Some(Policy::default())),
        };
        store.announce(nodes[0].clone(), announcement, now).await.unwrap();
        let nodes = nodes.try_into().unwrap();
        Self { store, nodes, agent, now, model: Model::default(), _folder: folder }
    }

    async fn send(&mut self, thread: u8, sealed: bool, ttl_secs: u64) {
        let id = format!("m{}", self.model.messages.len());
        let draft = self.draft(&id, thread, sealed, ttl_secs);
        // Sealed for whichever node listened last.
        let listened = self.store.agent(self.nodes[0].person, self.agent.clone()).await.unwrap().state.node;
        let reserved = sealed.then(|| usize::from(listened.as_deref() == Some("two")));
        self.store.send(draft, self.now).await.unwrap();
        let expires = self.now.plus(Duration::from_secs(ttl_secs));
        self.model.messages.push(Message {
            id,
            thread,
            reserved,
            expires,
            attempts: 0,
            hands: Hands::Nobody,
        });
    }

    /// Whether the store knows it for what it sent before.
    async fn send_again(&mut self, at: usize) -> bool {
        let (id, thread) = (self.model.messages[at].id.clone(), self.model.messages[at].thread);
        self.store.send(self.draft(&id, thread, false, 60), self.now).await.unwrap().value.duplicate
    }

    async fn forget(&mut self, ago: Duration) {
        while self.store.forget(self.now.minus(ago), self.now).await.unwrap().more {}
    }

    fn draft(&self, id: &str, thread: u8, sealed: bool, ttl_secs: u64) -> Draft {
        Draft {
            sender: Sender { person: self.nodes[0].person, ip: None },
            id: id.parse().unwrap(),
            kind: Kind::Request,
            from: self.agent.clone().into(),
            route: Route::Request { to: self.agent.clone().into() },
            thread: Some(format!("t{thread}")),
            ts: None,
            ttl_secs: Some(ttl_secs),
            body: "{}".into(),
            encrypted: sealed,
            refs: "[]".into(),
            error: false,
            zip: None,
            signature: Ok(None),
        }
    }

    /// What the store hands out, notices of lost messages aside: those are checked over HTTP.
    async fn take(&mut self, node: usize, lease_secs: u64) -> (Vec<(String, u32)>, Vec<(String, u32)>) {
        let take = Take {
            person: self.nodes[node].person,
            node: self.nodes[node].node,
            agent: self.agent.clone(),
            what: TakeWhat::Any { lease_secs },
        };
        let given = self.store.take(take, self.now).await.unwrap().value;
        let given = given
            .into_iter()
            .filter(|item| item.message.kind == Kind::Request)
            .map(|item| (item.message.id.to_string(), item.attempts))
            .collect();
        (given, self.model.take(node, self.now.plus(Duration::from_secs(lease_secs))))
    }

    async fn confirm(&mut self, at: usize) {
        let id = self.model.messages[at].id.parse().unwrap();
        let confirmed =
            self.store.confirm(self.nodes[0].person, self.agent.clone(), vec![id], self.now).await;
        assert_eq!(confirmed.unwrap().value.len(), 1);
        self.model.messages[at].hands = Hands::Done;
    }

    async fn advance(&mut self, secs: u64) {
        self.now = self.now.plus(Duration::from_secs(secs));
        while self.store.sweep(self.now).await.unwrap().value.more {}
        self.model.time_passes(self.now);
    }

    async fn play(&mut self, steps: Vec<Step>) -> Result<(), TestCaseError> {
        for step in steps {
            match step {
                Step::Send { thread, sealed, ttl_secs } => self.send(thread, sealed, ttl_secs).await,
                Step::Take { node, lease_secs } => {
                    let (given, expected) = self.take(node, lease_secs).await;
                    prop_assert_eq!(given, expected);
                }
                Step::Confirm { which } => {
                    let open = self.model.confirmable();
                    if !open.is_empty() {
                        self.confirm(open[which.index(open.len())]).await;
                    }
                }
                Step::Advance { secs } => self.advance(secs).await,
                Step::Forget { secs_ago } => self.forget(Duration::from_secs(secs_ago)).await,
                Step::Again { which } => {
                    if !self.model.messages.is_empty() {
                        let at = which.index(self.model.messages.len());
                        prop_assert!(self.send_again(at).await);
                    }
                }
            }
        }
        self.drain().await
    }

    /// Whatever is not done yet still reaches somebody.
    async fn drain(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..40 {
            self.advance(60).await;
            for node in 0..2 {
                let (given, expected) = self.take(node, 10).await;
                prop_assert_eq!(given, expected);
                for at in self.model.confirmable() {
                    self.confirm(at).await;
                }
            }
            if self.model.messages.iter().all(|message| message.hands == Hands::Done) {
                return Ok(());
            }
        }
        Err(TestCaseError::fail(format!("never delivered: {:?}", self.model.messages)))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_mailbox_does_what_its_model_does(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut mailbox = Mailbox::open().await;
            mailbox.play(steps).await
        })?;
    }
}
