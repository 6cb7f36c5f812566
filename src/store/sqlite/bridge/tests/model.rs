//! Random lives of the store beside a model that fits on a page: nothing is lost, nothing comes twice, lanes keep
//! their order, and a restart changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::store::bridge::Landed;

#[derive(Clone, Debug)]
enum Step {
    /// `close` sends `m<n>`: in a conversation of its own, or in the one called `t<thread>`.
    Send {
        n: u8,
        thread: u8,
    },
    /// `close` answers the inbound `q<n>`.
    Answer {
        n: u8,
    },
    /// The relay takes one of the entries that are due.
    Accept(usize),
    /// It does not answer, or asks to wait.
    Postpone(usize, u8),
    /// It refuses.
    Fail(usize),
    /// The relay delivers `q<n>`, for the first time or again.
    Ask {
        n: u8,
    },
    /// It delivers `q<n>`, which does not open.
    Garble {
        n: u8,
    },
    /// It delivers the reply to `m<n>`.
    Reply {
        n: u8,
        error: bool,
    },
    Wait(u8),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..8_u8, 0..3_u8).prop_map(|(n, thread)| Step::Send { n, thread }),
        3 => (0..4_u8).prop_map(|n| Step::Answer { n }),
        4 => any::<usize>().prop_map(Step::Accept),
        2 => (any::<usize>(), 1..30_u8).prop_map(|(which, secs)| Step::Postpone(which, secs)),
        1 => any::<usize>().prop_map(Step::Fail),
        3 => (0..4_u8).prop_map(|n| Step::Ask { n }),
        1 => (0..4_u8).prop_map(|n| Step::Garble { n }),
        3 => (0..8_u8, any::<bool>()).prop_map(|(n, error)| Step::Reply { n, error }),
        2 => (1..30_u8).prop_map(Step::Wait),
        1 => Just(Step::Restart),
    ]
}

/// An entry that the outbox should hold.
#[derive(Clone, Debug)]
struct Waiting {
    /// The id as the agent knows it, or `no q<n>` for what the bridge itself says.
    name: String,
    kind: Kind,
    lane: String,
    next: Timestamp,
}

/// What the store should hold.
#[derive(Debug, Default)]
struct Model {
    outbox: Vec<Waiting>,
    /// Every message that has ever left, with its status.
    status: BTreeMap<String, Status>,
    /// What was ever put into a lane, and what the relay took from it, in order.
    lanes: BTreeMap<String, (Vec<String>, Vec<String>)>,
    /// Requests of ours that can still be answered.
    open: BTreeSet<String>,
    inbox: Vec<String>,
    seen: BTreeSet<String>,
    /// Inbound requests that were delivered and not replied to.
    unanswered: BTreeSet<String>,
    answers: usize,
}

/// The thread of the inbound `q<n>`.
fn thread_of(n: u8) -> String {
    format!("t{}", 1 + n % 2)
}

impl Model {
    fn put(&mut self, name: &str, kind: Kind, lane: &str, now: Timestamp) {
        self.lanes.entry(lane.to_owned()).or_default().0.push(name.to_owned());
        if !is_own(name) {
            self.status.insert(name.to_owned(), Status::Queued);
            if kind == Kind::Request {
                self.open.insert(name.to_owned());
            }
        }
        self.outbox.push(Waiting { name: name.to_owned(), kind, lane: lane.to_owned(), next: now });
    }

    fn due(&self, now: Timestamp) -> Vec<Waiting> {
        let mut lanes = BTreeSet::new();
        let heads = self.outbox.iter().filter(|entry| lanes.insert(&entry.lane));
        heads.filter(|entry| entry.next <= now).cloned().collect()
    }

    fn take_out(&mut self, name: &str) -> Option<Waiting> {
        let at = self.outbox.iter().position(|entry| entry.name == name)?;
        Some(self.outbox.remove(at))
    }
}

