//! Webhooks: pushes with their headers, retries, the end after ten, and targets that are refused.

use redsyn_bridge::crypto::secret::Secret;
use redsyn_bridge::crypto::{base64url, webhook};
use redsyn_bridge::domain::relay::plan::Plans;
use redsyn_bridge::relay::metrics::Counter;
use serde_json::json;

use super::target::{Bench, NOW, P256_POINT, answer, key, request, settled, text, with};
use crate::support::receiver::Receiver;

const CLOSE: &str = "acme/finance/ana/close";
const BETO: &str = "acme/finance/beto/cli";

fn path(agent: &str) -> String {
    format!("/agents/{agent}/webhook")
}

async fn hooked() -> (Bench, Receiver, Secret) {
    let bench = Bench::start().await;
    bench.ana.announce(CLOSE, json!({})).await.is(201);
    bench.beto.announce(BETO, json!({})).await.is(201);
    let receiver = Receiver::start().await;
    let set = bench.ana.put(&path(CLOSE), json!({"url": receiver.url})).await.is(200);
    let secret = Secret::new(set["secret"].as_str().unwrap());
    (bench, receiver, secret)
}

#[tokio::test]
async fn a_push_is_the_envelope_signed_and_named() {
    let (bench, mut receiver, secret) = hooked().await;
    bench.beto.send(&request("m1", BETO, CLOSE)).await.is(201);
    let push = receiver.next().await;
    assert_eq!(push.headers["redsyn-delivery"], "m1");
    assert_eq!(push.headers["redsyn-version"], "2026-09-25");
    assert_eq!(push.headers["content-type"], "application/json");
    let signature = push.headers["redsyn-signature"].to_str().unwrap();
    assert!(signature.starts_with(&format!("t={NOW},v1=")));
    assert!(webhook::verify(&secret, signature, &push.raw, NOW));
    assert_eq!((&push.body["kind"], &push.body["attempts"]), (&json!("request"), &json!(1)));
    assert_eq!((&push.body["to"], &push.body["body"]), (&json!(format!("{CLOSE}#s1")), &text("hi")));
    settled(&bench, Counter::PushesTaken, 1).await;
    assert_eq!(bench.ana.get(&format!("/agents/{CLOSE}")).await.is(200)["online"], true);
    assert!(bench.ana.take_with(CLOSE, "peek=1").await.is_empty(), "a 2xx takes it");
    bench.ana.send(&answer("reply", "r1", CLOSE, "m1")).await.is(201);
    assert_eq!(bench.beto.take_ids(BETO).await, ["r1"]);
}

#[tokio::test]
async fn what_waited_is_pushed_and_a_session_keeps_its_order() {
    let (bench, mut receiver, _) = hooked().await;
    bench.ana.request(reqwest::Method::DELETE, &path(CLOSE)).send().await.unwrap();
    for id in ["m1", "m2", "m3"] {
        bench.beto.send(&with(request(id, BETO, CLOSE), json!({"thread": "t"}))).await.is(201);
    }
    bench.beto.send(&request("other", BETO, CLOSE)).await.is(201);
    assert!(receiver.nothing_came());
    receiver.say(&[500, 500]);
    bench.ana.put(&path(CLOSE), json!({"url": receiver.url})).await.is(200);
    let mut first = [receiver.next().await.id().to_owned(), receiver.next().await.id().to_owned()];
    first.sort();
    assert_eq!(first, ["m1", "other"]);
    settled(&bench, Counter::PushesFailed, 2).await;
    bench.advance(10);
    let mut after: Vec<String> = Vec::new();
    for _ in 0..4 {
        after.push(receiver.next().await.id().to_owned());
    }
    after.retain(|id| id != "other");
    assert_eq!(after, ["m1", "m2", "m3"]);
}

