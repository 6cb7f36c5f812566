//! The local store against a model of the protocol that knows no SQL, and what only a database can get wrong.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::domain::clock::{Clock, ManualClock};
use crate::domain::delivery::{AckRefused, LeaseId, State, Status};
use crate::domain::random::SystemRandom;
use crate::proto::dsh::json::JsonText;
use crate::proto::dsh::names::Party;
use crate::proto::dsh::v1::envelope::Kind;
use crate::proto::dsh::v1::request::Outcome;
use crate::store::sqlite::kept::Kept;

mod model;
mod pages;

const START: Timestamp = Timestamp::from_secs(1_700_000_000);

fn agent(name: &str) -> AgentName {
    AgentName::parse(name).unwrap()
}

fn message(id: &str, to: &str) -> NewMessage {
    NewMessage::new(DshId::new(id), agent("alpha"), Party::new(to), START)
}

async fn store_with(ids: &[&str]) -> LocalStore {
    let store = LocalStore::in_memory().unwrap();
    store.register(agent("beta"), START).await.unwrap();
    for id in ids {
        store.send(message(id, "beta"), agent("beta"), |_| ()).await.unwrap().unwrap();
    }
    store
}

async fn pull(store: &LocalStore, now: Timestamp) -> Vec<StoredMessage> {
    let pull = Pull { agent: agent("beta"), limit: 10, now, until: now.plus(Duration::from_secs(1)) };
    store.pull(pull, SystemRandom::shared()).await.unwrap().messages
}

async fn ack(store: &LocalStore, message: &StoredMessage, outcome: Outcome, now: Timestamp) -> Acked {
    let State::Leased(lease) = &message.delivery.state else { panic!("not leased") };
    let ack = Ack {
        agent: agent("beta"),
        id: message.message.id.clone(),
        lease_id: lease.id.clone(),
        outcome,
        error: JsonText::from(&json!("why")),
        max_attempts: 0,
        now,
    };
    store.ack(ack, |_| ()).await.unwrap()
}

