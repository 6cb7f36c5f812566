//! The store of the second generation against a model that knows no SQL, and what only a database can get wrong.

use std::time::Duration;

use proptest::prelude::*;

use super::create::insert_message;
use super::*;
use crate::domain::clock::{Clock, ManualClock};
use crate::domain::delivery::LeaseId;
use crate::domain::random::SystemRandom;
use crate::domain::v2::delivery::{Delivery, State, Status};
use crate::proto::dsh::v2::message::{Kind, Mode};
use crate::proto::dsh::v2::request::Outcome;
use crate::store::local::Stages;
use crate::store::sqlite::kept::Kept;
use crate::store::sqlite::local::LocalStore;
use crate::store::sqlite::local_schema::STEPS;
use crate::store::v2::Action;

mod model;
mod notices;
mod pages;

const START: Timestamp = Timestamp::from_secs(1_700_000_000);
const RULES: Rules = Rules { max_attempts: 2, notify: true };

fn name(text: &str) -> Name {
    Name::of(text)
}

fn later(seconds: u64) -> Timestamp {
    START.plus(Duration::from_secs(seconds))
}

fn store() -> V2Store {
    V2Store::new(Db::in_memory(STEPS).unwrap(), SystemRandom::shared())
}

fn request(id: &str, origin: &str, target: &str) -> NewMessage {
    NewMessage {
        id: DshId::new(id),
        root_id: format!("root of {id}"),
        parent_id: None,
        origin: name(origin),
        target: name(target),
        kind: Kind::Request,
        body: format!("do {id}"),
        session_ref: String::new(),
        mode: Mode::Read,
        context: String::new(),
        topic: String::new(),
        allow_shared_write: false,
        idempotency_key: id.to_owned(),
        created_at: START,
        expires_at: later(3600),
    }
}

async fn create(store: &V2Store, message: NewMessage) -> Created {
    let inbox = message.target.clone();
    store.create(message, inbox, |_| ()).await.unwrap()
}

async fn pull(store: &V2Store, agent: &str, now: Timestamp) -> Pulled {
    let until = now.plus(Duration::from_secs(60));
    store.pull(Pull { agent: name(agent), limit: 8, now, until, rules: RULES }, |_| ()).await.unwrap()
}

async fn ack(store: &V2Store, agent: &str, id: &str, outcome: Outcome, now: Timestamp) -> Acked {
    let (id, error, outcome) = (DshId::new(id), String::new(), Some(outcome));
    let ack = Ack { agent: name(agent), id, lease_token: None, outcome, error, now, rules: RULES };
    store.ack(ack, |_| ()).await.unwrap()
}

fn ids(messages: &[StoredMessage]) -> Vec<&str> {
    messages.iter().map(|message| message.message.id.as_str()).collect()
}

async fn find(store: &V2Store, id: &str) -> StoredMessage {
    store.lookup(DshId::new(id)).await.unwrap().unwrap()
}

#[tokio::test]
async fn every_field_comes_back_as_it_was_stored() {
    let store = store();
    let new = NewMessage {
        parent_id: Some("p".into()),
        body: "a\0b 🦀".into(),
        session_ref: "s".into(),
        mode: Mode::Write,
        context: " c ".into(),
        topic: "т".into(),
        allow_shared_write: true,
        ..request("m1", "alpha", "")
    };
    assert_eq!(
        create(&store, new.clone()).await,
        Created { id: new.id.clone(), duplicate: false, conflict: false }
    );
    let stored = find(&store, "m1").await;
    assert_eq!(
        (stored.message, stored.inbox, stored.delivery.status()),
        (new, Some(name("")), Status::Queued)
    );
}

#[tokio::test]
async fn a_key_is_used_once_and_what_differs_is_told() {
    let store = store();
    create(&store, request("m1", "alpha", "beta")).await;
    let again = NewMessage { id: DshId::new("m2"), expires_at: later(60), ..request("m1", "alpha", "beta") };
    let first = Created { id: DshId::new("m1"), duplicate: true, conflict: false };
    assert_eq!(create(&store, again.clone()).await, first);
    for other in [
        NewMessage { body: "other".into(), ..again.clone() },
        NewMessage { target: name("gamma"), ..again.clone() },
        NewMessage { topic: "t".into(), ..again.clone() },
        NewMessage { kind: Kind::Reply, parent_id: Some("m1".into()), ..again.clone() },
    ] {
        assert_eq!(create(&store, other).await, Created { conflict: true, ..first.clone() });
    }
    assert!(!create(&store, NewMessage { origin: name("beta"), ..again }).await.duplicate);
}