#[tokio::test]
async fn a_failed_push_comes_again_after_ten_twenty_forty_seconds_ten_times_in_all() {
    let (bench, mut receiver, secret) = hooked().await;
    receiver.say(&[500, 404, 302, 300, 400, 503, 301, 303, 307, 308]);
    bench.beto.send(&request("m1", BETO, CLOSE)).await.is(201);
    let mut now = NOW;
    for (attempt, wait) in (1u64..).zip([10, 20, 40, 80, 160, 320, 640, 1280, 2560]) {
        let push = receiver.next().await;
        assert_eq!(push.body["attempts"], attempt);
        let signature = push.headers["redsyn-signature"].to_str().unwrap();
        assert!(webhook::verify(&secret, signature, &push.raw, now), "signed anew each time");
        settled(&bench, Counter::PushesFailed, attempt).await;
        bench.advance(wait - 1);
        bench.ana.get("/me").await.is(200);
        assert!(receiver.nothing_came(), "after {attempt} failures it waits {wait} s");
        bench.advance(1);
        now += i64::try_from(wait).unwrap();
    }
    assert_eq!(receiver.next().await.body["attempts"], 10);
    let told = bench.beto.take_with(BETO, "wait=25&reply_to=m1").await;
    assert_eq!(
        told[0]["body"]["text"],
        format!("not delivered: {CLOSE} took it 10 times and never confirmed it")
    );
    assert_eq!((&told[0]["error"], &told[0]["signed"]), (&json!(true), &json!(false)));
    bench.advance(10_000);
    bench.ana.get("/me").await.is(200);
    assert!(receiver.nothing_came());
}

#[tokio::test]
async fn no_answer_in_ten_seconds_is_a_failure_and_holds_up_no_other_session() {
    let (bench, mut receiver, _) = hooked().await;
    receiver.say(&[0]);
    bench.beto.send(&request("slow", BETO, CLOSE)).await.is(201);
    assert_eq!(receiver.next().await.id(), "slow");
    bench.beto.send(&request("other", BETO, CLOSE)).await.is(201);
    assert_eq!(receiver.next().await.id(), "other");
    settled(&bench, Counter::PushesTaken, 1).await;
    bench.advance(10);
    settled(&bench, Counter::PushesFailed, 1).await;
    bench.advance(10);
    assert_eq!(receiver.next().await.body["attempts"], 2);
}

#[tokio::test]
async fn files_can_be_fetched_until_the_2xx() {
    let (bench, mut receiver, _) = hooked().await;
    receiver.say(&[500]);
    let files = json!({"files": {"zip": base64url::zip_encode(b"PK files")}});
    bench.beto.send(&with(request("m1", BETO, CLOSE), files)).await.is(201);
    assert_eq!(receiver.next().await.body["files"]["bytes"], 8);
    settled(&bench, Counter::PushesFailed, 1).await;
    bench.ana.get("/messages/m1/files").await.is(200);
    bench.advance(10);
    receiver.next().await;
    settled(&bench, Counter::PushesTaken, 1).await;
    bench.ana.get("/messages/m1/files").await.refused(404);
}

#[tokio::test]
async fn the_secret_is_shown_once_and_a_second_webhook_has_another() {
    let (bench, mut receiver, first) = hooked().await;
    let second = bench.ana.put(&path(CLOSE), json!({"url": receiver.url})).await.is(200);
    let second = Secret::new(second["secret"].as_str().unwrap());
    assert!(first != second && second.expose().starts_with("whsec_"));
    let shown = bench.ana.get(&format!("/agents/{CLOSE}")).await.is(200).to_string();
    assert!(!shown.contains("whsec_"));
    bench.beto.send(&request("m1", BETO, CLOSE)).await.is(201);
    let push = receiver.next().await;
    let signature = push.headers["redsyn-signature"].to_str().unwrap();
    assert!(webhook::verify(&second, signature, &push.raw, NOW));
    assert!(!webhook::verify(&first, signature, &push.raw, NOW));
}

#[tokio::test]
async fn removing_it_goes_back_to_the_mailbox_also_for_what_failed() {
    let (bench, mut receiver, _) = hooked().await;
    receiver.say(&[500]);
    bench.beto.send(&request("m1", BETO, CLOSE)).await.is(201);
    receiver.next().await;
    settled(&bench, Counter::PushesFailed, 1).await;
    assert!(bench.ana.take(CLOSE).await.is_empty(), "it is held for its next try");
    for _ in 0..2 {
        let removed = bench.ana.request(reqwest::Method::DELETE, &path(CLOSE));
        bench.ana.send_request(removed).await.is(200);
    }
    assert_eq!(bench.ana.take(CLOSE).await[0]["attempts"], 2);
    bench.advance(60);
    assert!(receiver.nothing_came());
}

