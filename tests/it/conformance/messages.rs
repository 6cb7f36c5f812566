//! «El sobre», «Mensajes» and what «Entrega» says of them.

use redsyn_bridge::crypto::{base64url, sha256};
use serde_json::{Value, json};

use super::relay::{Relay, done, refused};
use crate::support::redsyn::{fields, ids, text, with};

#[tokio::test]
async fn a_request_opens_a_thread_with_its_own_id_and_arrives_whole() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    let refs = json!([{"url": "https://git.acme.example/app", "note": "at 4f2c1d"}]);
    let sent =
        relay.beto.send(&with(relay.request("m1", &asker, &asked), json!({"refs": refs}))).await.is(201);
    assert_eq!((&sent["id"], &sent["thread"]), (&json!(relay.name("m1")), &json!(relay.name("m1"))));
    assert_eq!(sent["signed"], false);
    let to = sent["to"].as_str().unwrap();
    assert!(to.starts_with(&format!("{asked}#")), "with the session: {to}");
    let item = &relay.ana.take(&asked).await[0];
    for (field, value) in [
        ("v", json!(1)),
        ("id", json!(relay.name("m1"))),
        ("kind", json!("request")),
        ("from", json!(asker)),
        ("to", json!(to)),
        ("thread", json!(relay.name("m1"))),
        ("body", text("hi")),
        ("refs", refs),
        ("attempts", json!(1)),
    ] {
        assert_eq!(item[field], value, "{field}");
    }
    assert!(item.get("expires").is_some() && item["signed"] == false);
}

#[tokio::test]
async fn the_same_id_again_is_the_first_message() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.asks("m1").await;
    for retry in [
        relay.request("m1", &asker, &asked),
        with(relay.request("m1", &asker, &asked), json!({"body": text("something else")})),
    ] {
        let again = done(relay.beto.send(&retry).await);
        assert_eq!((&again["id"], &again["duplicate"]), (&json!(relay.name("m1")), &json!(true)));
    }
    let items = relay.ana.take(&asked).await;
    assert_eq!((items.len(), &items[0]["body"]), (1, &text("hi")));
    refused(relay.ana.send(&relay.request("m1", &asked, &asker)).await, 409);
}

#[tokio::test]
async fn without_an_id_the_relay_makes_one() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    let mut bare = relay.request("x", &asker, &asked);
    fields(&mut bare).remove("id");
    let (one, two) = (relay.beto.send(&bare).await.is(201), relay.beto.send(&bare).await.is(201));
    assert_ne!(one["id"], two["id"]);
    assert_eq!(relay.ana.take(&asked).await.len(), 2);
}

#[tokio::test]
async fn from_is_one_of_your_agents() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    refused(relay.beto.send(&relay.request("m1", &asked, &asker)).await, 403);
    refused(relay.dora.send(&relay.request("m1", &asked, &asker)).await, 404);
    refused(relay.beto.send(&relay.request("m1", "cli", &asked)).await, 422);
}

#[tokio::test]
async fn to_is_an_agent_in_full_or_short() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    let name = relay.name("close");
    let user = relay.ana.user();
    for (at, to) in [asked.clone(), format!("{user}/{name}"), format!("{}/{user}/{name}", relay.ana.team())]
        .iter()
        .enumerate()
    {
        let sent = relay.beto.send(&relay.request(&format!("m{at}"), &asker, to)).await.is(201);
        assert!(sent["to"].as_str().unwrap().starts_with(&asked));
    }
    let unknown = relay.agent(&relay.ana, "nobody");
    for (wrong, ours) in [(unknown.as_str(), 404), ("a/b/c/d/e", 422), ("Ana/close", 422)] {
        refused(relay.beto.send(&relay.request("m9", &asker, wrong)).await, ours);
    }
}

