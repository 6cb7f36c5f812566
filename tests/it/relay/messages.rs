//! Sending: requests, progress and replies, threads and sessions, files, cancelling, and what is refused.

use redsyn_bridge::crypto::{base64url, sha256};
use serde_json::{Value, json};

use super::target::{Bench, answer, ids, request, sealed_body, text, with};

const CLI: &str = "acme/general/beto/cli";
const CLOSE: &str = "acme/general/ana/close";

async fn pair() -> Bench {
    let bench = Bench::start().await;
    bench.ana.announce(CLOSE, json!({})).await.is(201);
    bench.beto.announce(CLI, json!({})).await.is(201);
    bench
}

#[tokio::test]
async fn a_request_and_its_reply() {
    let bench = pair().await;
    let sent = bench
        .beto
        .send(&with(request("m1", CLI, "ana/close"), json!({"refs": [{"url": "u"}]})))
        .await
        .is(201);
    assert_eq!(sent, json!({"id": "m1", "thread": "m1", "to": format!("{CLOSE}#s1"), "signed": false}));
    let taken = bench.ana.take(CLOSE).await;
    let expected = json!({
        "v": 1, "id": "m1", "kind": "request", "from": CLI, "to": format!("{CLOSE}#s1"), "thread": "m1",
        "reply_to": null, "ts": super::target::NOW, "ttl": 86400, "body": text("hi"), "refs": [{"url": "u"}],
        "files": null, "error": false, "sig": null, "signed": false,
        "expires": super::target::NOW + 86400, "attempts": 1,
    });
    assert_eq!(taken, [expected]);
    let progress = answer("progress", "p1", CLOSE, "m1");
    assert_eq!(bench.ana.send(&progress).await.is(201)["to"], CLI);
    bench.ana.send(&answer("reply", "r1", CLOSE, "m1")).await.is(201);
    let back = bench.beto.take(CLI).await;
    assert_eq!(ids(&back), ["p1", "r1"]);
    for item in &back {
        assert_eq!(item["from"], format!("{CLOSE}#s1"));
        assert_eq!(
            (&item["to"], &item["thread"], &item["reply_to"]),
            (&json!(CLI), &json!("m1"), &json!("m1"))
        );
    }
    assert!(bench.ana.take(CLOSE).await.is_empty(), "the reply confirmed its request");
}

#[tokio::test]
async fn a_confirmed_request_can_still_be_answered() {
    let bench = pair().await;
    bench.beto.send(&request("m1", CLI, CLOSE)).await.is(201);
    bench.ana.take(CLOSE).await;
    bench.ana.ack(CLOSE, &["m1"]).await;
    bench.ana.send(&answer("reply", "r1", CLOSE, "m1")).await.is(201);
    assert_eq!(bench.beto.take_ids(CLI).await, ["r1"]);
}

#[tokio::test]
async fn only_whoever_was_asked_answers() {
    let bench = pair().await;
    bench.ana.announce("acme/general/ana/other", json!({})).await.is(201);
    bench.caro.announce("acme/general/caro/cli", json!({})).await.is(201);
    bench.beto.send(&request("m1", CLI, CLOSE)).await.is(201);
    let foreign = bench.caro.send(&answer("reply", "r1", "acme/general/caro/cli", "m1")).await.refused(404);
    let missing = bench.caro.send(&answer("reply", "r1", "acme/general/caro/cli", "m0")).await.refused(404);
    assert_eq!(foreign.replace("m1", "ID"), missing.replace("m0", "ID"));
    bench.ana.send(&answer("reply", "r1", "acme/general/ana/other", "m1")).await.refused(404);
    bench.caro.send(&answer("reply", "r1", CLOSE, "m1")).await.refused(403);
    bench.ana.send(&answer("reply", "r1", CLOSE, "m1")).await.is(201);
    bench.beto.send(&answer("reply", "r2", CLI, "r1")).await.refused(404);
}