#[tokio::test]
async fn an_agent_with_a_webhook_has_no_key() {
    let (bench, receiver, _) = hooked().await;
    let signing = key(1);
    let enc_key = base64url::encode(&P256_POINT);
    let enc_sig = signing.sign(format!("redsyn-enc-v1:{enc_key}").as_bytes()).to_text();
    let body =
        json!({"public_key": signing.verifying_key().to_string(), "enc_key": enc_key, "enc_sig": enc_sig});
    bench.ana.put("/nodes/key", body).await.is(200);
    bench.ana.announce(CLOSE, json!({})).await.is(200);
    bench.beto.get(&format!("/agents/{CLOSE}/key")).await.refused(404);
    let removed = bench.ana.request(reqwest::Method::DELETE, &path(CLOSE));
    bench.ana.send_request(removed).await.is(200);
    bench.beto.get(&format!("/agents/{CLOSE}/key")).await.is(200);
    drop(receiver);
}

#[tokio::test]
async fn pushes_go_on_after_a_restart() {
    let (mut bench, mut receiver, _) = hooked().await;
    receiver.say(&[500]);
    bench.beto.send(&request("m1", BETO, CLOSE)).await.is(201);
    receiver.next().await;
    settled(&bench, Counter::PushesFailed, 1).await;
    bench.stop();
    bench.restart().await;
    bench.advance(10);
    assert_eq!(receiver.next().await.body["attempts"], 2);
}

#[tokio::test]
async fn only_the_owner_sets_one_and_only_on_public_https() {
    let bench = Bench::start_strict(Plans::default()).await;
    bench.ana.announce(CLOSE, json!({})).await.is(201);
    let url = "https://hooks.acme.example/redsyn";
    bench.beto.put(&path(CLOSE), json!({"url": url})).await.refused(403);
    bench.dora.put(&path(CLOSE), json!({"url": url})).await.refused(404);
    bench.ana.put(&path("acme/finance/ana/none"), json!({"url": url})).await.refused(404);
    let delete = bench.beto.request(reqwest::Method::DELETE, &path(CLOSE));
    bench.beto.send_request(delete).await.refused(403);
    for wrong in [
        json!({}),
        json!({"url": 5}),
        json!({"url": "http://hooks.acme.example/"}),
        json!({"url": "https://127.0.0.1/"}),
        json!({"url": "https://2130706433/"}),
        json!({"url": "https://[::ffff:169.254.169.254]/"}),
        json!({"url": "https://localhost/"}),
        json!({"url": "https://user@hooks.acme.example/"}),
        json!({"url": "https://hooks.acme.example:25/"}),
    ] {
        bench.ana.put(&path(CLOSE), wrong).await.refused(422);
    }
    assert_eq!(bench.ana.put(&path(CLOSE), json!({"url": url})).await.is(200)["url"], url);
    bench.ana.get(&path(CLOSE)).await.refused(405);
}

#[tokio::test]
async fn the_plan_counts_webhooks() {
    let bench = Bench::start().await;
    let url = json!({"url": "https://hooks.solo.example/"});
    for agent in ["a", "b"] {
        bench.fede.announce(&format!("solo/general/fede/{agent}"), json!({})).await.is(201);
    }
    let hook = |agent: &str| path(&format!("solo/general/fede/{agent}"));
    bench.fede.put(&hook("a"), url.clone()).await.is(200);
    bench.fede.put(&hook("a"), url.clone()).await.is(200);
    assert_eq!(bench.fede.put(&hook("b"), url.clone()).await.is(403)["quota"], true);
    let removed = bench.fede.request(reqwest::Method::DELETE, &hook("a"));
    bench.fede.send_request(removed).await.is(200);
    bench.fede.put(&hook("b"), url).await.is(200);
}