#[tokio::test]
async fn a_wrong_shape_is_refused() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    for wrong in [
        json!({"kind": "Request"}),
        json!({"kind": null}),
        json!({"id": 5}),
        json!({"to": null}),
        json!({"thread": 5}),
        json!({"ts": "now"}),
        json!({"ttl": -5}),
        json!({"body": null}),
        json!({"body": "hi"}),
        json!({"body": {"type": "text/html", "text": "hi"}}),
        json!({"refs": "u"}),
        json!({"files": {"zip": "***"}}),
        json!({"kind": "reply", "to": null}),
    ] {
        refused(relay.beto.send(&with(relay.request("m1", &asker, &asked), wrong)).await, 422);
    }
    assert!(relay.ana.take(&asked).await.is_empty());
}

#[tokio::test]
async fn a_body_has_up_to_64_kb() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    let body = |bytes: usize| json!({"body": text(&"x".repeat(bytes))});
    relay.beto.send(&with(relay.request("m1", &asker, &asked), body(60_000))).await.is(201);
    refused(relay.beto.send(&with(relay.request("m2", &asker, &asked), body(70_000))).await, 413);
}

#[tokio::test]
async fn json_bodies_arrive_as_they_were() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    let body =
        json!({"type": "application/json", "data": {"z": 1.5, "a": [1000.0, null, true], "ñ": "😀\u{0}"}});
    relay.beto.send(&with(relay.request("m1", &asker, &asked), json!({"body": body}))).await.is(201);
    assert_eq!(relay.ana.take(&asked).await[0]["body"], body);
}

#[tokio::test]
async fn a_reply_closes_its_request_and_progress_does_not() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.asks("m1").await;
    relay.ana.take(&asked).await;
    relay.ana.send(&relay.answer("progress", "p1", &asked, "m1")).await.is(201);
    relay.ana.send(&with(relay.answer("reply", "r1", &asked, "m1"), json!({"error": true}))).await.is(201);
    let back = relay.beto.take(&asker).await;
    assert_eq!(ids(&back), [relay.name("p1"), relay.name("r1")]);
    for item in &back {
        assert_eq!(
            (&item["reply_to"], &item["thread"]),
            (&json!(relay.name("m1")), &json!(relay.name("m1")))
        );
        assert!(item["from"].as_str().unwrap().starts_with(&asked));
    }
    assert_eq!(back[1]["error"], true);
    for kind in ["progress", "reply"] {
        refused(relay.ana.send(&relay.answer(kind, "late", &asked, "m1")).await, 409);
    }
    assert!(relay.ana.take(&asked).await.is_empty(), "the reply confirmed its request");
}

#[tokio::test]
async fn only_whoever_was_asked_answers() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.asks("m1").await;
    let other = relay.listening(&relay.ana, "other", json!({})).await;
    refused(relay.ana.send(&relay.answer("reply", "r1", &other, "m1")).await, 404);
    refused(relay.beto.send(&relay.answer("reply", "r1", &asker, "m1")).await, 404);
    refused(relay.ana.send(&relay.answer("reply", "r1", &asked, "m0")).await, 404);
    relay.ana.send(&relay.answer("reply", "r1", &asked, "m1")).await.is(201);
}

#[tokio::test]
async fn a_reply_returns_to_the_session_that_asked() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    relay.ana.send(&relay.request("q0", &asked, &asker)).await.is(201);
    let session = relay.beto.take(&asker).await[0]["to"].as_str().unwrap().to_owned();
    relay.beto.send(&relay.request("m1", &session, &asked)).await.is(201);
    relay.ana.send(&relay.answer("reply", "r1", &asked, "m1")).await.is(201);
    let back = relay.beto.take_with(&asker, &format!("reply_to={}", relay.name("m1"))).await;
    assert_eq!(back[0]["to"], session);
}

