//! The second generation with a clock that is moved.

use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::{Value, json};

use super::auth::{Credentials, Request};
use super::lookup::RECENT;
use super::*;
use crate::broker::Service;
use crate::broker::carrier::NoCarrier;
use crate::broker::sweep;
use crate::crypto::hmac;
use crate::crypto::secret::Secret;
use crate::domain::clock::{Clock, ManualClock};
use crate::domain::random::SystemRandom;
use crate::proto::dsh::names::AgentName;
use crate::proto::dsh::v1;
use crate::proto::dsh::v2::signing::Signed;
use crate::store::sqlite::local::LocalStore;

const START: Timestamp = Timestamp::from_secs(1_700_000_000);

fn name(text: &str) -> Name {
    Name::of(text)
}

fn service(yaml: &str) -> (Service, ManualClock) {
    let config = Config::parse(&format!("broker:\n  secret: s\n{yaml}"), "config.yaml".as_ref()).unwrap();
    let clock = ManualClock::at(START);
    let service = Service::new(
        &config,
        Secret::new("s"),
        LocalStore::in_memory().unwrap(),
        Arc::new(clock.clone()),
        SystemRandom::shared(),
        Arc::new(NoCarrier),
        Wakeups::default(),
    );
    (service, clock)
}

async fn ask(service: &Service, from: &str, changes: &Value) -> Result<answer::Created, ApiError> {
    let mut body =
        json!({"origin": from, "target": "beta", "kind": "request", "body": "x", "idempotency_key": "k"});
    for (name, value) in changes.as_object().unwrap() {
        body[name] = value.clone();
    }
    let request = request::Create::parse(&body.to_string(), &name(from)).unwrap();
    service.v2.create(name(from), request).await
}

async fn pull(service: &Service, by: &str, body: Value) -> Vec<answer::Delivered> {
    let request = request::Pull::parse(&body.to_string(), &name(by)).unwrap();
    service.v2.pull(name(by), request).await.unwrap().messages
}

