//! What a local message becomes when it leaves.

use super::*;
use crate::store::StoreError;
use crate::store::bridge::Landed;

#[tokio::test]
async fn a_message_its_outbox_row_and_its_ids_are_one_transaction() {
    let node = Node::new();
    let sent = node.depart(departure("odd id", LocalKind::Request)).await;
    assert_eq!(sent, Created { id: DshId::new("odd id"), duplicate: false, conflict: false });

    let node = node.reopened().await;
    let due = node.due().await;
    let [entry] = due.as_slice() else { panic!("{due:?}") };
    assert_eq!(entry.local_id.as_deref(), Some("odd id"));
    assert_eq!((entry.kind, entry.thread.as_deref(), entry.attempts), (Kind::Request, None, 0));
    assert_eq!(entry.from.to_string(), "acme/finance/ana/close");
    assert_eq!(entry.remote.to_string(), BOB);
    assert_eq!(body_of(entry), Body::text("hi").as_value());
    assert_eq!(entry.content.refs, [json!({"url": "https://git.example"})]);
    assert_eq!(entry.expires_at, after(86_400));
    let pair: String = node.one("SELECT local_id FROM bridged WHERE direction = 'out'").await;
    assert_eq!(pair, "odd id");
    assert_status(&node.status("odd id").await, Status::Queued);
}

#[tokio::test]
async fn the_same_id_again_adds_nothing_at_any_stage() {
    let node = Node::new();
    node.depart(request("m1")).await;
    assert!(node.depart(request("m1")).await.duplicate);
    let node = node.reopened().await;
    assert!(node.depart(request("m1")).await.duplicate);
    assert_eq!(node.outbox_len().await, 1);
    node.accept(&node.entry("m1").await, "m1", None).await;
    assert!(node.depart(request("m1")).await.duplicate);
    assert_eq!(node.outbox_len().await, 0, "what the relay has is not sent again");
}

#[tokio::test]
async fn an_id_whose_message_was_swept_away_is_still_a_duplicate_while_it_is_under_way() {
    let node = Node::new();
    node.depart(request("m1")).await;
    node.execute("DELETE FROM messages").await;
    assert!(node.depart(request("m1")).await.duplicate);
    assert_eq!(node.outbox_len().await, 1);
}

#[tokio::test]
async fn two_messages_that_would_travel_under_one_id_are_not_taken_for_one() {
    let node = Node::new();
    node.depart(request("m1")).await;
    let other = Departure { id: id("m1"), ..departure("m2", LocalKind::Request) };
    let refused = node.store.depart(other, |_| ()).await;
    assert!(matches!(refused, Err(StoreError::Other(_))), "{refused:?}");
    let kept: i64 = node.one("SELECT count(*) FROM messages").await;
    assert_eq!(kept, 1, "nothing of it remains");
}

#[tokio::test]
async fn the_first_reply_closes_and_the_second_follows_up_in_the_session() {
    let node = Node::new();
    let sealed = Arrival { reply_key: Some("their key".into()), ..arrival("q1", Kind::Request) };
    node.store.arrive(sealed, |_| ()).await.unwrap();
    node.depart(under("q1", plain("r1", LocalKind::Reply))).await;

    let node = node.reopened().await;
    node.depart(under("q1", plain("r2", LocalKind::Reply))).await;
    let first = node.entry("r1").await;
    assert_eq!((first.kind, first.reply_to.as_ref()), (Kind::Reply, Some(&id("q1"))));
    assert_eq!(first.from.to_string(), "acme/finance/ana/close#s4");
    assert_eq!(first.remote.to_string(), format!("{BOB}#s9"));
    assert_eq!(first.reply_key.as_deref(), Some("their key"));
    assert_eq!(first.thread.as_deref(), Some("t1"));
    assert!(!first.error);
    assert!(node.due().await.iter().all(|entry| entry.id != id("r2")), "it waits behind the reply");

    node.accept(&first, "t1", None).await;
    assert_status(&node.status("r1").await, Status::Done);
    let second = node.entry("r2").await;
    assert_eq!((second.kind, second.reply_to.as_ref()), (Kind::Request, None));
    assert_eq!(second.thread.as_deref(), Some("t1"));
    assert_eq!(second.from.to_string(), "acme/finance/ana/close#s4");
    assert_eq!(second.reply_key, None, "a request is sealed for the key that the relay names");
    let answered: Option<i64> = node.one("SELECT at_answered FROM messages WHERE id = 'q1'").await;
    assert_eq!(answered, Some(NOW.millis()));
}

#[tokio::test]
async fn a_message_under_a_request_is_progress_and_closes_nothing() {
    let node = Node::new();
    node.store.arrive(arrival("q1", Kind::Request), |_| ()).await.unwrap();
    node.depart(under("q1", plain("p1", LocalKind::Message))).await;
    let node = node.reopened().await;
    node.depart(under("q1", plain("r1", LocalKind::Reply))).await;
    let progress = node.entry("p1").await;
    assert_eq!((progress.kind, progress.reply_to.as_ref()), (Kind::Progress, Some(&id("q1"))));
    node.accept(&progress, "t1", None).await;
    assert_eq!(node.entry("r1").await.kind, Kind::Reply);
}

#[tokio::test]
async fn a_reply_under_its_own_progress_finds_the_request_in_reply_to() {
    let node = Node::new();
    node.store.arrive(arrival("q1", Kind::Request), |_| ()).await.unwrap();
    node.depart(under("q1", plain("p1", LocalKind::Message))).await;
    let answer = Departure { reply_to: Some("q1".into()), ..under("p1", plain("r1", LocalKind::Reply)) };
    node.depart(answer).await;
    node.accept(&node.entry("p1").await, "t1", None).await;
    let entry = node.entry("r1").await;
    assert_eq!((entry.kind, entry.reply_to), (Kind::Reply, Some(id("q1"))));
}

