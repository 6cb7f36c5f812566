//! Retention: what ended long ago is deleted and reads like what never was, ids outlive it, and what is still on its
//! way stays.

use std::time::Duration;

use redsyn_bridge::relay::Settings;
use redsyn_bridge::relay::metrics::Counter;
use serde_json::{Value, json};

use super::target::{Bench, answer, ids, request, settled, soon, text, with};

const CLI: &str = "acme/general/beto/cli";
const CLOSE: &str = "acme/general/ana/close";
const TOPIC: &str = "topic:acme/finance/invoices";
const DAY: u64 = 86_400;

async fn keeping(days: Option<u64>) -> Bench {
    let retention = days.map(|days| Duration::from_secs(days * DAY));
    let bench = Bench::start_as(Settings { retention, ..Settings::default() }).await;
    bench.ana.announce(CLOSE, json!({})).await.is(201);
    bench.beto.announce(CLI, json!({})).await.is(201);
    bench
}

/// Moves the clock and waits until so many messages in all have been deleted.
async fn days_later(bench: &Bench, days: u64, forgotten: u64) {
    bench.advance(days * DAY);
    soon(async {
        while bench.service.metrics().get(Counter::MessagesForgotten) < forgotten {
            // Moved before the sweep sleeps, the clock would only move its bedtime.
            bench.advance(1);
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(bench.service.metrics().get(Counter::MessagesForgotten), forgotten);
}

/// Moves the clock and waits until the publisher's thread is gone.
async fn gone_later(bench: &Bench, days: u64, thread: &str) {
    bench.advance(days * DAY);
    soon(async {
        while bench.ana.get(&format!("/threads/{thread}")).await.status != 404 {
            bench.advance(60);
        }
    })
    .await;
}

/// Until the sweep has gone round twice since now: what it deletes, it has deleted then.
async fn two_sweeps(bench: &Bench) {
    let alone = "solo/general/fede/alone";
    bench.fede.announce(alone, json!({})).await;
    for round in 0..2 {
        let before = bench.service.metrics().get(Counter::MessagesExpired);
        let sent = with(request(&format!("s{round}"), alone, alone), json!({"ttl": 1}));
        bench.fede.send(&sent).await.is(201);
        bench.advance(1);
        settled(bench, Counter::MessagesExpired, before + 1).await;
    }
}

async fn ask_and_confirm(bench: &Bench, id: &str, fields: Value) {
    bench.beto.send(&with(request(id, CLI, CLOSE), fields)).await.is(201);
    bench.ana.take(CLOSE).await;
    bench.ana.ack(CLOSE, &[id]).await;
}

#[tokio::test]
async fn a_conversation_that_ended_long_ago_is_gone_with_its_session() {
    let bench = keeping(Some(2)).await;
    ask_and_confirm(&bench, "m1", json!({})).await;
    bench.ana.send(&answer("reply", "r1", CLOSE, "m1")).await.is(201);
    bench.beto.take(CLI).await;
    bench.beto.ack(CLI, &["r1"]).await;
    bench.ana.get("/threads/m1").await.is(200);
    days_later(&bench, 3, 2).await;
    for node in [&bench.ana, &bench.beto] {
        node.get("/threads/m1").await.refused(404);
        node.get(&format!("/agents/{CLOSE}/sessions/s1")).await.refused(404);
    }
    assert_eq!(bench.ana.get(&format!("/agents/{CLOSE}")).await.is(200)["sessions"], json!([]));
    bench.beto.send(&request("m2", CLI, &format!("{CLOSE}#s1"))).await.refused(404);
    bench.ana.send(&answer("reply", "r2", CLOSE, "m1")).await.refused(404);
    bench.beto.post("/messages/m1/cancel", json!({})).await.refused(404);
    bench.ana.get("/messages/m1/files").await.refused(404);
    let next = bench.beto.send(&with(request("m3", CLI, CLOSE), json!({"thread": "m1"}))).await.is(201);
    assert_eq!(next["to"], format!("{CLOSE}#s2"), "a number is never used twice");
}

#[tokio::test]
async fn an_id_is_known_for_as_long_as_its_envelope_could_have_waited() {
    let bench = keeping(Some(1)).await;
    let first = bench.beto.send(&request("m1", CLI, CLOSE)).await.is(201);
    bench.ana.take(CLOSE).await;
    bench.ana.ack(CLOSE, &["m1"]).await;
    days_later(&bench, 2, 1).await;
    bench.ana.get("/threads/m1").await.refused(404);
    let again = bench.beto.send(&request("m1", CLI, CLOSE)).await.is(201);
    assert_eq!(again, with(first, json!({"duplicate": true})));
    bench.ana.send(&request("m1", CLOSE, CLI)).await.refused(409);
    assert!(bench.ana.take(CLOSE).await.is_empty());
    bench.advance(29 * DAY);
    soon(async {
        loop {
            bench.advance(60);
            let sent = bench.beto.send(&request("m1", CLI, CLOSE)).await.is(201);
            if sent.get("duplicate").is_none() {
                assert_eq!(sent["to"], format!("{CLOSE}#s2"));
                return;
            }
        }
    })
    .await;
    assert_eq!(bench.ana.take_ids(CLOSE).await, ["m1"]);
}

#[tokio::test]
async fn what_waits_or_is_held_stays_however_old() {
    let bench = keeping(Some(1)).await;
    let long = json!({"ttl": 20 * DAY});
    bench.beto.send(&with(request("held", CLI, CLOSE), long.clone())).await.is(201);
    bench.ana.take_with(CLOSE, &format!("lease={}", 10 * DAY)).await;
    for id in ["done", "waits"] {
        let fields = json!({"ttl": 20 * DAY, "thread": "t"});
        bench.beto.send(&with(request(id, CLI, CLOSE), fields)).await.is(201);
        if id == "done" {
            bench.ana.take(CLOSE).await;
            bench.ana.ack(CLOSE, &["done"]).await;
        }
    }
    days_later(&bench, 5, 1).await;
    assert_eq!(bench.ana.ack(CLOSE, &["held"]).await["acked"], json!(["held"]));
    let items = bench.ana.take(CLOSE).await;
    assert_eq!((ids(&items), &items[0]["to"]), (vec!["waits".to_owned()], &json!(format!("{CLOSE}#s2"))));
    let next = with(request("next", CLI, CLOSE), with(long, json!({"thread": "t"})));
    assert_eq!(bench.beto.send(&next).await.is(201)["to"], format!("{CLOSE}#s2"), "its session is in use");
}

#[tokio::test]
async fn what_expired_was_abandoned_or_cancelled_goes_too() {
    let bench = keeping(Some(1)).await;
    bench.beto.send(&with(request("expires", CLI, CLOSE), json!({"ttl": 10}))).await.is(201);
    bench.beto.send(&request("cancelled", CLI, CLOSE)).await.is(201);
    bench.beto.post("/messages/cancelled/cancel", json!({})).await.is(200);
    bench.beto.send(&with(request("abandoned", CLI, CLOSE), json!({"ttl": 20 * DAY}))).await.is(201);
    for _ in 0..10 {
        assert!(bench.ana.take_with(CLOSE, "lease=5").await.iter().any(|item| item["id"] == "abandoned"));
        bench.advance(5);
    }
    for id in ["expires", "abandoned"] {
        assert_eq!(bench.beto.take_with(CLI, &format!("wait=25&reply_to={id}")).await.len(), 1);
    }
    let notices = bench.beto.get("/threads/expires").await.is(200);
    let notice = notices["items"][1]["id"].as_str().unwrap().to_owned();
    bench.beto.ack(CLI, &[&notice]).await;
    // The three, the confirmed notice, and the other one, which expired meanwhile.
    days_later(&bench, 4, 5).await;
    for id in ["expires", "cancelled", "abandoned"] {
        bench.beto.get(&format!("/threads/{id}")).await.refused(404);
    }
}

#[tokio::test]
async fn events_go_after_their_last_listener_and_a_topic_keeps_its_session() {
    let bench = keeping(Some(2)).await;
    let caro = "acme/ops/caro/watch";
    bench.caro.announce(caro, json!({})).await.is(201);
    for (node, agent) in [(&bench.beto, CLI), (&bench.caro, caro)] {
        node.put("/subscriptions", json!({"agent": agent, "topic": TOPIC})).await.is(200);
    }
    let event = |id: &str| {
        json!({"v": 1, "id": id, "kind": "event", "from": CLOSE, "to": TOPIC, "body": text("new"),
               "ttl": 20 * DAY})
    };
    bench.ana.send(&event("e1")).await.is(201);
    bench.beto.take(CLI).await;
    bench.beto.ack(CLI, &["e1"]).await;
    bench.advance(5 * DAY);
    two_sweeps(&bench).await;
    assert_eq!(bench.caro.take_ids(caro).await, ["e1"]);
    bench.caro.ack(caro, &["e1"]).await;
    gone_later(&bench, 3, "e1").await;
    let page = bench.beto.get(&format!("/agents/{CLI}/sessions/s1")).await.is(200);
    assert_eq!((&page["title"], &page["messages"]), (&json!(TOPIC), &json!([])));
    bench.ana.send(&event("e2")).await.is(201);
    assert_eq!(bench.beto.take(CLI).await[0]["to"], format!("{CLI}#s1"));
    // Nobody hears this one: it has ended when it is accepted.
    bench.ana.send(&with(event("e3"), json!({"to": "topic:acme/finance/silence"}))).await.is(201);
    gone_later(&bench, 3, "e3").await;
}

#[tokio::test]
async fn usage_counts_what_was_sent_not_what_is_kept() {
    let bench = keeping(Some(1)).await;
    ask_and_confirm(&bench, "m1", json!({})).await;
    days_later(&bench, 2, 1).await;
    for id in ["m2", "m1", "m3"] {
        bench.beto.send(&request(id, CLI, CLOSE)).await.is(201);
    }
    assert_eq!(bench.beto.get("/orgs/acme/usage").await.is(200)["used"]["messages"], 2);
}

#[tokio::test]
async fn unlimited_keeps_everything() {
    let bench = keeping(None).await;
    ask_and_confirm(&bench, "m1", json!({})).await;
    bench.advance(4000 * DAY);
    two_sweeps(&bench).await;
    bench.ana.get("/threads/m1").await.is(200);
}