#[tokio::test]
async fn every_field_comes_back_as_it_was_stored() {
    let store = store_with(&[]).await;
    let new = NewMessage {
        kind: crate::proto::dsh::v1::envelope::Kind::Request,
        message_type: crate::proto::dsh::v1::envelope::MessageType::Ack,
        body: JsonText::parse(r#"{"t":"cut \ud83e","n":[1.0,{}]}"#).unwrap(),
        reply_to: Some(JsonText::from(&json!({"a": 1}))),
        root_id: Some(JsonText::from(&json!(""))),
        parent_id: Some(JsonText::from(&json!(["p"]))),
        ack: true,
        redsyn: Some(json!({"ttl": 5})),
        expires_at: Some(START.plus(Duration::from_secs(9))),
        ..message("id\0with nul", "beta")
    };
    store.send(new.clone(), agent("beta"), |_| ()).await.unwrap().unwrap();
    let stored = store.recent(agent("beta"), 5).await.unwrap().remove(0);
    assert_eq!(stored.message, new);
    assert_eq!((stored.inbox, stored.error), (Some(agent("beta")), None));
}

#[tokio::test]
async fn an_id_is_taken_once_whoever_sends_it() {
    let store = store_with(&["m1"]).await;
    let again = store.send(message("m1", "beta"), agent("beta"), |_| ()).await.unwrap().unwrap();
    assert!(again.duplicate);
    assert!(store.send(message("m2", "ghost"), agent("ghost"), |_| ()).await.unwrap().is_none());
    assert_eq!(store.recent(agent("beta"), 5).await.unwrap().len(), 1);
}

#[tokio::test]
async fn each_stage_is_noted_in_the_transaction_of_its_change() {
    let store = store_with(&["done", "failed"]).await;
    let later = START.plus(Duration::from_millis(7));
    let pulled = pull(&store, later).await;
    let acked = later.plus(Duration::from_millis(5));
    assert_eq!(
        ack(&store, &pulled[0], Outcome::Completed, acked).await,
        Acked::Settled { status: Status::Done, attempts: 0 }
    );
    assert_eq!(
        ack(&store, &pulled[1], Outcome::Retry, acked).await,
        Acked::Settled { status: Status::Failed, attempts: 1 }
    );
    let lines =
        store.status(agent("alpha"), vec!["done".into(), "failed".into(), "nope".into()]).await.unwrap();
    let stages: Vec<_> = lines.iter().map(|(_, line)| line.as_ref().map(|line| line.stages)).collect();
    let leased = crate::store::local::Stages { leased: Some(later), ..Default::default() };
    assert_eq!(stages[0], Some(crate::store::local::Stages { acked: Some(acked), ..leased }));
    assert_eq!(stages[1], Some(crate::store::local::Stages { failed: Some(acked), ..leased }));
    assert_eq!(stages[2], None);
    assert_eq!(store.status(agent("gamma"), vec!["done".into()]).await.unwrap()[0].1, None);
}

#[tokio::test]
async fn a_reply_of_its_recipient_is_a_stage_of_a_message() {
    let store = store_with(&["m1", "m2"]).await;
    store.register(agent("alpha"), START).await.unwrap();
    let reply = |id: &str, parent: &str, from: &str, secs: u64| {
        let at = START.plus(Duration::from_secs(secs));
        let mut reply = NewMessage::new(DshId::new(id), agent(from), Party::new("alpha"), at);
        reply.kind = Kind::Reply;
        reply.parent_id = Some(JsonText::from(&json!(parent)));
        store.send(reply, agent("alpha"), |_| ())
    };
    reply("r1", "m1", "beta", 3).await.unwrap().unwrap();
    reply("r2", "m1", "beta", 9).await.unwrap().unwrap();
    reply("r3", "m2", "gamma", 3).await.unwrap().unwrap();
    let lines = store.status(agent("alpha"), vec!["m1".into(), "m2".into()]).await.unwrap();
    let answered = |at: usize| lines[at].1.as_ref().unwrap().stages.answered;
    assert_eq!(answered(0), Some(START.plus(Duration::from_secs(3))), "the first one");
    assert_eq!(answered(1), None, "a stranger answers nothing");
}

#[tokio::test]
async fn mail_that_leaves_the_machine_is_in_no_inbox() {
    let store = store_with(&[]).await;
    let out = NewMessage { status: Status::Leased, ..message("out", "acme/it/bob/x") };
    store.db().call("test", move |conn| insert_message(conn, &out, None)).await.unwrap();
    assert!(pull(&store, START.plus(Duration::from_secs(99))).await.is_empty());
    let line = store.status(agent("alpha"), vec!["out".into()]).await.unwrap().remove(0).1.unwrap();
    assert_eq!(line.status, Status::Leased);
    assert_eq!(store.lookup(DshId::new("out")).await.unwrap().unwrap().inbox, None);
}

#[tokio::test]
async fn a_sweep_deletes_by_age_and_by_date_whatever_the_state() {
    let store = store_with(&["old", "older"]).await;
    let day = |days: i64| Timestamp::from_secs(START.secs() + days * 86_400);
    let young = NewMessage { ts: day(5), ..message("young", "beta") };
    let dated = NewMessage { expires_at: Some(day(6)), ..young.clone() };
    for new in [young, NewMessage { id: DshId::new("dated"), ..dated }] {
        store.send(new, agent("beta"), |_| ()).await.unwrap().unwrap();
    }
    let pulled = pull(&store, day(5)).await;
    ack(&store, &pulled[0], Outcome::Completed, day(5)).await;
    // A message past its date is not handed out even before the sweep.
    assert_eq!(pull(&store, day(7)).await.len(), 2);
    let swept = store.sweep(day(7), day(0)).await.unwrap();
    assert_eq!((swept.expired, swept.more), (3, false));
    let left = store.recent(agent("beta"), 9).await.unwrap();
    assert_eq!(left.iter().map(|message| message.message.id.as_str()).collect::<Vec<_>>(), ["young"]);
}

#[tokio::test]
async fn the_load_is_that_of_all_inboxes_and_of_no_other_mail() {
    let store = store_with(&[]).await;
    assert_eq!(store.load().await.unwrap(), Load::default());
    let at = |secs: u64| START.plus(Duration::from_secs(secs));
    for (id, to, secs) in [("m1", "beta", 5), ("m2", "beta", 6), ("m3", "gamma", 3), ("m4", "zeta", 4)] {
        store.register(agent(to), START).await.unwrap();
        let new = NewMessage { ts: at(secs), ..message(id, to) };
        store.send(new, agent(to), |_| ()).await.unwrap().unwrap();
    }
    let away = NewMessage { ts: at(1), ..message("away", "acme/it/bob/x") };
    store.db().call("test", move |conn| insert_message(conn, &away, None)).await.unwrap();
    let load = |queued, leased, secs: Option<u64>| Load { queued, leased, oldest_queued: secs.map(at) };
    assert_eq!(store.load().await.unwrap(), load(4, 0, Some(3)));
    let leased = pull(&store, at(9)).await;
    assert_eq!(store.load().await.unwrap(), load(2, 2, Some(3)));
    ack(&store, &leased[0], Outcome::Completed, at(9)).await;
    let pull = Pull { agent: agent("gamma"), limit: 1, now: at(9), until: at(20) };
    store.pull(pull, SystemRandom::shared()).await.unwrap();
    assert_eq!(store.load().await.unwrap(), load(1, 2, Some(4)));
}

#[tokio::test]
async fn a_large_sweep_is_done_in_parts() {
    let ids: Vec<_> = (0..501).map(|n| n.to_string()).collect();
    let store = store_with(&ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let first = store.sweep(START, START).await.unwrap();
    assert_eq!((first.expired, first.more), (500, true));
    let second = store.sweep(START, START).await.unwrap();
    assert_eq!((second.expired, second.more), (1, false));
}

#[tokio::test]
async fn registrations_and_leases_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = LocalStore::open(folder.path()).unwrap();
    store.register(agent("beta"), START).await.unwrap();
    store.send(message("m1", "beta"), agent("beta"), |_| ()).await.unwrap().unwrap();
    let leased = pull(&store, START).await;
    store.close().await.unwrap();
    let store = LocalStore::open(folder.path()).unwrap();
    assert!(store.send(message("m2", "beta"), agent("beta"), |_| ()).await.unwrap().is_some());
    let done = ack(&store, &leased[0], Outcome::Completed, START).await;
    assert_eq!(done, Acked::Settled { status: Status::Done, attempts: 0 });
}

fn steps() -> impl Strategy<Value = Vec<model::Step>> {
    prop::collection::vec(model::step(), 1..60)
}

fn played(kept: Kept, steps: Vec<model::Step>) -> Result<(), TestCaseError> {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(model::run(kept, steps))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn memory_does_what_the_model_does_and_forgets_it_at_a_restart(steps in steps()) {
        played(Kept::Memory, steps)?;
    }
}

// Each step waits for the disk.
proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_database_does_what_the_model_does_over_restarts(steps in steps()) {
        played(Kept::in_database(), steps)?;
    }

    #[test]
    fn lines_do_what_the_model_does_over_restarts(steps in steps()) {
        played(Kept::in_lines(), steps)?;
    }
}