#[tokio::test]
async fn the_same_id_again_is_the_first_message() {
    let bench = pair().await;
    let first = bench.beto.send(&request("m1", CLI, CLOSE)).await.is(201);
    for retry in [
        request("m1", CLI, CLOSE),
        with(request("m1", CLI, CLOSE), json!({"body": text("something else")})),
        with(request("m1", CLI, CLOSE), json!({"body": "no body at all"})),
        with(request("m1", CLI, "nobody/nothing"), json!({"sig": {"alg": "none"}})),
    ] {
        let again = bench.beto.send(&retry).await.is(201);
        assert_eq!(again, with(first.clone(), json!({"duplicate": true})));
    }
    let items = bench.ana.take(CLOSE).await;
    assert_eq!((items.len(), &items[0]["body"]), (1, &text("hi")));
    bench.ana.send(&request("m1", CLOSE, CLI)).await.refused(409);
    bench.ana.send(&with(request("m1", CLOSE, CLI), json!({"body": 5}))).await.refused(409);
}

#[tokio::test]
async fn what_is_left_out_is_filled_in() {
    let bench = pair().await;
    let mut bare = request("x", CLI, CLOSE);
    super::target::fields(&mut bare).remove("id");
    let (one, two) = (bench.beto.send(&bare).await.is(201), bench.beto.send(&bare).await.is(201));
    assert_ne!(one["id"], two["id"]);
    assert_eq!(one["thread"], one["id"]);
    let mut nulls = bare.clone();
    for field in ["id", "thread", "reply_to", "ts", "ttl", "refs", "files", "error", "sig"] {
        nulls[field] = Value::Null;
    }
    bench.beto.send(&nulls).await.is(201);
    assert_eq!(bench.ana.take(CLOSE).await.len(), 3);
}

#[tokio::test]
async fn a_wrong_shape_is_422_and_too_much_413() {
    let bench = pair().await;
    let zip = |bytes: usize| json!({"files": {"zip": base64url::zip_encode(&vec![0; bytes])}});
    let wrong = [
        (json!({"v": 2}), 422),
        (json!({"v": null}), 422),
        (json!({"v": "1"}), 422),
        (json!({"kind": "Request"}), 422),
        (json!({"kind": null}), 422),
        (json!({"id": 5}), 422),
        (json!({"id": "x".repeat(201)}), 422),
        (json!({"from": "close"}), 422),
        (json!({"from": "topic:acme/general/x"}), 422),
        (json!({"from": format!("{CLI}#new")}), 422),
        (json!({"to": null}), 422),
        (json!({"to": "a/b/c/d/e"}), 422),
        (json!({"to": "Ana/close"}), 422),
        (json!({"to": "topic:general/x"}), 422),
        (json!({"kind": "event"}), 422),
        (json!({"kind": "reply", "to": null}), 422),
        (json!({"thread": "x".repeat(201)}), 422),
        (json!({"thread": 5}), 422),
        (json!({"ts": "now"}), 422),
        (json!({"ttl": 0}), 422),
        (json!({"ttl": -5}), 422),
        (json!({"ttl": 1.5}), 422),
        (json!({"body": null}), 422),
        (json!({"body": "hi"}), 422),
        (json!({"body": {"type": "text/html", "text": "hi"}}), 422),
        (json!({"body": {"type": "application/redsyn+encrypted"}}), 422),
        (json!({"refs": ["u"]}), 422),
        (json!({"error": "no"}), 422),
        (json!({"files": {}}), 422),
        (json!({"files": {"zip": "***"}}), 422),
        (json!({"body": text(&"x".repeat(65_536))}), 413),
        (json!({"refs": [{"note": "x".repeat(65_536)}]}), 413),
        (zip(5 * 1024 * 1024 + 1), 413),
    ];
    for (fields, status) in wrong {
        bench.beto.send(&with(request("m1", CLI, CLOSE), fields)).await.refused(status);
    }
    bench.beto.send(&with(request("m1", CLI, CLOSE), zip(5 * 1024 * 1024))).await.is(201);
}

#[tokio::test]
async fn from_must_be_an_announced_agent_of_ones_own() {
    let bench = pair().await;
    bench.beto.send(&request("m1", "acme/general/beto/new", CLOSE)).await.refused(404);
    bench.beto.send(&request("m1", CLOSE, CLI)).await.refused(403);
    let foreign = bench.dora.send(&request("m1", CLOSE, CLI)).await.refused(404);
    let missing = bench.dora.send(&request("m1", "acme/general/ana/none", CLI)).await.refused(404);
    assert_eq!(foreign.replace("close", "AGENT"), missing.replace("none", "AGENT"));
    bench.beto.send(&request("m1", CLI, "acme/general/ana/none")).await.refused(404);
}

