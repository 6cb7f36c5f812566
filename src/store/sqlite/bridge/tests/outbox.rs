//! The way of an entry through the outbox: lanes, waiting, and the one settlement.

use super::*;

/// In the conversation called `thread`, which `close` and [`BOB`] have had.
async fn in_thread(node: &Node, local_id: &str, thread: &str) {
    let met = Arrival { thread: Some(thread.into()), ..arrival(&format!("met-{thread}"), Kind::Request) };
    node.store.arrive(met, |_| ()).await.unwrap();
    node.depart(Departure { root_id: Some(thread.into()), ..request(local_id) }).await;
}

fn ids(due: &[OutboxEntry]) -> Vec<&str> {
    due.iter().map(|entry| entry.id.as_str()).collect()
}

#[tokio::test]
async fn only_the_head_of_a_lane_goes() {
    let node = Node::new();
    for (local_id, thread) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a")] {
        in_thread(&node, local_id, thread).await;
    }
    node.depart(request("alone")).await;
    let node = node.reopened().await;
    assert_eq!(ids(&node.due().await), ["a1", "b1", "alone"]);
    node.accept(&node.entry("a1").await, "a", None).await;
    assert_eq!(ids(&node.due().await), ["a2", "b1", "alone"]);
}

#[tokio::test]
async fn a_held_head_blocks_its_lane_and_no_other() {
    let node = Node::new();
    for (local_id, thread) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
        in_thread(&node, local_id, thread).await;
    }
    let head = node.entry("a1").await;
    node.store.hold(head, "another key".into(), None, NOW).await.unwrap();
    let node = node.reopened().await;
    assert_eq!(ids(&node.due().await), ["b1"]);
    let line = node.status("a1").await;
    assert_eq!((line.status, line.stages.held), (Status::Queued, Some(NOW)));
    assert_eq!(node.next_due(NOW).await, Some(after(300)), "then it is judged again");
    let again = node.due_at(after(300)).await;
    assert_eq!((ids(&again), again[1].held.as_deref()), (vec!["b1", "a1"], Some("another key")));
}

#[tokio::test]
async fn what_is_held_until_its_time_is_over_expires() {
    let node = Node::new();
    in_thread(&node, "a1", "a").await;
    in_thread(&node, "a2", "a").await;
    node.store.hold(node.entry("a1").await, "another key".into(), None, NOW).await.unwrap();
    let node = node.reopened().await;
    let entry = node.due_at(after(86_399)).await.remove(0);
    node.store.hold(entry, "another key".into(), None, after(86_399)).await.unwrap();
    assert!(node.due_at(after(86_399)).await.is_empty());
    let due = node.due_at(after(86_400)).await;
    assert_eq!(ids(&due), ["a1"], "so that its sender can be told");
    node.fail(&due[0]).await;
    assert_eq!(node.inbox_ids().await.last().unwrap(), "undelivered:a1");
    assert_eq!(ids(&node.due().await), ["a2"]);
}

#[tokio::test]
async fn a_postponed_entry_waits_and_counts_its_tries() {
    let node = Node::new();
    in_thread(&node, "a1", "a").await;
    in_thread(&node, "a2", "a").await;
    let entry = node.entry("a1").await;
    node.store.postpone(entry.seq, after(5), "away".into()).await.unwrap();
    let node = node.reopened().await;
    assert!(node.due().await.is_empty(), "its lane waits with it");
    assert_eq!(node.next_due(NOW).await, Some(after(5)));
    assert!(node.due_at(after(4)).await.is_empty());
    let due = node.due_at(after(5)).await;
    assert_eq!((ids(&due), due[0].attempts), (vec!["a1"], 1));
    assert_eq!(node.next_due(after(5)).await, None);
}

#[tokio::test]
async fn a_look_keeps_its_limit_and_passes_over_what_is_under_way() {
    let node = Node::new();
    for n in 0..5 {
        node.depart(request(&format!("m{n}"))).await;
    }
    let first = node.store.due(NOW, HashSet::new(), 3, |_| ()).await.unwrap().entries;
    assert_eq!(ids(&first), ["m0", "m1", "m2"]);
    let under_way = first.iter().map(|entry| entry.seq).collect();
    assert_eq!(ids(&node.store.due(NOW, under_way, 3, |_| ()).await.unwrap().entries), ["m3", "m4"]);
}