#[tokio::test]
async fn each_stage_is_noted_in_the_transaction_of_its_change() {
    let store = store();
    for id in ["done", "failed", "expired"] {
        create(&store, request(id, "alpha", "beta")).await;
    }
    assert_eq!(ids(&pull(&store, "beta", later(1)).await.messages), ["done", "failed", "expired"]);
    let reply = NewMessage {
        kind: Kind::Reply,
        parent_id: Some("done".into()),
        created_at: later(2),
        ..request("reply", "beta", "alpha")
    };
    create(&store, reply).await;
    ack(&store, "beta", "done", Outcome::Completed, later(3)).await;
    ack(&store, "beta", "failed", Outcome::Retry, later(3)).await;
    pull(&store, "beta", later(4)).await;
    ack(&store, "beta", "failed", Outcome::Retry, later(5)).await;
    pull(&store, "gamma", later(3601)).await;
    let leased = Stages { leased: Some(later(1)), ..Stages::default() };
    let done = Stages { answered: Some(later(2)), acked: Some(later(3)), ..leased };
    assert_eq!(find(&store, "done").await.stages, done);
    assert_eq!(find(&store, "failed").await.stages, Stages { failed: Some(later(5)), ..leased });
    assert_eq!(find(&store, "expired").await.stages, Stages { failed: Some(later(3601)), ..leased });
}

#[tokio::test]
async fn mail_that_leaves_the_machine_is_in_no_inbox_and_not_ours_to_end() {
    let store = store();
    let out = request("out", "alpha", "acme/it/bob/x");
    store.db.call("test", move |conn| insert_message(conn, &out, None)).await.unwrap();
    assert_eq!(pull(&store, "acme/it/bob/x", later(9999)).await, Pulled::default());
    assert_eq!(find(&store, "out").await.delivery.status(), Status::Queued);
    assert_eq!(store.queues(vec![name("acme/it/bob/x")]).await.unwrap(), [Queue::default()]);
    let lines = store.status(name("acme/it/bob/x"), vec!["out".into()]).await.unwrap();
    assert_eq!(lines[0].1, None);
    assert!(store.status(name("alpha"), vec!["out".into()]).await.unwrap()[0].1.is_some());
}

#[tokio::test]
async fn a_query_sees_what_was_sent_and_received_once_and_newest_first() {
    let store = store();
    for (at, id, origin, target) in [
        (1, "one", "alpha", "beta"),
        (2, "two", "alpha", "alpha"),
        (3, "three", "beta", "alpha"),
        (4, "four", "beta", "gamma"),
        (5, "five", "alpha", "gamma"),
    ] {
        let topic = format!("Topic of {id}");
        let message = NewMessage { created_at: later(at), topic, ..request(id, origin, target) };
        create(&store, message).await;
    }
    let all = |agent: &str, limit| Query::all(name(agent), START, limit);
    let query = async |query: Query| {
        let found = store.query(query).await.unwrap();
        ids(&found).join(" ")
    };
    assert_eq!(query(all("alpha", 9)).await, "five three two one");
    assert_eq!(query(all("alpha", 2)).await, "five three");
    assert_eq!(query(all("gamma", 9)).await, "five four");
    assert_eq!(query(Query { since: later(3), ..all("alpha", 9) }).await, "five three");
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(query(Query { id: text("one"), ..all("beta", 9) }).await, "one");
    assert_eq!(query(Query { id: text("one"), ..all("gamma", 9) }).await, "");
    assert_eq!(query(Query { id: text("one"), kind: text("reply"), ..all("beta", 9) }).await, "");
    assert_eq!(query(Query { root_id: text("root of four"), ..all("beta", 9) }).await, "four");
    assert_eq!(query(Query { root_id: text("root of four"), ..all("alpha", 9) }).await, "");
    assert_eq!(query(Query { topic: text("of t"), ..all("alpha", 9) }).await, "three two");
    assert_eq!(query(Query { topic: text("OF"), ..all("alpha", 9) }).await, "");
    assert_eq!(
        query(Query { origin: text("beta"), target: text("alpha"), ..all("alpha", 9) }).await,
        "three"
    );
    assert_eq!(ids(&store.unfinished(name("alpha"), 9).await.unwrap()), ["three", "two"]);
}

