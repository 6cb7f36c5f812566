//! Messages on their way out: retried under one id, failed once, expired in time.

use std::time::Duration;

use redsyn_bridge::bridge::events::Event;
use redsyn_bridge::domain::delivery::Status;
use redsyn_bridge::proto::dsh::names::Party;
use redsyn_bridge::proto::dsh::v1::envelope::Kind;
use serde_json::{Value, json};

use super::relay::Say;
use super::world::{CLOSE, NOW, World, answer, body_of, close, json_text, now, request, text_of, unsigned};

const MINUTE: Duration = Duration::from_secs(61);

#[tokio::test]
async fn a_request_goes_signed_and_what_the_relay_says_is_kept() {
    let mut world = World::new().await;
    world.send(request("m1")).await;
    assert!(!world.accepted("m1").await, "nobody has given a key to seal for");
    let envelope = world.posted().remove(0);
    assert_eq!(envelope["from"], "acme/finance/ana/close");
    assert_eq!(envelope["to"], "globex/erp/bob/billing");
    assert_eq!(envelope["body"], json!({"type": "text/plain", "text": "what of m1?"}));
    assert!(envelope.get("thread").is_none() && envelope.get("ttl").is_none());
    world.assert_signed(&envelope, NOW);
    world.assert_status("m1", Status::Leased).await;
    let call = world.relay.calls("POST /messages").remove(0);
    assert_eq!(call.headers["authorization"], "Bearer the-token");
    assert_eq!(call.headers["redsyn-version"], "2026-09-25");
}

#[tokio::test]
async fn every_try_has_the_same_id_and_a_signature_of_its_own() {
    let mut world = World::new().await;
    let script = [
        Say::error(503, "away"),
        Say::error(429, "slower"),
        Say::HangUp,
        Say::ObeyAndHangUp,
        Say::Text(201, "<html>".into()),
        Say::Text(307, "".into()),
        Say::error(408, "slow"),
    ];
    let tries = script.len();
    script.into_iter().for_each(|say| world.relay.script("POST /messages", say));
    world.send(request("m1")).await;
    for _ in 0..tries {
        world.postponed("m1").await;
        world.assert_status("m1", Status::Queued).await;
        world.clock.advance(MINUTE);
    }
    world.accepted("m1").await;
    let posted = world.posted();
    assert_eq!(posted.len(), tries + 1);
    for (at, envelope) in posted.iter().enumerate() {
        assert_eq!(envelope["id"], "m1");
        world.assert_signed(envelope, NOW.plus(MINUTE * u32::try_from(at).unwrap()));
    }
    let mut values: Vec<&Value> = posted.iter().map(|envelope| &envelope["sig"]["value"]).collect();
    values.dedup();
    assert_eq!(values.len(), tries + 1, "each at its own time");
    assert!(world.inbox().await.is_empty(), "nobody is told of tries");
}

#[tokio::test]
async fn a_restart_in_the_middle_sends_the_same_message_on() {
    let mut world = World::new().await;
    world.relay.script("POST /messages", Say::ObeyAndHangUp);
    world.send(request("m1")).await;
    world.postponed("m1").await;
    let stopped = world.stopped().await;
    stopped.clock.advance(MINUTE);
    let mut world = stopped.started();
    world.accepted("m1").await;
    let ids: Vec<Value> = world.posted().into_iter().map(|envelope| envelope["id"].clone()).collect();
    assert_eq!(ids, ["m1", "m1"]);
}

#[tokio::test]
async fn a_relay_is_left_alone_as_long_as_it_asks() {
    let mut world = World::new().await;
    let busy = json!({"error": "slower", "status": 429});
    world.relay.script("POST /messages", Say::Limited(429, busy, "600"));
    world.send(request("m1")).await;
    world.postponed("m1").await;
    world.clock.advance(Duration::from_secs(599));
    // Another message shows that the pump has looked.
    world.send(request("m2")).await;
    world.accepted("m2").await;
    assert_eq!(world.posted().len(), 2);
    world.clock.advance(Duration::from_secs(1));
    world.accepted("m1").await;
}