#[tokio::test]
async fn files_are_fetched_apart_and_stay_until_they_are_delivered() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    let zip = b"PK\x03\x04 not a real zip".to_vec();
    let files = json!({"files": {"zip": base64url::zip_encode(&zip)}});
    relay.beto.send(&with(relay.request("m1", &asker, &asked), files)).await.is(201);
    let item = &relay.ana.take(&asked).await[0];
    assert_eq!(item["files"], json!({"bytes": zip.len(), "sha256": sha256::hex(&zip)}));
    let path = format!("/messages/{}/files", relay.name("m1"));
    for reader in [&relay.ana, &relay.beto] {
        assert_eq!(done(reader.get(&path).await)["zip"], base64url::zip_encode(&zip));
    }
    refused(relay.dora.get(&path).await, 404);
    relay.ana.ack(&asked, &[&relay.name("m1")]).await;
    refused(relay.ana.get(&path).await, 404);
}

#[tokio::test]
async fn files_have_up_to_5_mb() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    let zip = |mb: f64| {
        let bytes = vec![b'P'; (mb * 1_048_576.0) as usize];
        json!({"files": {"zip": base64url::zip_encode(&bytes)}})
    };
    relay.beto.send(&with(relay.request("m1", &asker, &asked), zip(4.9))).await.is(201);
    refused(relay.beto.send(&with(relay.request("m2", &asker, &asked), zip(5.1))).await, 413);
    relay.ana.take(&asked).await;
    relay.ana.ack(&asked, &[&relay.name("m1")]).await;
}

#[tokio::test]
async fn a_request_nobody_took_can_be_withdrawn() {
    let relay = Relay::start().await;
    let (asked, _) = relay.asks("m1").await;
    let cancel = format!("/messages/{}/cancel", relay.name("m1"));
    refused(relay.dora.post(&cancel, json!({})).await, 404);
    done(relay.beto.post(&cancel, json!({})).await);
    assert!(relay.ana.take(&asked).await.is_empty());
    refused(relay.ana.send(&relay.answer("reply", "r1", &asked, "m1")).await, 409);
    relay.asks("m2").await;
    relay.ana.take(&asked).await;
    refused(relay.beto.post(&format!("/messages/{}/cancel", relay.name("m2")), json!({})).await, 409);
}

#[tokio::test]
async fn a_thread_shows_each_person_their_part() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.asks("m1").await;
    relay.ana.send(&relay.answer("reply", "r1", &asked, "m1")).await.is(201);
    let aside = with(relay.request("a1", &asked, &asked), json!({"thread": relay.name("m1")}));
    relay.ana.send(&aside).await.is(201);
    let path = format!("/threads/{}", relay.name("m1"));
    let shown = async |node: &crate::support::redsyn::Node| done(node.get(&path).await).to_string();
    let (anas, betos): (String, String) = (shown(&relay.ana).await, shown(&relay.beto).await);
    for id in ["m1", "r1"] {
        assert!(anas.contains(&relay.name(id)) && betos.contains(&relay.name(id)));
    }
    assert!(anas.contains(&relay.name("a1")) && !betos.contains(&relay.name("a1")));
    refused(relay.dora.get(&path).await, 404);
    assert!(!asker.is_empty());
}

/// Short, so that the case takes a second of real time; nobody else calls meanwhile.
#[tokio::test]
async fn what_expires_without_being_taken_is_told_to_its_sender() {
    let relay = Relay::start().await;
    let (asked, asker) = relay.pair().await;
    relay.beto.send(&with(relay.request("m1", &asker, &asked), json!({"ttl": 1}))).await.is(201);
    let told = relay.beto.take_with(&asker, &format!("wait=25&reply_to={}", relay.name("m1"))).await;
    let expected: Value = json!(format!("not delivered: it expired before {asked} took it"));
    assert_eq!((&told[0]["body"]["text"], &told[0]["error"]), (&expected, &json!(true)));
    assert_eq!((&told[0]["kind"], &told[0]["signed"]), (&json!("reply"), &json!(false)));
    assert!(relay.ana.take(&asked).await.is_empty());
}