#[tokio::test]
async fn what_is_finished_is_deleted_by_its_end_and_in_parts() {
    let store = store();
    for n in 0..201 {
        let message = NewMessage { expires_at: later(60), ..request(&n.to_string(), "alpha", "beta") };
        create(&store, message).await;
    }
    create(&store, request("kept", "alpha", "beta")).await;
    let quiet = Rules { notify: false, ..RULES };
    let sweep = async |now, too_old| store.sweep(now, too_old, quiet).await.unwrap();
    let first = sweep(later(60), later(0)).await;
    assert_eq!((first.tidied, first.deleted, first.more), (200, 200, true));
    let second = sweep(later(60), later(0)).await;
    assert_eq!((second.tidied, second.deleted, second.more), (1, 1, false));
    pull(&store, "beta", later(61)).await;
    ack(&store, "beta", "kept", Outcome::Completed, later(100)).await;
    assert_eq!(sweep(later(200), later(99)).await.deleted, 0);
    assert_eq!(sweep(later(200), later(100)).await.deleted, 1);
    assert_eq!(store.queues(vec![name("beta")]).await.unwrap(), [Queue::default()]);
}

#[tokio::test]
async fn what_another_broker_kept_keeps_its_state_and_its_key() {
    let store = store();
    create(&store, request("here", "alpha", "beta")).await;
    let kept = |id: &str, state: State| {
        let message = request(id, "alpha", "beta");
        let delivery = Delivery {
            state,
            attempts: 2,
            last_error: "again".into(),
            completed_at: Some(later(5)),
            ..Delivery::new(message.expires_at)
        };
        let (inbox, stages) = (Some(name("beta")), Stages::default());
        StoredMessage { seq: 0, inbox, message, delivery, is_notified: true, stages, redsyn: None }
    };
    let lease = crate::domain::delivery::Lease { id: LeaseId::new("t"), until: later(9) };
    let states =
        [State::Queued, State::Leased(lease), State::Completed, State::Failed, State::Expired].into_iter();
    let mut messages: Vec<_> = states.enumerate().map(|(at, state)| kept(&format!("m{at}"), state)).collect();
    let mut same_key = kept("other", State::Queued);
    same_key.message.idempotency_key = "here".into();
    messages.extend([kept("here", State::Queued), same_key]);
    let imported = store.import(messages.clone()).await.unwrap();
    assert_eq!((imported.new, imported.known), (5, 2));
    let after = store.kept_after(1, 9).await.unwrap();
    let without_number = |message: StoredMessage| StoredMessage { seq: 0, ..message };
    assert_eq!(after.into_iter().map(without_number).collect::<Vec<_>>(), messages[..5]);
    assert_eq!(store.import(messages).await.unwrap().new, 0);
    let queue = store.queues(vec![name("beta")]).await.unwrap().remove(0);
    assert_eq!((queue.queued, queue.leased, queue.expired), (2, 1, 1));
}

fn played(kept: Kept, steps: Vec<model::Step>) -> Result<(), TestCaseError> {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(model::run(kept, steps))
}

proptest! {
    #[test]
    fn memory_does_what_the_model_does_and_forgets_it_at_a_restart(
        steps in prop::collection::vec(model::step(), 1..50)
    ) {
        played(Kept::Memory, steps)?;
    }
}

// Each step waits for the disk.
proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_database_does_what_the_model_does_over_restarts(steps in prop::collection::vec(model::step(), 1..50)) {
        played(Kept::in_database(), steps)?;
    }

    #[test]
    fn lines_do_what_the_model_does_over_restarts(steps in prop::collection::vec(model::step(), 1..50)) {
        played(Kept::in_lines(), steps)?;
    }
}
