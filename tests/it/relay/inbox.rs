//! Taking: leases, confirming, peeking, answers by name, held polls, order, reservations.

use serde_json::{Value, json};

use super::target::{Bench, answer, ids, request, sealed_body, soon, with};

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

#[tokio::test]
async fn a_lease_ends_and_the_message_returns() {
    let bench = pair().await;
    send(&bench, "m1", json!({})).await;
    assert_eq!(bench.ana.take_with(CLOSE, "lease=300").await[0]["attempts"], 1);
    assert!(bench.ana_server.take(CLOSE).await.is_empty());
    bench.advance(299);
    assert!(bench.ana_server.take(CLOSE).await.is_empty());
    bench.advance(1);
    let again = bench.ana_server.take(CLOSE).await;
    assert_eq!((ids(&again), &again[0]["attempts"]), (vec!["m1".to_owned()], &json!(2)));
    // The default lease.
    bench.advance(899);
    assert!(bench.ana.take(CLOSE).await.is_empty());
    bench.advance(1);
    assert_eq!(bench.ana.take(CLOSE).await[0]["attempts"], 3);
}

#[tokio::test]
async fn confirming_ends_it_from_any_node_and_also_late() {
    let bench = pair().await;
    for id in ["m1", "m2", "m3"] {
        send(&bench, id, json!({})).await;
    }
    assert_eq!(bench.ana.ack(CLOSE, &["m1"]).await["acked"], json!([]), "nobody took it");
    bench.ana.take_with(CLOSE, "lease=1").await;
    assert_eq!(bench.ana_server.ack(CLOSE, &["m1", "unknown", "m1"]).await["acked"], json!(["m1"]));
    bench.advance(5);
    assert_eq!(bench.ana.ack(CLOSE, &["m2"]).await["acked"], json!(["m2"]));
    assert_eq!(bench.ana.take_ids(CLOSE).await, ["m3"]);
    assert_eq!(bench.ana.ack(CLOSE, &["m1", "m2"]).await["acked"], json!([]));
}

#[tokio::test]
async fn answers_are_taken_by_the_name_of_their_request() {
    let bench = pair().await;
    for id in ["m1", "m2"] {
        send(&bench, id, json!({})).await;
        bench.ana.send(&answer("progress", &format!("p-{id}"), CLOSE, id)).await.is(201);
        bench.ana.send(&answer("reply", &format!("r-{id}"), CLOSE, id)).await.is(201);
    }
    assert_eq!(ids(&bench.beto.take_with(CLI, "reply_to=m2&peek=1").await), ["p-m2", "r-m2"]);
    assert_eq!(ids(&bench.beto.take_with(CLI, "reply_to=m2").await), ["p-m2", "r-m2"]);
    assert!(bench.beto.take_with(CLI, "reply_to=m3").await.is_empty());
    assert_eq!(bench.beto.take_ids(CLI).await, ["p-m1", "r-m1"]);
}

#[tokio::test]
async fn a_session_is_handed_out_in_order_to_one_node_at_a_time() {
    let bench = pair().await;
    for id in ["m1", "m2", "m3"] {
        send(&bench, id, json!({"thread": "t"})).await;
    }
    send(&bench, "other", json!({})).await;
    // A short lease, so that the first two are in the laptop's hands when more arrives.
    assert_eq!(bench.ana.take_ids(CLOSE).await, ["m1", "m2", "m3", "other"]);
    send(&bench, "m4", json!({"thread": "t"})).await;
    send(&bench, "free", json!({})).await;
    assert_eq!(bench.ana_server.take_ids(CLOSE).await, ["free"], "m4 waits for the laptop");
    bench.ana.ack(CLOSE, &["m1", "m2"]).await;
    assert!(bench.ana_server.take(CLOSE).await.is_empty());
    assert_eq!(bench.ana.take_ids(CLOSE).await, ["m4"], "the holder itself goes on");
    send(&bench, "m5", json!({"thread": "t"})).await;
    bench.ana.ack(CLOSE, &["m3", "m4"]).await;
    assert_eq!(bench.ana_server.take_ids(CLOSE).await, ["m5"]);
}

#[tokio::test]
async fn a_returned_message_comes_before_its_followers() {
    let bench = pair().await;
    send(&bench, "m1", json!({"thread": "t"})).await;
    bench.ana.take_with(CLOSE, "lease=10").await;
    send(&bench, "m2", json!({"thread": "t"})).await;
    bench.advance(10);
    assert_eq!(bench.ana_server.take_ids(CLOSE).await, ["m1", "m2"]);
}

#[tokio::test]
async fn answers_of_one_request_keep_their_order_across_nodes() {
    let bench = pair().await;
    bench.ana.send(&request("m1", CLOSE, CLI)).await.is(201);
    bench.beto.send(&answer("progress", "p1", CLI, "m1")).await.is(201);
    assert_eq!(ids(&bench.ana.take_with(CLOSE, "reply_to=m1").await), ["p1"]);
    bench.beto.send(&answer("reply", "r1", CLI, "m1")).await.is(201);
    assert!(bench.ana_server.take_with(CLOSE, "reply_to=m1").await.is_empty());
    bench.ana.ack(CLOSE, &["p1"]).await;
    assert_eq!(ids(&bench.ana_server.take_with(CLOSE, "reply_to=m1").await), ["r1"]);
}

