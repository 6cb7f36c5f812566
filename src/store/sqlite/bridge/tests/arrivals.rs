//! What comes in: delivered once, tied to what it answers, refused once, forgotten in time.

use super::*;
use crate::proto::redsyn::ids::TTL_MAX_SECS;
use crate::store::bridge::{Held, Landed, WaitsFor};

#[tokio::test]
async fn a_message_is_delivered_once() {
    let node = Node::new();
    assert_eq!(node.store.arrive(arrival("q1", Kind::Request), |_| ()).await.unwrap(), Landed::Delivered);
    assert_eq!(node.store.arrive(arrival("q1", Kind::Request), |_| ()).await.unwrap(), Landed::Seen);
    let node = node.reopened().await;
    assert!(node.is_seen(close(), "q1").await);
    assert_eq!(node.store.arrive(arrival("q1", Kind::Request), |_| ()).await.unwrap(), Landed::Seen);
    assert_eq!(node.inbox_ids().await, ["q1"]);
    assert_eq!(node.one::<i64>("SELECT count(*) FROM seen").await, 0, "the row in bridged tells it");
    let shout = AgentName::parse("shout").unwrap();
    assert!(!node.is_seen(shout, "q1").await, "each agent has its own copy of an event");
}

#[tokio::test]
async fn a_reply_closes_its_request_under_the_local_id() {
    let node = Node::new();
    node.depart(departure("odd id", LocalKind::Request)).await;
    let travelled = node.due().await.remove(0);
    node.accept(&travelled, "t1", None).await;

    let node = node.reopened().await;
    let progress = Arrival { kind: Kind::Progress, ..reply("p1", &travelled.id) };
    assert_eq!(node.store.arrive(progress, |_| ()).await.unwrap(), Landed::Delivered);
    assert_status(&node.status("odd id").await, Status::Leased);
    assert_eq!(node.store.arrive(reply("r1", &travelled.id), |_| ()).await.unwrap(), Landed::Delivered);
    assert_status(&node.status("odd id").await, Status::Done);
    for stored in node.inbox().await {
        assert_eq!(text_of(&stored.message.parent_id).as_deref(), Some("odd id"));
        assert_eq!(text_of(&stored.message.reply_to).as_deref(), Some("odd id"));
    }

    let node = node.reopened().await;
    for (text, kind) in [("r2", Kind::Reply), ("p2", Kind::Progress)] {
        let late = Arrival { kind, ..reply(text, &travelled.id) };
        assert_eq!(node.store.arrive(late.clone(), |_| ()).await.unwrap(), Landed::Unasked, "{text}");
        assert_eq!(node.store.arrive(late, |_| ()).await.unwrap(), Landed::Seen, "{text}");
    }
    assert_eq!(node.inbox_ids().await, ["p1", "r1"]);
}

#[tokio::test]
async fn an_error_reply_fails_its_request() {
    let node = Node::new();
    node.depart(request("m1")).await;
    node.accept(&node.entry("m1").await, "m1", None).await;
    let node = node.reopened().await;
    node.store.arrive(Arrival { error: true, ..reply("r1", &id("m1")) }, |_| ()).await.unwrap();
    let line = node.status("m1").await;
    assert_eq!(
        (line.status, line.stages.answered, line.stages.failed),
        (Status::Failed, Some(NOW), Some(NOW))
    );
    assert_eq!(line.stages.leased, Some(NOW), "whoever answers has taken it");
}

#[tokio::test]
async fn only_the_one_who_was_asked_answers() {
    let node = Node::new();
    node.depart(request("m1")).await;
    node.store.arrive(arrival("q1", Kind::Request), |_| ()).await.unwrap();
    let node = node.reopened().await;
    let strangers = [
        Arrival { from: EVA.parse().unwrap(), ..reply("r1", &id("m1")) },
        Arrival { from: "globex/erp/bob/other".parse().unwrap(), ..reply("r2", &id("m1")) },
        reply("r3", &id("never sent")),
        reply("r4", &id("q1")),
        Arrival { reply_to: None, ..reply("r5", &id("m1")) },
    ];
    for stranger in strangers {
        let text = stranger.id.clone();
        assert_eq!(node.store.arrive(stranger, |_| ()).await.unwrap(), Landed::Unasked, "{text}");
    }
    assert_eq!(node.outbox_len().await, 1, "the request is still on its way");
    assert_eq!(node.store.arrive(reply("r6", &id("m1")), |_| ()).await.unwrap(), Landed::Delivered);
}

#[tokio::test]
async fn an_id_that_is_taken_here_does_not_cost_the_message() {
    let node = Node::new();
    node.depart(request("same")).await;
    assert_eq!(node.store.arrive(arrival("same", Kind::Request), |_| ()).await.unwrap(), Landed::Delivered);
    let node = node.reopened().await;
    assert_eq!(node.store.arrive(arrival("same", Kind::Request), |_| ()).await.unwrap(), Landed::Seen);
    let inbox = node.inbox().await;
    assert_eq!(inbox.len(), 1);
    assert_ne!(inbox[0].message.id.as_str(), "same");
    assert_eq!(inbox[0].message.body, JsonText::from(&json!({"text": "same"})));
    assert_eq!(node.store.arrive(reply("r1", &id("same")), |_| ()).await.unwrap(), Landed::Delivered);
}