#[tokio::test]
async fn a_quota_fails_at_once_with_one_notice() {
    let mut world = World::new().await;
    let quota = json!({"error": "the plan's messages of the day are used up", "status": 429, "quota": true});
    world.relay.script("POST /messages", Say::Json(429, quota));
    world.send(request("m1")).await;
    assert_eq!(world.failed("m1").await, "quota");
    world.assert_status("m1", Status::Failed).await;
    let inbox = world.inbox().await;
    let [notice] = inbox.as_slice() else { panic!("{inbox:?}") };
    assert_eq!(notice.id.as_str(), "undelivered:m1");
    assert_eq!((notice.kind, notice.from.as_str()), (Kind::Reply, "bob"));
    let why = "not delivered: the plan's messages of the day are used up";
    assert_eq!(body_of(notice), json!({"error": why, "code": "quota"}));
    assert_eq!(text_of(&notice.parent_id).as_deref(), Some("m1"));
    assert_eq!(text_of(&notice.reply_to).as_deref(), Some("m1"));
    assert_eq!(notice.redsyn.as_ref().unwrap()["error"], true);

    let world = world.restarted().await;
    world.up().await;
    assert_eq!(world.inbox_ids().await, ["undelivered:m1"]);
    assert_eq!(world.posted().len(), 1, "a quota is never asked again");
}

#[tokio::test]
async fn each_refusal_has_its_word() {
    let mut world = World::new().await;
    for (status, code) in [
        (400, "unsupported_version"),
        (403, "forbidden"),
        (409, "conflict"),
        (413, "too_large"),
        (422, "bad_request"),
        (451, "forbidden"),
    ] {
        let id = format!("m{status}");
        world.relay.script("POST /messages", Say::error(status, "no"));
        world.send(request(&id)).await;
        assert_eq!(world.failed(&id).await, code, "{status}");
        world.assert_status(&id, Status::Failed).await;
    }
}

#[tokio::test]
async fn what_expires_here_is_told_when_it_does() {
    let mut world = World::new().await;
    let busy = json!({"error": "come back in a year", "status": 503});
    world.relay.script("POST /messages", Say::Limited(503, busy, "31536000"));
    let mut short = request("m1");
    short.redsyn = Some(json!({"ttl": 90}));
    world.send(short).await;
    world.postponed("m1").await;
    world.clock.advance(Duration::from_secs(89));
    world.send(request("m2")).await;
    world.accepted("m2").await;
    assert!(world.inbox().await.is_empty());
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(world.failed("m1").await, "expired");
    assert_eq!(body_of(&world.inbox().await[0])["code"], "expired");
    assert_eq!(world.posted().len(), 2, "nothing is sent after its time");
}

#[tokio::test]
async fn the_relay_is_given_what_is_left_of_the_time() {
    let mut world = World::new().await;
    world.relay.script("POST /messages", Say::error(503, "away"));
    let mut short = request("m1");
    short.redsyn = Some(json!({"ttl": 100}));
    world.send(short).await;
    world.postponed("m1").await;
    world.clock.advance(Duration::from_secs(60));
    world.accepted("m1").await;
    let ttls: Vec<Value> = world.posted().into_iter().map(|envelope| envelope["ttl"].clone()).collect();
    assert_eq!(ttls, [100, 40]);
}

#[tokio::test]
async fn a_conversation_keeps_its_order_and_others_do_not_wait() {
    let mut world = World::new().await;
    world.relay.script("POST /messages", Say::error(503, "away"));
    world.send(request("m1")).await;
    world.postponed("m1").await;
    world.send(answer("m2", "m1", Kind::Request)).await;
    world.send(request("other")).await;
    world.accepted("other").await;
    world.clock.advance(MINUTE);
    world.accepted("m2").await;
    let order: Vec<Value> = world.posted().into_iter().map(|envelope| envelope["id"].clone()).collect();
    assert_eq!(order, ["m1", "other", "m1", "m2"]);
    assert_eq!(world.posted()[3]["thread"], "m1");
}

