//! What time does: messages expire, are abandoned after ten takes, and the sender is told.

use serde_json::{Value, json};

use super::target::{Bench, answer, ids, request, soon, with};

const CLI: &str = "acme/general/beto/cli";
const CLOSE: &str = "acme/general/ana/close";

async fn pair() -> Bench {
    let bench = Bench::start().await;
    bench.ana.announce(CLOSE, json!({})).await.is(201);
    bench.beto.announce(CLI, json!({})).await.is(201);
    bench
}

async fn send(bench: &Bench, id: &str, fields: Value) {
    bench.beto.send(&with(request(id, CLI, CLOSE), fields)).await.is(201);
}

/// What the sender gets, without anybody else calling: the sweep's work alone.
async fn notice(bench: &Bench, request: &str) -> Value {
    let query = format!("wait=25&reply_to={request}");
    let items = bench.beto.take_with(CLI, &query).await;
    assert_eq!(items.len(), 1);
    items[0].clone()
}

#[tokio::test]
async fn what_nobody_takes_expires_and_its_sender_is_told() {
    let bench = pair().await;
    send(&bench, "m1", json!({"ttl": 60, "thread": "t"})).await;
    bench.advance(59);
    assert_eq!(ids(&bench.ana.take_with(CLOSE, "peek=1").await), ["m1"]);
    bench.advance(1);
    let told = notice(&bench, "m1").await;
    assert_eq!(told["body"]["text"], format!("not delivered: it expired before {CLOSE} took it"));
    assert_eq!(
        (&told["kind"], &told["error"], &told["signed"]),
        (&json!("reply"), &json!(true), &json!(false))
    );
    assert_eq!((&told["from"], &told["to"]), (&json!(format!("{CLOSE}#s1")), &json!(CLI)));
    assert_eq!((&told["thread"], &told["reply_to"]), (&json!("t"), &json!("m1")));
    assert!(bench.ana.take(CLOSE).await.is_empty());
    let late = bench.ana.send(&answer("reply", "r1", CLOSE, "m1")).await.refused(409);
    assert!(late.contains("expired"), "{late}");
    bench.beto.post("/messages/m1/cancel", json!({})).await.refused(409);
}

#[tokio::test]
async fn a_take_at_the_last_second_beats_the_expiry_until_its_lease_ends() {
    let bench = pair().await;
    send(&bench, "m1", json!({"ttl": 60})).await;
    bench.advance(59);
    bench.ana.take_with(CLOSE, "lease=30").await;
    bench.advance(29);
    assert!(bench.beto.take(CLI).await.is_empty());
    bench.advance(1);
    let told = notice(&bench, "m1").await;
    assert_eq!(told["body"]["text"], format!("not delivered: it expired before {CLOSE} took it"));
}

#[tokio::test]
async fn ten_takes_without_a_confirmation_are_the_end() {
    let bench = pair().await;
    send(&bench, "m1", json!({})).await;
    for attempt in 1..=10 {
        assert_eq!(bench.ana.take_with(CLOSE, "lease=5").await[0]["attempts"], attempt);
        bench.advance(5);
    }
    let told = notice(&bench, "m1").await;
    assert_eq!(
        told["body"]["text"],
        format!("not delivered: {CLOSE} took it 10 times and never confirmed it")
    );
    assert_eq!(told["error"], true);
    assert!(bench.ana.take(CLOSE).await.is_empty());
    let late = bench.ana.send(&answer("reply", "r1", CLOSE, "m1")).await.refused(409);
    assert!(late.contains("abandoned"), "{late}");
}

#[tokio::test]
async fn the_tenth_take_can_still_be_confirmed() {
    let bench = pair().await;
    send(&bench, "m1", json!({})).await;
    for _ in 0..9 {
        bench.ana.take_with(CLOSE, "lease=5").await;
        bench.advance(5);
    }
    bench.ana.take_with(CLOSE, "lease=5").await;
    bench.ana.ack(CLOSE, &["m1"]).await;
    bench.advance(5);
    assert!(bench.beto.take(CLI).await.is_empty());
}

#[tokio::test]
async fn only_requests_are_told_of() {
    let bench = pair().await;
    send(&bench, "m1", json!({})).await;
    bench.ana.send(&with(answer("reply", "r1", CLOSE, "m1"), json!({"ttl": 10}))).await.is(201);
    bench.advance(10);
    assert!(bench.beto.take(CLI).await.is_empty());
    assert!(bench.ana.take(CLOSE).await.is_empty());
}

#[tokio::test]
async fn an_expired_message_does_not_hold_up_its_session() {
    let bench = pair().await;
    send(&bench, "m1", json!({"ttl": 10, "thread": "t"})).await;
    send(&bench, "m2", json!({"thread": "t"})).await;
    let poll = tokio::spawn({
        let server = bench.ana_server.clone();
        async move {
            let first = server.take_with(CLOSE, "lease=5").await;
            assert_eq!(ids(&first), ["m1", "m2"]);
        }
    });
    soon(poll).await.unwrap();
    bench.advance(20);
    assert_eq!(bench.ana.take_ids(CLOSE).await, ["m2"]);
}

#[tokio::test]
async fn many_leases_end_in_one_step_of_the_clock() {
    let bench = pair().await;
    for n in 0..60 {
        send(&bench, &format!("m{n:02}"), json!({})).await;
    }
    assert_eq!(bench.ana.take_with(CLOSE, "lease=5").await.len(), 50);
    assert_eq!(bench.ana.take_with(CLOSE, "lease=5").await.len(), 10);
    bench.advance(5);
    let again = bench.ana.take_ids(CLOSE).await;
    assert_eq!((again.len(), again[0].as_str(), again[49].as_str()), (50, "m00", "m49"));
}