#[tokio::test]
async fn policies_are_asked_before_anything_is_kept() {
    let bench = pair().await;
    let finance = "acme/finance/ana/books";
    bench.ana.announce(finance, json!({})).await.is(201);
    bench.caro.announce("acme/ops/caro/cli", json!({})).await.is(201);
    let from_caro = request("c1", "acme/ops/caro/cli", finance);
    let refused = bench.caro.send(&from_caro).await.refused(403);
    assert_eq!(refused, format!("{finance} takes requests only from team finance"));
    // The team is the person's, not the one in `from`.
    bench.beto.send(&request("b1", CLI, finance)).await.is(201);
    bench.ana.send(&request("a1", CLOSE, finance)).await.is(201);
    bench.ana.announce(finance, json!({"allow": ["caro"]})).await.is(200);
    bench.caro.send(&from_caro).await.is(201);
    let refused = bench.beto.send(&request("b2", CLI, finance)).await.refused(403);
    assert_eq!(refused, format!("{finance} takes requests only from caro"));
    bench.ana.announce(finance, json!({"allow": ["org"], "signed_only": true})).await.is(200);
    let refused = bench.beto.send(&request("b2", CLI, finance)).await.refused(403);
    assert_eq!(refused, format!("{finance} takes only signed requests"));
    bench.ana.announce(finance, json!({"allow": ["org"], "encrypted_only": true})).await.is(200);
    let refused = bench.beto.send(&request("b2", CLI, finance)).await.refused(403);
    assert_eq!(refused, format!("{finance} takes only encrypted requests"));
    bench.beto.send(&with(request("b2", CLI, finance), json!({"body": sealed_body()}))).await.is(201);
    assert_eq!(bench.ana.take_ids(finance).await, ["b1", "a1", "c1", "b2"]);
}

#[tokio::test]
async fn threads_fall_into_their_session_and_new_forces_one() {
    let bench = pair().await;
    let to = async |id: &str, fields: Value| {
        let sent = bench.beto.send(&with(request(id, CLI, CLOSE), fields)).await.is(201);
        sent["to"].as_str().unwrap().split_once('#').unwrap().1.to_owned()
    };
    assert_eq!(to("m1", json!({})).await, "s1");
    assert_eq!(to("m2", json!({})).await, "s2");
    assert_eq!(to("m3", json!({"thread": "m1"})).await, "s1");
    assert_eq!(to("m4", json!({"to": format!("{CLOSE}#new")})).await, "s3");
    assert_eq!(to("m5", json!({"to": "ana/close#s2"})).await, "s2");
    assert_eq!(to("m6", json!({"thread": "m1", "to": format!("{CLOSE}#new")})).await, "s4");
    assert_eq!(to("m7", json!({"thread": "m1"})).await, "s4", "the thread has moved");
    for unknown in ["s9", "s01", "main"] {
        let wrong = json!({"to": format!("{CLOSE}#{unknown}")});
        bench.beto.send(&with(request("m8", CLI, CLOSE), wrong)).await.refused(404);
    }
}

#[tokio::test]
async fn a_thread_shows_each_person_their_part() {
    let bench = pair().await;
    bench.caro.announce("acme/general/caro/cli", json!({})).await.is(201);
    bench.beto.send(&request("m1", CLI, CLOSE)).await.is(201);
    bench.ana.send(&answer("reply", "r1", CLOSE, "m1")).await.is(201);
    let sealed = json!({"thread": "m1", "body": sealed_body()});
    bench.caro.send(&with(request("c1", "acme/general/caro/cli", CLOSE), sealed)).await.is(201);
    let thread = async |node: &super::target::Node| {
        node.get("/threads/m1").await.is(200)["items"].as_array().unwrap().clone()
    };
    assert_eq!(ids(&thread(&bench.ana).await), ["m1", "r1", "c1"]);
    assert_eq!(ids(&thread(&bench.beto).await), ["m1", "r1"]);
    let caros = thread(&bench.caro).await;
    assert_eq!((ids(&caros), &caros[0]["encrypted"]), (vec!["c1".to_owned()], &json!(true)));
    bench.dora.get("/threads/m1").await.refused(404);
    bench.ana.get("/threads/m2").await.refused(404);
}

