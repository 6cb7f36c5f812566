//! Local agents that let an inbound request fail or expire: its sender is told, once, in the spec's words.

use super::*;
use crate::domain::delivery::LeaseId;
use crate::domain::random::SystemRandom;
use crate::proto::dsh::v1::request::Outcome;
use crate::store::local::{Ack, Acked, Poll, Pull};

impl Node {
    /// Takes the one message that waits and gives it back.
    async fn give_back(&self) -> Acked {
        let pull = Pull { agent: close(), limit: 1, now: NOW, until: after(600) };
        let taken = self.local.pull(pull, SystemRandom::shared()).await.unwrap().messages.remove(0);
        let crate::domain::delivery::State::Leased(lease) = taken.delivery.state else { panic!("no lease") };
        let ack = Ack {
            agent: close(),
            id: taken.message.id,
            lease_id: LeaseId::new(lease.id.as_str()),
            outcome: Outcome::Retry,
            error: JsonText::null(),
            max_attempts: 1,
            now: NOW,
        };
        self.local.ack(ack, |_| ()).await.unwrap()
    }
}

fn said(entry: &OutboxEntry) -> Value {
    entry.content.body.as_value()["text"].clone()
}

#[tokio::test]
async fn a_request_given_back_too_often_is_answered_with_an_error() {
    let node = Node::new();
    node.store
        .arrive(Arrival { reply_key: Some("key".into()), ..arrival("q1", Kind::Request) }, |_| ())
        .await
        .unwrap();
    node.give_back().await;
    assert_eq!(node.outbox_len().await, 0);
    let node = node.reopened().await;
    assert!(matches!(node.give_back().await, Acked::Settled { status: Status::Failed, .. }));
    let entry = node.due().await.remove(0);
    assert_eq!(said(&entry), "not delivered: acme/finance/ana/close took it 2 times and never confirmed it");
    assert_eq!((entry.kind, entry.error, entry.local_id.as_ref()), (Kind::Reply, true, None));
    assert_eq!((entry.reply_to, entry.reply_key.as_deref()), (Some(id("q1")), Some("key")));
    assert_eq!(
        (entry.from.to_string().as_str(), entry.thread.as_deref()),
        ("acme/finance/ana/close#s4", Some("t1"))
    );

    // A reply that comes after all is a new request in the thread: the error has closed the first.
    node.depart(under("q1", plain("late", LocalKind::Reply))).await;
    assert_eq!(node.one::<String>("SELECT kind FROM outbox WHERE id = 'late'").await, "request");
}

#[tokio::test]
async fn a_request_that_expires_is_answered_with_an_error() {
    let node = Node::new();
    let mut expiring = arrival("q1", Kind::Request);
    expiring.message.expires_at = Some(after(10));
    node.store.arrive(expiring, |_| ()).await.unwrap();
    let node = node.reopened().await;
    for _ in 0..2 {
        node.local.sweep(after(11), NOW.minus(Duration::from_secs(1))).await.unwrap();
    }
    let due = node.due_at(after(11)).await;
    assert_eq!(due.len(), 1);
    assert_eq!(said(&due[0]), "not delivered: it expired before acme/finance/ana/close took it");
}

#[tokio::test]
async fn what_was_answered_or_asked_for_nothing_ends_in_silence() {
    let node = Node::new();
    node.store.arrive(arrival("q1", Kind::Request), |_| ()).await.unwrap();
    node.depart(under("q1", plain("r1", LocalKind::Reply))).await;
    node.store.arrive(arrival("e1", Kind::Event), |_| ()).await.unwrap();
    let mut local = NewMessage::new(DshId::new("m1"), Party::new("shout"), close(), NOW);
    local.kind = DshKind::Request;
    node.local.register(close(), NOW).await.unwrap();
    node.local.send(local, close(), |_| ()).await.unwrap().unwrap();
    node.local.sweep(after(11), after(1)).await.unwrap();
    assert_eq!(node.inbox_ids().await.len(), 0);
    assert_eq!(node.one::<String>("SELECT group_concat(id) FROM outbox").await, "r1");
}

#[tokio::test]
async fn what_a_poll_has_shown_counts_as_taken_and_may_still_be_answered() {
    let node = Node::new();
    let mut expiring = arrival("q1", Kind::Request);
    expiring.message.expires_at = Some(after(10));
    node.store.arrive(expiring, |_| ()).await.unwrap();
    let poll = Poll { agent: close(), since: None, limit: 10, now: NOW };
    assert_eq!(node.local.poll(poll).await.unwrap().messages.len(), 1);
    let node = node.reopened().await;
    node.local.sweep(after(11), NOW.minus(Duration::from_secs(1))).await.unwrap();
    assert_eq!((node.inbox().await.len(), node.outbox_len().await), (0, 0));
    node.depart(under("q1", plain("r1", LocalKind::Reply))).await;
    assert_eq!(node.entry("r1").await.kind, Kind::Reply);
}