#[tokio::test]
async fn a_reply_goes_out_in_its_session_and_ends_there() {
    let mut world = World::new().await;
    world.relay.deliver(CLOSE, [Value::Object(unsigned("q1"))]);
    world.delivered("q1").await;
    world.send(answer("r1", "q1", Kind::Reply)).await;
    world.accepted("r1").await;
    let envelope = world.posted().remove(0);
    assert_eq!(envelope["kind"], "reply");
    assert_eq!((&envelope["reply_to"], &envelope["thread"]), (&json!("q1"), &json!("t1")));
    assert_eq!(envelope["from"], "acme/finance/ana/close#s4");
    assert!(envelope.get("to").is_none(), "`to` is not used in a reply");
    world.assert_status("r1", Status::Done).await;
}

#[tokio::test]
async fn an_odd_id_travels_as_its_hash_and_its_answer_comes_back_to_it() {
    let mut world = World::new().await;
    let odd = "../ñ 😀?#%2F\n";
    world.send(request(odd)).await;
    let envelope = world.posted_times(1).await.remove(0);
    let travelled = envelope["id"].as_str().unwrap().to_owned();
    assert_eq!(travelled.len(), 65);
    let mut reply = unsigned("r1");
    reply.insert("kind".into(), json!("reply"));
    reply.insert("reply_to".into(), json!(travelled));
    world.relay.deliver(CLOSE, [Value::Object(reply)]);
    world.delivered("r1").await;
    assert_eq!(text_of(&world.inbox().await[0].parent_id).as_deref(), Some(odd));
    world.assert_status(odd, Status::Done).await;
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_its_message_and_rings_all_the_same() {
    let mut world = World::new().await;
    world.up().await;
    {
        let sending = world.try_send(request("m1"));
        tokio::pin!(sending);
        assert!(futures_util::poll!(&mut sending).is_pending());
    }
    world.accepted("m1").await;
}

#[tokio::test]
async fn the_same_message_again_is_a_duplicate() {
    let mut world = World::new().await;
    world.send(request("m1")).await;
    world.accepted("m1").await;
    assert!(world.try_send(request("m1")).await.unwrap().duplicate);
    world.send(request("m2")).await;
    world.accepted("m2").await;
    assert_eq!(world.posted().len(), 2);
}

#[tokio::test]
async fn what_cannot_travel_is_refused_and_not_kept() {
    let world = World::new().await;
    let with = |body: Value, redsyn: Option<Value>| {
        let mut message = request("m1");
        message.body = json_text(&body);
        message.redsyn = redsyn;
        world.try_send(message)
    };
    let too_large = with(json!({"text": "x"}), Some(json!({"refs": [{"url": "x".repeat(50_000)}]})));
    let too_large = too_large.await.unwrap_err();
    assert_eq!(too_large.status(), 413);
    let nested = (0..120).fold(json!(1), |inner, _| json!([inner]));
    assert_eq!(with(nested, None).await.unwrap_err().status(), 400);
    for redsyn in [json!({"ttl": "soon"}), json!({"encrypt": "perhaps"}), json!({"files": ["x"]})] {
        assert_eq!(with(json!({"text": "hi"}), Some(redsyn)).await.unwrap_err().status(), 400);
    }
    let mut stranger = request("m1");
    stranger.from = Party::new("shout");
    assert_eq!(world.try_send(stranger).await.unwrap_err().status(), 403);
    let stopped = world.stopped().await;
    let store = stopped.store();
    let lines = store.status(close(), vec!["m1".into()]).await.unwrap();
    assert_eq!(lines[0].1, None);
}

#[tokio::test]
async fn many_messages_all_arrive_once() {
    let mut world = World::new().await;
    for n in 0..100 {
        world.send(request(&format!("m{n}"))).await;
    }
    for _ in 0..100 {
        world.event(|event| matches!(event, Event::Accepted { .. }).then_some(())).await;
    }
    let mut ids: Vec<String> =
        world.posted().iter().map(|envelope| envelope["id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), world.posted().len()), (100, 100));
    assert_eq!(now(&world.clock), NOW);
}

#[tokio::test]
async fn an_id_that_went_to_somebody_else_before_is_a_conflict() {
    let mut world = World::new().await;
    let first = json!({"id": "m1", "thread": "t0", "to": "globex/erp/eva/audit#s1", "duplicate": true});
    world.relay.script("POST /messages", Say::Json(200, first));
    world.send(request("m1")).await;
    assert_eq!(world.failed("m1").await, "conflict");
    assert_eq!(body_of(&world.inbox().await[0])["code"], "conflict");
}
