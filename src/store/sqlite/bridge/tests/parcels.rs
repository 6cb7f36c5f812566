//! Uploads, and requests that their senders want back.

use super::*;
use crate::store::bridge::{Upload, Withdrawal};

fn upload(name: &str, now: Timestamp) -> Upload {
    Upload { agent: close(), sha256: name.into(), zip: name.as_bytes().to_vec(), now }
}

#[tokio::test]
async fn uploads_are_their_agents_own_and_expire_after_an_hour() {
    let node = Node::new();
    node.store.upload(upload("a", NOW)).await.unwrap();
    let of =
        |agent: &str, now: Timestamp| node.store.uploaded(AgentName::parse(agent).unwrap(), "a".into(), now);
    assert_eq!(of("close", NOW).await.unwrap(), Some(b"a".to_vec()));
    assert_eq!(of("shout", NOW).await.unwrap(), None);
    assert_eq!(of("close", after(3599)).await.unwrap(), Some(b"a".to_vec()));
    assert_eq!(of("close", after(3600)).await.unwrap(), None);
    node.store.forget(after(3600)).await.unwrap();
    assert_eq!(node.one::<i64>("SELECT count(*) FROM uploads").await, 0);
}

#[tokio::test]
async fn one_upload_too_many_drops_the_oldest() {
    let node = Node::new();
    for n in 0..17_u64 {
        node.store.upload(upload(&n.to_string(), after(n))).await.unwrap();
    }
    let left = |name: &str| node.store.uploaded(close(), name.into(), after(20));
    assert_eq!(left("0").await.unwrap(), None);
    assert!(left("1").await.unwrap().is_some() && left("16").await.unwrap().is_some());
}

#[tokio::test]
async fn what_is_dropped_takes_its_files_with_it() {
    let node = Node::new();
    let parcel = Parcel { encrypt: Some("never".into()), zip: Some(b"travels".to_vec()) };
    node.depart(Departure { files: Some(b"mine".to_vec()), parcel: parcel.clone(), ..request("m1") }).await;
    let node = node.reopened().await;
    let entry = node.entry("m1").await;
    assert!(entry.encrypt == parcel.encrypt && entry.has_zip && !entry.is_withdrawn);
    assert_eq!(node.store.outbox_zip(entry.seq).await.unwrap(), parcel.zip);
    let files = || node.store.files(close(), "m1".into());
    assert_eq!(files().await.unwrap(), Some(Some(b"mine".to_vec())));
    let shout = node.store.files(AgentName::parse("shout").unwrap(), "m1".into());
    assert_eq!(shout.await.unwrap(), None, "nobody else's business");

    node.accept(&entry, "t1", None).await;
    assert_eq!(node.one::<i64>("SELECT count(*) FROM outbox_parcels").await, 0);
    assert_eq!(node.store.outbox_zip(entry.seq).await.unwrap(), None);
    assert_eq!(files().await.unwrap(), Some(Some(b"mine".to_vec())), "as long as the message");
    node.local.sweep(after(10), after(10)).await.unwrap();
    assert_eq!(files().await.unwrap(), None);
    assert_eq!(node.one::<i64>("SELECT count(*) FROM files").await, 0);
}

#[tokio::test]
async fn a_withdrawal_stops_the_entry_until_the_relay_has_answered() {
    let node = Node::new();
    node.depart(request("m1")).await;
    let seq = node.entry("m1").await.seq;
    let withdraw = || node.store.withdraw(close(), "m1".into(), Generation::V1, NOW);
    assert_eq!(withdraw().await.unwrap(), Withdrawal::Asked { id: id("m1"), entry: Some(seq) });
    let node = node.reopened().await;
    assert!(node.due().await.is_empty());
    assert!(node.entry("m1").await.is_withdrawn, "however late it is looked at");
    node.store.go_on(seq, NOW).await.unwrap();
    let due = node.due().await;
    assert!(due.len() == 1 && !due[0].is_withdrawn && !due[0].has_zip);

    // Killed before the relay has answered.
    node.store.withdraw(close(), "m1".into(), Generation::V1, NOW).await.unwrap();
    let node = node.reopened().await;
    node.store.all_go_on(NOW).await.unwrap();
    let due = node.due().await;
    assert!(due.len() == 1 && !due[0].is_withdrawn);

    node.store.withdraw(close(), "m1".into(), Generation::V1, NOW).await.unwrap();
    node.store.withdrawn(close(), id("m1"), NOW).await.unwrap();
    assert_eq!((node.outbox_len().await, node.status("m1").await.status), (0, Status::Failed));
    assert!(node.inbox().await.is_empty(), "who wanted it back needs no notice");
    assert_eq!(
        node.store.withdraw(close(), "m1".into(), Generation::V1, NOW).await.unwrap(),
        Withdrawal::TooLate
    );
}

#[tokio::test]
async fn only_own_requests_can_be_withdrawn() {
    let node = Node::new();
    node.store.arrive(arrival("q1", Kind::Request), |_| ()).await.unwrap();
    node.depart(under("q1", plain("p1", LocalKind::Message))).await;
    assert_eq!(
        node.store.withdraw(close(), "q1".into(), Generation::V1, NOW).await.unwrap(),
        Withdrawal::Unknown
    );
    assert_eq!(
        node.store.withdraw(close(), "p1".into(), Generation::V1, NOW).await.unwrap(),
        Withdrawal::TooLate
    );
    assert_eq!(
        node.store.withdraw(close(), "m9".into(), Generation::V1, NOW).await.unwrap(),
        Withdrawal::Unknown
    );
}

#[tokio::test]
async fn who_looks_is_told_before_a_withdrawal_that_follows_is_answered() {
    let node = Node::new();
    node.depart(request("m1")).await;
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let looked = told.clone();
    let look = node.store.due(NOW, HashSet::new(), 1, move |due| looked.send(due.entries.len()).unwrap());
    let withdraw = async {
        node.store.withdraw(close(), "m1".into(), Generation::V1, NOW).await.unwrap();
        told.send(100).unwrap();
    };
    let (due, ()) = tokio::join!(look, withdraw);
    assert!(!due.unwrap().entries[0].is_withdrawn);
    assert_eq!((heard.recv().await, heard.recv().await), (Some(1), Some(100)));
}