fn is_own(name: &str) -> bool {
    name.starts_with("no ")
}

fn name_of(entry: &OutboxEntry) -> String {
    let refused = || format!("no {}", entry.reply_to.as_ref().unwrap());
    entry.local_id.clone().unwrap_or_else(refused)
}

struct World {
    node: Node,
    model: Model,
    now: Timestamp,
}

impl World {
    async fn new() -> Self {
        let mut world = Self { node: Node::new(), model: Model::default(), now: NOW };
        // Both conversations have begun.
        for n in [10, 11] {
            world.ask(n).await;
        }
        world
    }

    async fn step(mut self, step: Step) -> Self {
        match step {
            Step::Send { n, thread } => self.send(n, thread).await,
            Step::Answer { n } => self.answer(n).await,
            Step::Accept(which) => self.settle(which, true).await,
            Step::Fail(which) => self.settle(which, false).await,
            Step::Postpone(which, secs) => self.postpone(which, secs).await,
            Step::Ask { n } => self.ask(n).await,
            Step::Garble { n } => self.garble(n).await,
            Step::Reply { n, error } => self.reply(n, error).await,
            Step::Wait(secs) => self.now = self.now.plus(Duration::from_secs(secs.into())),
            Step::Restart => self.node = self.node.reopened().await,
        }
        self.check().await;
        self
    }

    async fn send(&mut self, n: u8, thread: u8) {
        let local_id = format!("m{n}");
        let root_id = (thread > 0).then(|| format!("t{thread}"));
        let lane = root_id.clone().unwrap_or_else(|| local_id.clone());
        let departure = Departure { root_id, now: self.now, ..request(&local_id) };
        let is_new = !self.model.status.contains_key(&local_id);
        assert_eq!(self.node.depart(departure).await.duplicate, !is_new);
        if is_new {
            self.model.put(&local_id, Kind::Request, &lane, self.now);
        }
    }

    async fn answer(&mut self, n: u8) {
        let request = format!("q{n}");
        if !self.model.inbox.contains(&request) {
            return;
        }
        self.model.answers += 1;
        let local_id = format!("a{}", self.model.answers);
        let departure = under(&request, plain(&local_id, LocalKind::Reply));
        self.node.depart(Departure { now: self.now, ..departure }).await;
        let kind = if self.model.unanswered.remove(&request) { Kind::Reply } else { Kind::Request };
        self.model.put(&local_id, kind, &thread_of(n), self.now);
    }

    /// One of the entries that are due, in the model and in the store.
    async fn choose(&self, which: usize) -> Option<(Waiting, OutboxEntry)> {
        let due = self.model.due(self.now);
        let chosen = due.get(which % due.len().max(1))?.clone();
        let entries = self.node.due_at(self.now).await;
        let entry = entries.into_iter().find(|entry| name_of(entry) == chosen.name).unwrap();
        Some((chosen, entry))
    }

    async fn settle(&mut self, which: usize, accepted: bool) {
        let Some((chosen, entry)) = self.choose(which).await else { return };
        let name = chosen.name;
        if accepted {
            self.node.accept(&entry, entry.thread.as_deref().unwrap_or(entry.id.as_str()), None).await;
        } else if is_own(&name) {
            let failure = Failure { entry, code: "forbidden", reason: "no".into(), now: self.now };
            self.node.store.failed(failure, None).await.unwrap();
        } else {
            self.node.fail(&entry).await;
        }
        self.model.take_out(&name).unwrap();
        if accepted {
            self.model.lanes.get_mut(&chosen.lane).unwrap().1.push(name.clone());
        }
        if is_own(&name) {
            return;
        }
        let status = match (accepted, chosen.kind) {
            (false, _) => Status::Failed,
            (true, Kind::Request) => Status::Leased,
            (true, _) => Status::Done,
        };
        if !accepted {
            self.model.open.remove(&name);
            self.model.inbox.push(format!("undelivered:{name}"));
        }
        self.model.status.insert(name, status);
    }