#[tokio::test]
async fn a_thread_is_whole_as_long_as_it_fits_into_one_answer() {
    let bench = pair().await;
    let shown = async |thread: &str| {
        ids(bench.ana.get(&format!("/threads/{thread}")).await.is(200)["items"].as_array().unwrap())
    };
    for (thread, length, count) in [("small", 1, 250), ("large", 65_000, 260)] {
        for number in 0..count {
            let fields = json!({"thread": thread, "body": text(&"x".repeat(length))});
            bench.beto.send(&with(request(&format!("{thread}{number}"), CLI, CLOSE), fields)).await.is(201);
        }
    }
    let small = shown("small").await;
    assert_eq!((small.len(), small[0].as_str()), (250, "small0"));
    let large = shown("large").await;
    assert!(large.len() < 260 && large.len() > 250, "{}", large.len());
    assert_eq!(large.last().unwrap(), "large259");
}

#[tokio::test]
async fn files_stay_until_they_are_delivered() {
    let bench = pair().await;
    let zip = b"PK\x03\x04 not a real zip".to_vec();
    let with_files = json!({"files": {"zip": base64url::zip_encode(&zip)}});
    bench.beto.send(&with(request("m/1 ñ", CLI, CLOSE), with_files)).await.is(201);
    let delivered = &bench.ana.take(CLOSE).await[0];
    assert_eq!(delivered["files"], json!({"bytes": zip.len(), "sha256": sha256::hex(&zip)}));
    let path = "/messages/m%2F1%20%C3%B1/files";
    for reader in [&bench.ana, &bench.beto, &bench.caro] {
        assert_eq!(reader.get(path).await.is(200)["zip"], base64url::zip_encode(&zip));
    }
    bench.dora.get(path).await.refused(404);
    bench.ana.get("/messages/none/files").await.refused(404);
    bench.ana.ack(CLOSE, &["m/1 ñ"]).await;
    bench.ana.get(path).await.refused(404);
    assert_eq!(std::fs::read_dir(bench.folder.path().join("relay-files")).unwrap().count(), 0);
}

#[tokio::test]
async fn refused_files_leave_nothing_behind() {
    let bench = pair().await;
    let with_files = json!({"files": {"zip": base64url::zip_encode(b"PK")}});
    bench
        .beto
        .send(&with(request("m1", CLI, "acme/general/ana/none"), with_files.clone()))
        .await
        .refused(404);
    bench.beto.send(&with(request("m1", CLI, CLOSE), with_files.clone())).await.is(201);
    bench.beto.send(&with(request("m1", CLI, CLOSE), with_files)).await.is(201);
    assert_eq!(std::fs::read_dir(bench.folder.path().join("relay-files")).unwrap().count(), 1);
}

#[tokio::test]
async fn a_request_nobody_took_can_be_cancelled() {
    let bench = pair().await;
    bench.beto.send(&request("m1", CLI, CLOSE)).await.is(201);
    bench.ana.post("/messages/m1/cancel", json!({})).await.refused(404);
    bench.dora.post("/messages/m1/cancel", json!({})).await.refused(404);
    for _ in 0..2 {
        bench.beto.post("/messages/m1/cancel", json!({})).await.is(200);
    }
    assert!(bench.ana.take(CLOSE).await.is_empty());
    bench.ana.get("/threads/m1").await.refused(404);
    bench.beto.get("/threads/m1").await.is(200);
    bench.ana.send(&answer("reply", "r1", CLOSE, "m1")).await.refused(409);
    bench.beto.send(&request("m2", CLI, CLOSE)).await.is(201);
    bench.ana.take_with(CLOSE, "lease=1").await;
    bench.advance(2);
    bench.beto.post("/messages/m2/cancel", json!({})).await.refused(409);
    bench.ana.send(&answer("reply", "r2", CLOSE, "m2")).await.is(201);
    bench.ana.post("/messages/r2/cancel", json!({})).await.refused(409);
    bench.beto.post("/messages/m2/cancel", json!({})).await.refused(409);
}

#[tokio::test]
async fn bodies_arrive_byte_for_byte() {
    let bench = pair().await;
    let raw = r#"{"v":1,"id":"m1","kind":"request","from":"acme/general/beto/cli","to":"ana/close","body":{"type":"application/json","data":{"z":1.50,"a":[1e3,-0.0,null],"ñ":"😀\u0000"},"extra":true}}"#;
    let call = bench.beto.request(reqwest::Method::POST, "/messages").body(raw);
    bench.beto.send_request(call).await.is(201);
    let sent: Value = serde_json::from_str(raw).unwrap();
    assert_eq!(bench.ana.take(CLOSE).await[0]["body"], sent["body"]);
}