async fn statuses(service: &Service, by: &str, id: &DshId) -> String {
    let answer = service.v2.status(name(by), vec![id.to_string()]).await.unwrap();
    serde_json::to_value(answer).unwrap()["messages"][0]["status"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_held_pull_has_what_comes_back_when_a_lease_ends() {
    let (service, clock) = service("");
    ask(&service, "alpha", &json!({})).await.unwrap();
    assert_eq!(pull(&service, "beta", json!({"lease_seconds": 15})).await.len(), 1);
    let mut held = Box::pin(pull(&service, "beta", json!({"wait_seconds": 25})));
    assert!((&mut held).now_or_never().is_none());
    clock.advance(Duration::from_secs(15));
    let again = tokio::time::timeout(Duration::from_secs(30), held).await.unwrap();
    assert_eq!(again.len(), 1);
}

#[tokio::test]
async fn a_held_pull_is_answered_by_mail_by_its_end_or_by_a_stop() {
    let (service, clock) = service("");
    let mut held = Box::pin(pull(&service, "beta", json!({"wait_seconds": 25})));
    assert!((&mut held).now_or_never().is_none());
    tokio::time::timeout(Duration::from_secs(5), async {
        let plain = json!({});
        let (got, _) = tokio::join!(held, ask(&service, "alpha", &plain));
        assert_eq!(got.len(), 1);
        let end = async {
            clock.advance(Duration::from_secs(25));
        };
        let (got, ()) = tokio::join!(pull(&service, "beta", json!({"wait_seconds": 25})), end);
        assert!(got.is_empty());
        let stop = async { service.stopping.cancel() };
        let (got, ()) = tokio::join!(pull(&service, "gamma", json!({"wait_seconds": 25})), stop);
        assert!(got.is_empty());
    })
    .await
    .unwrap();
    assert_eq!(service.health().await.unwrap().counters, answer::Counters { messages_created: 1, pulls: 3 });
}

#[tokio::test]
async fn work_given_back_and_notices_wake_whoever_waits() {
    let (service, _) = service("  maxAttempts: 3\n");
    let id = ask(&service, "alpha", &json!({})).await.unwrap().message_id;
    let retry = async || {
        let body = json!({"message_id": id, "outcome": "retry"}).to_string();
        service.v2.ack(name("beta"), request::Ack::parse(&body, &name("beta")).unwrap()).await.unwrap();
    };
    tokio::time::timeout(Duration::from_secs(5), async {
        assert_eq!(pull(&service, "beta", json!({})).await.len(), 1);
        let (again, ()) = tokio::join!(pull(&service, "beta", json!({"wait_seconds": 25})), retry());
        assert_eq!(again.len(), 1);
        retry().await;
        let last = async {
            assert_eq!(pull(&service, "beta", json!({})).await.len(), 1);
            retry().await;
        };
        let (notices, ()) = tokio::join!(pull(&service, "alpha", json!({"wait_seconds": 25})), last);
        assert!(notices[0].body.starts_with("[Relay]"));
    })
    .await
    .unwrap();
    assert_eq!(statuses(&service, "alpha", &id).await, "failed");
}

#[tokio::test]
async fn a_lease_is_that_of_the_configuration_but_never_shorter_than_fifteen_seconds() {
    for (configured, seconds) in [(1, 15), (7200, 7200)] {
        let (service, _) = service(&format!("  leaseSeconds: {configured}\n"));
        ask(&service, "alpha", &json!({})).await.unwrap();
        let leased = pull(&service, "beta", json!({})).await;
        assert_eq!(leased[0].lease_until, view::seconds(START.plus(Duration::from_secs(seconds))));
    }
}

#[tokio::test]
async fn the_sweep_expires_and_tells_every_five_minutes_and_forgets_after_thirty_days() {
    let (service, clock) = service("");
    let id = ask(&service, "alpha", &json!({"ttl_seconds": 60})).await.unwrap().message_id;
    let until = async |expected: &str| {
        while statuses(&service, "alpha", &id).await != expected {
            tokio::task::yield_now().await;
        }
    };
    let test = async {
        for _ in 0..4 {
            clock.advance(Duration::from_secs(60));
            for _ in 0..20 {
                tokio::task::yield_now().await;
                assert_eq!(statuses(&service, "alpha", &id).await, "queued");
            }
        }
        clock.advance(Duration::from_secs(60));
        until("expired").await;
        assert_eq!(pull(&service, "alpha", json!({})).await.len(), 1);
        for _ in 0..5 {
            clock.advance(KEPT);
            for _ in 0..20 {
                tokio::task::yield_now().await;
                statuses(&service, "alpha", &id).await;
            }
        }
        until("not_found").await;
    };
    tokio::select! {
        biased;
        () = sweep::run(&service) => panic!("a sweep has no end"),
        () = test => {}
    }
}

#[tokio::test]
async fn recent_is_seven_days() {
    let (service, clock) = service("");
    ask(&service, "alpha", &json!({})).await.unwrap();
    clock.advance(RECENT);
    assert_eq!(service.v2.recent(name("beta"), 5).await.unwrap().messages.len(), 1);
    clock.advance(Duration::from_millis(1));
    assert!(service.v2.recent(name("beta"), 5).await.unwrap().messages.is_empty());
}

#[tokio::test]
async fn neither_generation_sees_the_others_messages() {
    let (service, _) = service("");
    let beta = AgentName::parse("beta").unwrap();
    service.register(beta.clone()).await.unwrap();
    let v1 = v1::request::Send::parse(r#"{"to":"beta","id":"m1"}"#, &AgentName::parse("alpha").unwrap());
    service.send(AgentName::parse("alpha").unwrap(), v1.unwrap()).await.unwrap();
    let id = ask(&service, "alpha", &json!({})).await.unwrap().message_id;
    assert_eq!(service.v2.recent(name("beta"), 9).await.unwrap().messages.len(), 1);
    assert_eq!(statuses(&service, "alpha", &DshId::new("m1")).await, "not_found");
    assert_eq!(service.recent(beta.clone(), 9).await.unwrap().count, 1);
    let known = service.status(beta, vec![id.to_string()]).await.unwrap();
    assert_eq!(serde_json::to_value(known).unwrap()["messages"][0]["status"], "not_found");
    assert_eq!(pull(&service, "beta", json!({})).await.len(), 1);
}

#[tokio::test]
async fn a_reply_is_the_recipients_to_give_and_says_so_in_the_stages() {
    let (service, _) = service("");
    let id = ask(&service, "alpha", &json!({"topic": "t"})).await.unwrap().message_id;
    let reply = json!({"target": "alpha", "kind": "reply", "parent_id": id});
    assert_eq!(ask(&service, "gamma", &reply).await.unwrap_err().code(), Code::Forbidden);
    let unknown = json!({"target": "alpha", "kind": "reply", "parent_id": "nope"});
    assert_eq!(ask(&service, "beta", &unknown).await.unwrap_err().code(), Code::NoSuchMessage);
    assert!(ask(&service, "beta", &reply).await.unwrap().created);
    let status = service.v2.status(name("alpha"), vec![id.to_string()]).await.unwrap();
    let stages = &serde_json::to_value(status).unwrap()["messages"][0]["stages"];
    assert_eq!(
        *stages,
        json!({"stored": "2023-11-14T22:13:20.000Z", "answered": "2023-11-14T22:13:20.000Z"})
    );
}

#[tokio::test]
async fn a_key_used_for_something_else_is_a_conflict() {
    let (service, _) = service("");
    let first = ask(&service, "alpha", &json!({})).await.unwrap();
    let again = ask(&service, "alpha", &json!({"body": " x ", "ttl_seconds": 99})).await.unwrap();
    assert_eq!((again.message_id, again.created, again.conflict), (first.message_id.clone(), false, false));
    let other = ask(&service, "alpha", &json!({"body": "y"})).await.unwrap();
    assert_eq!((other.message_id, other.created, other.conflict), (first.message_id, false, true));
    let text = serde_json::to_string(&ask(&service, "alpha", &json!({})).await.unwrap()).unwrap();
    assert!(!text.contains("conflict"), "{text}");
}

struct Caller<'a> {
    agent: &'a str,
    key_id: Option<&'a str>,
    secret: &'a str,
    at: Timestamp,
}

fn authenticate(service: &Service, caller: &Caller<'_>) -> Result<Name, Code> {
    let timestamp = caller.at.secs().to_string();
    let Caller { agent, key_id, secret, .. } = *caller;
    let lower = agent.to_lowercase();
    let signed = Signed {
        agent: &lower,
        key_id,
        timestamp: &timestamp,
        method: "POST",
        target: "/v1/pull",
        body: b"{}",
    };
    let signature = hmac::sha256_hex(secret.as_bytes(), &[signed.text().as_bytes()]);
    let given = Credentials { agent, key_id, timestamp: &timestamp, signature: &signature };
    let request = Request { method: "POST", target: "/v1/pull", body: b"{}" };
    service.v2.authenticate(Some(given), request).map_err(|error| error.code())
}

#[test]
fn without_keys_of_their_own_all_share_the_secret_as_the_legacy_key() {
    let (service, clock) = service("");
    let caller = Caller { agent: "Any One", key_id: None, secret: "s", at: START };
    assert_eq!(authenticate(&service, &caller), Ok(name("any one")));
    assert_eq!(authenticate(&service, &Caller { key_id: Some("legacy"), ..caller }), Ok(name("any one")));
    for (agent, key_id, secret, refused) in [
        ("anyone", Some("k1"), "s", Code::UnknownKey),
        ("anyone", None, "x", Code::Unauthenticated),
        ("acme/it/bob/x", None, "s", Code::Unauthenticated),
        (" ", None, "s", Code::Unauthenticated),
    ] {
        assert_eq!(
            authenticate(&service, &Caller { agent, key_id, secret, at: START }),
            Err(refused),
            "{agent}"
        );
    }
    for _ in 0..20 {
        let wrong = Caller { agent: "a", key_id: None, secret: "x", at: START };
        assert_eq!(authenticate(&service, &wrong), Err(Code::Unauthenticated));
    }
    let right = Caller { agent: "a", key_id: None, secret: "s", at: START };
    assert!(authenticate(&service, &right).is_ok(), "there is no lock");
    clock.advance(Duration::from_secs(301));
    assert_eq!(authenticate(&service, &right), Err(Code::Unauthenticated));
}

#[test]
fn a_keyring_opens_with_its_own_keys_until_they_end() {
    let end = START.secs() + 60;
    let (service, clock) = service(&format!(
        "agents:\n  Alpha:\n    secret: single\n    keys:\n      new:\n        secret: n\n        not_after: {end}\n  \
         beta:\n    secret: b\n  gamma:\n    keys:\n      legacy:\n        secret: g\n"
    ));
    let call =
        |agent, key_id, secret| authenticate(&service, &Caller { agent, key_id, secret, at: clock.now() });
    assert_eq!(call("alpha", Some("new"), "n"), Ok(name("alpha")));
    assert_eq!(call("alpha", Some("new"), "single"), Err(Code::Unauthenticated));
    // Beside a keyring, the single secret is for v1.
    assert_eq!(call("alpha", None, "single"), Err(Code::UnknownAgent));
    assert_eq!(call("alpha", Some("legacy"), "single"), Err(Code::UnknownKey));
    assert_eq!((call("beta", None, "b"), call("gamma", None, "g")), (Ok(name("beta")), Ok(name("gamma"))));
    assert_eq!(call("beta", None, "s"), Err(Code::Unauthenticated));
    for stranger in ["delta", "__proto__", "constructor"] {
        assert_eq!(call(stranger, None, "s"), Err(Code::UnknownAgent));
        assert_eq!(call(stranger, Some("legacy"), "s"), Err(Code::UnknownAgent));
    }
    clock.advance(Duration::from_secs(60));
    assert_eq!(call("alpha", Some("new"), "n"), Err(Code::UnknownKey));
}