    async fn postpone(&mut self, which: usize, secs: u8) {
        let Some((chosen, entry)) = self.choose(which).await else { return };
        let next = self.now.plus(Duration::from_secs(secs.into()));
        self.node.store.postpone(entry.seq, next, "away".into()).await.unwrap();
        self.model.outbox.iter_mut().find(|other| other.name == chosen.name).unwrap().next = next;
    }

    async fn ask(&mut self, n: u8) {
        let text = format!("q{n}");
        let asked = Arrival { thread: Some(thread_of(n)), ..arrival(&text, Kind::Request) };
        let landed = self.node.store.arrive(asked, |_| ()).await.unwrap();
        if self.model.seen.insert(text.clone()) {
            assert_eq!(landed, Landed::Delivered);
            self.model.inbox.push(text.clone());
            self.model.unanswered.insert(text);
        } else {
            assert_eq!(landed, Landed::Seen);
        }
    }

    async fn garble(&mut self, n: u8) {
        let text = format!("q{n}");
        let garbled = Refusal { thread: Some(thread_of(n)), now: self.now, ..refusal(&text, Kind::Request) };
        self.node.store.refuse(garbled).await.unwrap();
        if self.model.seen.insert(text) {
            self.model.put(&format!("no q{n}"), Kind::Reply, &thread_of(n), self.now);
        }
    }

    async fn reply(&mut self, n: u8, error: bool) {
        let (text, request) = (format!("r{n}"), format!("m{n}"));
        let arrival = Arrival { error, ..reply(&text, &id(&request)) };
        let landed = self.node.store.arrive(arrival, |_| ()).await.unwrap();
        if !self.model.seen.insert(text.clone()) {
            assert_eq!(landed, Landed::Seen);
        } else if self.model.open.remove(&request) {
            assert_eq!(landed, Landed::Delivered);
            self.model.inbox.push(text);
            let status = if error { Status::Failed } else { Status::Done };
            self.model.status.insert(request.clone(), status);
            // If it was still waiting here, the answer proves that the relay has it.
            self.model.take_out(&request);
        } else {
            assert_eq!(landed, Landed::Unasked);
        }
    }

    async fn check(&self) {
        let mut due: Vec<String> = self.node.due_at(self.now).await.iter().map(name_of).collect();
        let mut expected: Vec<String> =
            self.model.due(self.now).into_iter().map(|entry| entry.name).collect();
        due.sort();
        expected.sort();
        assert_eq!(due, expected);
        assert_eq!(self.node.outbox_len().await, i64::try_from(self.model.outbox.len()).unwrap());
        assert_eq!(self.node.inbox_ids().await, self.model.inbox);
        for (local_id, status) in &self.model.status {
            assert_eq!(self.node.status(local_id).await.status, *status, "{local_id}");
        }
        for (lane, (sent, taken)) in &self.model.lanes {
            let mut rest = sent.iter();
            assert!(taken.iter().all(|one| rest.any(|other| other == one)), "{lane}: {sent:?} / {taken:?}");
        }
    }

    /// Lets the relay take all there is: then nothing may be left over.
    async fn drain(mut self) {
        self.now = self.now.plus(Duration::from_secs(3600));
        while !self.model.outbox.is_empty() {
            assert!(
                !self.model.due(self.now).is_empty(),
                "something waits for ever: {:?}",
                self.model.outbox
            );
            self.settle(0, true).await;
            self.check().await;
        }
        let lost: Vec<_> =
            self.model.status.iter().filter(|(_, status)| **status == Status::Queued).collect();
        assert!(lost.is_empty(), "{lost:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_and_nothing_comes_twice(steps in proptest::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut world = World::new().await;
            for step in steps {
                world = world.step(step).await;
            }
            world.drain().await;
        });
    }
}