#[tokio::test]
async fn a_sealed_request_waits_for_the_node_it_was_sealed_for() {
    let bench = pair().await;
    let sealed = json!({"body": sealed_body()});
    // Nobody asked for a key: the node that listened last.
    bench.ana_server.announce(CLOSE, json!({})).await.is(200);
    send(&bench, "m1", sealed.clone()).await;
    assert!(bench.ana.take(CLOSE).await.is_empty());
    assert_eq!(ids(&bench.ana.take_with(CLOSE, "peek=1").await), ["m1"]);
    // The laptop has listened since, yet m1 stays the server's.
    assert_eq!(bench.ana_server.take_ids(CLOSE).await, ["m1"]);
    bench.ana_server.ack(CLOSE, &["m1"]).await;
    let seed = super::target::key(7);
    let enc_key =
        redsyn_bridge::crypto::enc_key::EncPrivateKey::from_scalar(&[7; 32]).unwrap().enc_key().to_string();
    let enc_sig = redsyn_bridge::crypto::enc_key::sign_enc_key(&seed, &enc_key).to_text();
    let keys =
        json!({"public_key": seed.verifying_key().to_string(), "enc_key": enc_key, "enc_sig": enc_sig});
    bench.ana.put("/nodes/key", keys).await.is(200);
    bench.ana.take(CLOSE).await;
    assert_eq!(bench.beto.get(&format!("/agents/{CLOSE}/key")).await.is(200)["node"], "laptop");
    bench.ana_server.take(CLOSE).await;
    // The laptop's key was given to beto, whoever listened since.
    send(&bench, "m2", sealed).await;
    assert!(bench.ana_server.take(CLOSE).await.is_empty());
    assert_eq!(bench.ana.take_ids(CLOSE).await, ["m2"]);
}

#[tokio::test]
async fn a_plain_message_behind_a_reserved_one_waits_for_it() {
    let bench = pair().await;
    send(&bench, "m1", json!({"thread": "t", "body": sealed_body()})).await;
    send(&bench, "m2", json!({"thread": "t"})).await;
    assert!(bench.ana_server.take(CLOSE).await.is_empty());
    assert_eq!(bench.ana.take_ids(CLOSE).await, ["m1", "m2"]);
}

/// Waits until a poll has taken its look: the agent is online from then on.
async fn held(bench: &Bench) {
    let online = async || bench.ana.get(&format!("/agents/{CLOSE}")).await.body["online"] == true;
    soon(async { while !online().await {} }).await;
}

#[tokio::test]
async fn a_held_poll_ends_empty_at_its_deadline_and_no_later_than_25_seconds() {
    let bench = pair().await;
    let poll = |query: &'static str| {
        let ana = bench.ana.clone();
        tokio::spawn(async move { ana.take_with(CLOSE, query).await })
    };
    let (short, long) = (poll("wait=5"), poll("wait=600"));
    held(&bench).await;
    bench.advance(5);
    assert!(soon(short).await.unwrap().is_empty());
    assert!(!long.is_finished());
    bench.advance(20);
    assert!(soon(long).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_returning_lease_wakes_a_held_poll() {
    let bench = pair().await;
    send(&bench, "m1", json!({})).await;
    bench.ana.take_with(CLOSE, "lease=10").await;
    let poll = tokio::spawn({
        let server = bench.ana_server.clone();
        async move { server.take_with(CLOSE, "wait=25").await }
    });
    let by_server = async || bench.ana.get(&format!("/agents/{CLOSE}")).await.body["node"] == "server";
    soon(async { while !by_server().await {} }).await;
    bench.advance(10);
    assert_eq!(ids(&soon(poll).await.unwrap()), ["m1"]);
}

#[tokio::test]
async fn a_confirmation_wakes_the_node_that_waits_behind_it() {
    let bench = pair().await;
    send(&bench, "m1", json!({"thread": "t"})).await;
    bench.ana.take(CLOSE).await;
    send(&bench, "m2", json!({"thread": "t"})).await;
    let poll = tokio::spawn({
        let server = bench.ana_server.clone();
        async move { server.take_with(CLOSE, "wait=25").await }
    });
    let by_server = async || bench.ana.get(&format!("/agents/{CLOSE}")).await.body["node"] == "server";
    soon(async { while !by_server().await {} }).await;
    assert!(!poll.is_finished());
    bench.ana.ack(CLOSE, &["m1"]).await;
    assert_eq!(ids(&soon(poll).await.unwrap()), ["m2"]);
}

#[tokio::test]
async fn stopping_answers_held_polls_empty_at_once() {
    let mut bench = pair().await;
    let polls: Vec<_> = (0..20)
        .map(|_| {
            let ana = bench.ana.clone();
            tokio::spawn(async move { ana.take_with(CLOSE, "wait=25").await })
        })
        .collect();
    held(&bench).await;
    bench.stop();
    for poll in polls {
        assert!(soon(poll).await.unwrap().is_empty());
    }
    bench.stopped().await;
}

#[tokio::test]
async fn a_client_that_goes_away_while_it_waits_takes_nothing() {
    let bench = pair().await;
    let gone = tokio::spawn({
        let ana = bench.ana.clone();
        async move { ana.take_with(CLOSE, "wait=25").await }
    });
    held(&bench).await;
    gone.abort();
    let _ = gone.await;
    // The relay learns of it when it reads the end of the connection.
    soon(async {
        while bench.service.held_mailboxes() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    send(&bench, "m1", json!({})).await;
    assert_eq!(bench.ana_server.take(CLOSE).await[0]["attempts"], 1);
}