#[tokio::test]
async fn acceptance_keeps_thread_and_session_and_the_reply_ends_it() {
    let node = Node::new();
    node.depart(request("m1")).await;
    node.accept(&node.entry("m1").await, "m1", Some("s7")).await;
    let node = node.reopened().await;
    assert_eq!(node.outbox_len().await, 0);
    let line = node.status("m1").await;
    assert_eq!((line.status, line.stages.accepted), (Status::Leased, Some(NOW)));
    let kept: String = node.one("SELECT thread || ' ' || remote_session FROM bridged").await;
    assert_eq!(kept, "m1 s7");
    node.store.arrive(reply("r1", &id("m1")), |_| ()).await.unwrap();
    let line = node.status("m1").await;
    assert_eq!((line.status, line.stages.answered), (Status::Done, Some(NOW)));
}

#[tokio::test]
async fn an_entry_is_settled_once_whatever_comes_second() {
    let node = Node::new();
    node.depart(request("failed")).await;
    node.depart(request("accepted")).await;
    let (failed, accepted) = (node.entry("failed").await, node.entry("accepted").await);
    node.fail(&failed).await;
    node.accept(&accepted, "accepted", None).await;

    let node = node.reopened().await;
    node.accept(&failed, "failed", None).await;
    node.fail(&failed).await;
    node.fail(&accepted).await;
    node.store.hold(accepted.clone(), "late".into(), None, NOW).await.unwrap();
    node.store.postpone(accepted.seq, NOW, "away".into()).await.unwrap();
    assert_eq!(node.inbox_ids().await, ["undelivered:failed"], "exactly one notice, of the one that failed");
    assert_status(&node.status("failed").await, Status::Failed);
    let line = node.status("accepted").await;
    assert_eq!((line.status, line.stages.held, line.stages.failed), (Status::Leased, None, None));
}

#[tokio::test]
async fn the_notice_arrives_even_when_its_id_is_taken() {
    let node = Node::new();
    node.depart(request("m1")).await;
    node.store.arrive(arrival("undelivered:m1", Kind::Request), |_| ()).await.unwrap();
    let node = node.reopened().await;
    node.fail(&node.entry("m1").await).await;
    let inbox = node.inbox().await;
    assert_eq!(inbox.len(), 2);
    assert_eq!(text_of(&inbox[1].message.parent_id).as_deref(), Some("m1"));
}

#[tokio::test]
async fn an_answer_proves_that_the_relay_has_the_request() {
    for kind in [Kind::Progress, Kind::Reply] {
        let node = Node::new();
        node.depart(request("m1")).await;
        let entry = node.entry("m1").await;
        // The 201 was lost on the way, and the next try is not due yet.
        node.store.postpone(entry.seq, after(60), "away".into()).await.unwrap();
        let node = node.reopened().await;
        node.store.arrive(Arrival { kind, ..reply("r1", &id("m1")) }, |_| ()).await.unwrap();
        assert_eq!(node.outbox_len().await, 0, "{kind}");
        // A try that was already on its way ends late.
        node.fail(&entry).await;
        assert_eq!(node.inbox_ids().await, ["r1"], "{kind}: no notice for what was answered");
        let line = node.status("m1").await;
        let status = if kind == Kind::Reply { Status::Done } else { Status::Leased };
        assert_eq!((line.status, line.stages.accepted), (status, Some(NOW)), "{kind}");
    }
}

#[tokio::test]
async fn a_reply_that_overtakes_the_201_is_not_undone_by_it() {
    let node = Node::new();
    node.depart(request("m1")).await;
    let entry = node.entry("m1").await;
    node.store.arrive(reply("r1", &id("m1")), |_| ()).await.unwrap();
    node.accept(&entry, "t9", Some("s7")).await;
    assert_status(&node.status("m1").await, Status::Done);
    let thread: String = node.one("SELECT thread FROM bridged WHERE direction = 'out'").await;
    assert_eq!(thread, "t9");
}

#[tokio::test]
async fn an_entry_that_cannot_be_read_stops_no_other() {
    let node = Node::new();
    node.depart(request("m1")).await;
    node.depart(request("m2")).await;
    node.execute("UPDATE outbox SET body = '{\"type\":' WHERE id = 'm1'").await;
    assert_eq!(ids(&node.due().await), ["m2"]);
    let node = node.reopened().await;
    assert_eq!(ids(&node.due_at(after(10_000_000)).await), ["m2"]);
    assert_eq!(node.outbox_len().await, 2, "it is set aside, not lost");
}