#[tokio::test]
async fn a_refused_request_is_answered_once_and_other_kinds_never() {
    let node = Node::new();
    node.store.refuse(refusal("q1", Kind::Request)).await.unwrap();
    node.store.refuse(refusal("q1", Kind::Request)).await.unwrap();
    let node = node.reopened().await;
    node.store.refuse(refusal("q1", Kind::Request)).await.unwrap();
    for (text, kind) in [("r1", Kind::Reply), ("p1", Kind::Progress), ("e1", Kind::Event)] {
        node.store.refuse(refusal(text, kind)).await.unwrap();
    }
    let due = node.due().await;
    let [entry] = due.as_slice() else { panic!("{due:?}") };
    assert_eq!((entry.kind, entry.error, &entry.local_id), (Kind::Reply, true, &None));
    assert_eq!(entry.reply_to, Some(id("q1")));
    assert_eq!(entry.from.to_string(), "acme/finance/ana/close#s4");
    assert_eq!(body_of(entry), Body::text("cannot decrypt").as_value());
    assert!(node.inbox().await.is_empty());

    // Its answer is settled like any other, and nobody here is told.
    node.accept(entry, "t1", None).await;
    assert_eq!(node.store.arrive(arrival("q1", Kind::Request), |_| ()).await.unwrap(), Landed::Seen);
    node.store.refuse(refusal("q1", Kind::Request)).await.unwrap();
    assert_eq!(node.outbox_len().await, 0);
}

#[tokio::test]
async fn held_mail_is_kept_as_it_was_delivered_and_is_not_seen() {
    let node = Node::new();
    let held = |reason: &str| Held {
        agent: close(),
        id: id("q1"),
        person: "globex/bob".parse().unwrap(),
        reason: reason.into(),
        envelope: json!({"id": "q1", "body": {"type": "text/plain", "text": "hi"}}),
        key: Some(key(2)),
        waits_for: WaitsFor::Acceptance,
        zip: None,
        leased_until: Some(after(900)),
        now: NOW,
    };
    node.store.hold_arrival(held("another key")).await.unwrap();
    let node = node.reopened().await;
    node.store.hold_arrival(held("again")).await.unwrap();
    let kept: String = node.one("SELECT reason || ' ' || envelope FROM held").await;
    assert_eq!(kept, r#"again {"id":"q1","body":{"type":"text/plain","text":"hi"}}"#);
    assert!(!node.is_seen(close(), "q1").await);
}

#[tokio::test]
async fn what_no_relay_can_deliver_again_is_forgotten() {
    let node = Node::new();
    node.store.arrive(arrival("q1", Kind::Request), |_| ()).await.unwrap();
    node.store.refuse(refusal("q2", Kind::Event)).await.unwrap();
    node.depart(request("m1")).await;
    node.store.forget(after(TTL_MAX_SECS - 1)).await.unwrap();
    let node = node.reopened().await;
    assert!(node.is_seen(close(), "q1").await);
    node.store.forget(after(TTL_MAX_SECS)).await.unwrap();
    assert!(!node.is_seen(close(), "q1").await);
    assert!(!node.is_seen(close(), "q2").await);
    assert_eq!(node.one::<i64>("SELECT count(*) FROM bridged").await, 0);
    assert_eq!(node.outbox_len().await, 1, "what has not been settled stays");
}

#[tokio::test]
async fn files_are_kept_with_their_message_and_dropped_with_it() {
    let node = Node::new();
    let with_files = Arrival { zip: Some(b"PK".to_vec()), ..arrival("q1", Kind::Request) };
    node.store.arrive(with_files.clone(), |_| ()).await.unwrap();
    assert_eq!(node.store.arrive(with_files, |_| ()).await.unwrap(), Landed::Seen);
    let node = node.reopened().await;
    assert_eq!(node.one::<Vec<u8>>("SELECT zip FROM files").await, b"PK");
    node.local.sweep(after(11), after(1)).await.unwrap();
    assert_eq!(node.one::<i64>("SELECT count(*) FROM files").await, 0);
}

#[tokio::test]
async fn who_writes_is_noted_to_the_minute_and_by_the_clock_there_is() {
    let node = Node::new();
    let seen_at = async |id: &str, secs: i64| {
        let now = Timestamp::from_secs(secs);
        node.store.arrive(Arrival { now, ..arrival(id, Kind::Request) }, |_| ()).await.unwrap();
        node.store.remotes(Timestamp::from_millis(0)).await.unwrap().swap_remove(0).1.secs()
    };
    let times = [(1000, 1000), (1059, 1000), (1060, 1060), (500, 500)];
    for (index, (now, seen)) in times.into_iter().enumerate() {
        assert_eq!(seen_at(&format!("q{index}"), now).await, seen);
    }
}