#[tokio::test]
async fn receipts_stay_unless_they_are_configured_and_errors_answer_once() {
    let node = Node::new();
    node.store.arrive(arrival("q1", Kind::Request), |_| ()).await.unwrap();
    let receipt = |local_id: &str, kind, receipts_travel| Departure {
        reply_to: Some("q1".into()),
        receipts_travel,
        ..plain(local_id, kind)
    };
    node.depart(receipt("a1", LocalKind::ReceiptOk, false)).await;
    assert_eq!(node.outbox_len().await, 0);
    assert_status(&node.status("a1").await, Status::Done);
    node.depart(receipt("a2", LocalKind::ReceiptOk, true)).await;
    node.depart(receipt("a3", LocalKind::ReceiptError, false)).await;
    node.depart(receipt("a4", LocalKind::ReceiptError, false)).await;
    node.depart(receipt("a5", LocalKind::ReceiptOk, true)).await;

    let node = node.reopened().await;
    assert_eq!(node.outbox_len().await, 2, "one progress, one error");
    let progress = node.entry("a2").await;
    assert_eq!(progress.kind, Kind::Progress);
    node.accept(&progress, "t1", None).await;
    let error = node.entry("a3").await;
    assert_eq!((error.kind, error.error), (Kind::Reply, true));
}

#[tokio::test]
async fn root_id_continues_a_thread_by_its_name_or_by_a_local_id() {
    let node = Node::new();
    node.store.arrive(arrival("q1", Kind::Request), |_| ()).await.unwrap();
    node.depart(departure("first one", LocalKind::Request)).await;
    let first = node.due().await.remove(0);
    node.accept(&first, "t7", Some("s8")).await;

    let node = node.reopened().await;
    for (local_id, root, thread, from) in [
        ("m1", "t1", Some("t1"), "acme/finance/ana/close#s4"),
        ("m2", "q1", Some("t1"), "acme/finance/ana/close#s4"),
        ("m3", "first one", Some("t7"), "acme/finance/ana/close"),
        ("m4", "t7", Some("t7"), "acme/finance/ana/close"),
        ("m5", "unheard of", None, "acme/finance/ana/close"),
    ] {
        node.depart(Departure { root_id: Some(root.into()), ..request(local_id) }).await;
        let entry = node.entry(local_id).await;
        assert_eq!((entry.thread.as_deref(), &*entry.from.to_string()), (thread, from), "{local_id}");
        node.accept(&entry, "t", None).await;
    }
}

#[tokio::test]
async fn what_follows_a_request_at_once_goes_behind_it_in_its_thread() {
    let node = Node::new();
    node.depart(request("m1")).await;
    node.depart(under("m1", request("m2"))).await;
    node.depart(Departure { root_id: Some("m1".into()), ..request("m3") }).await;
    let node = node.reopened().await;
    let due = node.due().await;
    assert_eq!(due.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>(), ["m1"]);

    node.accept(&due[0], "another", None).await;
    let entry = node.entry("m2").await;
    assert_eq!(entry.thread.as_deref(), Some("another"), "the relay has the last word");
    node.accept(&entry, "another", None).await;
    assert_eq!(node.entry("m3").await.thread.as_deref(), Some("another"));
}

#[tokio::test]
async fn a_conversation_with_somebody_else_is_not_named() {
    let node = Node::new();
    let from_eva = Arrival { from: EVA.parse().unwrap(), ..arrival("q1", Kind::Request) };
    node.store.arrive(from_eva, |_| ()).await.unwrap();
    node.depart(under("q1", plain("m1", LocalKind::Reply))).await;
    node.depart(Departure { root_id: Some("t1".into()), ..request("m2") }).await;
    let node = node.reopened().await;
    for local_id in ["m1", "m2"] {
        let entry = node.entry(local_id).await;
        assert_eq!((entry.kind, entry.thread, entry.reply_to), (Kind::Request, None, None), "{local_id}");
    }
}

#[tokio::test]
async fn an_agent_answers_a_request_that_bears_an_id_of_its_own() {
    let node = Node::new();
    node.depart(request("same")).await;
    assert_eq!(node.store.arrive(arrival("same", Kind::Request), |_| ()).await.unwrap(), Landed::Delivered);
    let node = node.reopened().await;
    let local_id = node.inbox_ids().await.remove(0);
    assert_ne!(local_id, "same");
    node.depart(under(&local_id, plain("r1", LocalKind::Reply))).await;
    let entry = node.entry("r1").await;
    assert_eq!((entry.kind, entry.reply_to), (Kind::Reply, Some(id("same"))));
}

#[tokio::test]
async fn a_thread_goes_on_in_its_newest_session() {
    let node = Node::new();
    for (at, (text, session)) in [("q1", "s9"), ("q2", "s10")].into_iter().enumerate() {
        let mut arrival = arrival(text, Kind::Request);
        arrival.session = Some(session.parse().unwrap());
        arrival.now = after(at as u64);
        node.store.arrive(arrival, |_| ()).await.unwrap();
    }
    let node = node.reopened().await;
    node.depart(Departure { root_id: Some("t1".into()), ..request("m1") }).await;
    assert_eq!(node.entry("m1").await.from.to_string(), "acme/finance/ana/close#s10");
}
