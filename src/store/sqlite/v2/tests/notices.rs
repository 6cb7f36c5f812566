//! What senders are told, and how often.

use super::*;

#[tokio::test]
async fn a_request_that_expires_is_told_of_once_after_the_pullers_own_answer() {
    let store = store();
    let asked = NewMessage {
        topic: "t".into(),
        session_ref: "s".into(),
        mode: Mode::Continue,
        body: "x".repeat(500),
        ..request("m1", "alpha", "beta")
    };
    create(&store, asked).await;
    let own = pull(&store, "alpha", later(3600)).await;
    assert_eq!((own.messages.len(), own.woken), (0, vec![name("alpha")]));
    let notices = pull(&store, "alpha", later(3601)).await.messages;
    let notice = &notices[0].message;
    assert_eq!(notice.parent_id.as_deref(), Some("m1"));
    assert_eq!((notice.origin.as_str(), notice.target.as_str(), notice.kind), ("beta", "alpha", Kind::Reply));
    assert_eq!((notice.root_id.as_str(), notice.topic.as_str()), ("root of m1", "t"));
    assert_eq!((notice.session_ref.as_str(), notice.mode), ("s", Mode::Continue));
    assert_eq!((notice.idempotency_key.as_str(), notice.expires_at), ("undelivered:m1", later(7200)));
    let told = format!(
        "[Relay] Not delivered: it expired before beta took it.\n\nThe message: {}…",
        "x".repeat(400)
    );
    assert_eq!(notice.body, told);
}

#[tokio::test]
async fn a_request_that_fails_again_after_a_requeue_is_told_of_no_more() {
    let store = store();
    create(&store, request("m1", "alpha", "beta")).await;
    let fail = async |at: u64| {
        for turn in 0..2_u64 {
            pull(&store, "beta", later(at + turn)).await;
            ack(&store, "beta", "m1", Outcome::Retry, later(at + turn)).await;
        }
    };
    fail(1).await;
    let notices = pull(&store, "alpha", later(5)).await.messages;
    let told = "[Relay] Not delivered: beta took it 2 times and never confirmed it (retry exhausted).\n\nThe message: do m1";
    assert_eq!(notices[0].message.body, told);
    let manage = Manage {
        action: Action::Requeue,
        agent: name("beta"),
        id: DshId::new("m1"),
        is_admin: false,
        now: later(6),
    };
    assert_eq!(store.manage(manage, |_| ()).await.unwrap(), Managed::Done { woken: Some(name("beta")) });
    fail(7).await;
    assert_eq!(find(&store, "m1").await.delivery.status(), Status::Failed);
    let all = store.query(Query::all(name("alpha"), START, 9)).await.unwrap();
    assert_eq!(all.iter().filter(|message| message.message.kind == Kind::Reply).count(), 1);
}

#[tokio::test]
async fn nobody_is_told_of_replies_nor_when_notices_are_off_nor_when_the_target_took_the_key() {
    let store = store();
    create(&store, NewMessage { kind: Kind::Reply, ..request("reply", "alpha", "beta") }).await;
    create(&store, request("m1", "alpha", "beta")).await;
    let taken = NewMessage {
        idempotency_key: "undelivered:m1".into(),
        expires_at: later(9000),
        ..request("mine", "beta", "alpha")
    };
    create(&store, taken).await;
    assert_eq!(pull(&store, "gamma", later(3600)).await.woken, []);
    assert_eq!(ids(&pull(&store, "alpha", later(3601)).await.messages), ["mine"]);

    create(&store, NewMessage { expires_at: later(60), ..request("m2", "alpha", "beta") }).await;
    let quiet = Rules { notify: false, ..RULES };
    assert_eq!(store.sweep(later(3602), Timestamp::from_secs(0), quiet).await.unwrap().woken, []);
    assert_eq!(find(&store, "m2").await.delivery.status(), Status::Expired);
}
