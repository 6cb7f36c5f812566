//! The service with a clock that is moved and a carrier that only remembers.

use std::sync::Mutex;

use futures_util::future::BoxFuture;
use serde_json::json;

use super::*;
use crate::broker::auth::{Credentials, Signed};
use crate::broker::carrier::NoCarrier;
use crate::broker::sweep;
use crate::crypto::hmac;
use crate::domain::clock::{Clock, ManualClock};
use crate::domain::random::SystemRandom;
use crate::proto::dsh::json::JsonText;
use crate::proto::dsh::v1::envelope::MessageType;
use crate::store::local::{Peer, Sent};
use crate::store::sqlite::local::insert_message;

const START: Timestamp = Timestamp::from_secs(1_700_000_000);
const CONTACT: &str = "bob";
const BOB: &str = "acme/it/bob/x";

/// Carries whatever has a slash in it.
#[derive(Debug, Default)]
struct Pigeon {
    sent: Mutex<Vec<NewMessage>>,
    touched: Mutex<Vec<AgentName>>,
}

impl Carrier for Pigeon {
    fn route(&self, _from: &AgentName, to: &str) -> Route {
        if to.contains('/') || to == CONTACT { Route::Away } else { Route::Local }
    }

    fn send(&self, message: NewMessage) -> BoxFuture<'_, Result<Sent, ApiError>> {
        let sent = Sent { id: message.id.clone(), duplicate: false };
        self.sent.lock().unwrap().push(message);
        Box::pin(async { Ok(sent) })
    }

    fn peers(&self) -> BoxFuture<'_, Vec<Peer>> {
        let peer = |name: &str| Peer { agent: Party::new(name), online: true, last_seen: START };
        let peers = vec![peer(BOB), peer("beta")];
        Box::pin(async { peers })
    }

    fn known_as(&self, _from: &AgentName, to: &str) -> Vec<String> {
        if to == CONTACT { vec![BOB.to_owned()] } else { Vec::new() }
    }

    fn ended(&self) {}

    fn touched<'a>(&'a self, agent: &'a AgentName) -> BoxFuture<'a, ()> {
        self.touched.lock().unwrap().push(agent.clone());
        Box::pin(async {})
    }
}

fn agent(name: &str) -> AgentName {
    AgentName::parse(name).unwrap()
}

fn service(yaml: &str, carrier: Arc<dyn Carrier>) -> (Service, ManualClock) {
    let config = Config::parse(&format!("broker:\n  secret: s\n{yaml}"), "config.yaml".as_ref()).unwrap();
    let clock = ManualClock::at(START);
    let store = LocalStore::in_memory().unwrap();
    let service = Service::new(
        &config,
        Secret::new("s"),
        store,
        Arc::new(clock.clone()),
        SystemRandom::shared(),
        carrier,
        Wakeups::default(),
    );
    (service, clock)
}

fn request(body: serde_json::Value) -> request::Send {
    request::Send::parse(&body.to_string(), &agent("alpha")).unwrap()
}

#[tokio::test]
async fn mail_beyond_the_machine_goes_to_the_carrier_with_all_it_holds() {
    let pigeon = Arc::new(Pigeon::default());
    let (service, _) = service("", pigeon.clone());
    let body = json!({"to": BOB, "id": "m1", "kind": "request", "body": {"text": "hi"}, "redsyn": {"ttl": 60}, "rootId": "r"});
    let accepted = service.send(agent("alpha"), request(body)).await.unwrap();
    assert_eq!((accepted.id.as_str(), accepted.duplicate), ("m1", false));
    let sent = pigeon.sent.lock().unwrap().remove(0);
    assert_eq!((sent.from.as_str(), sent.to.as_str(), sent.ts), ("alpha", BOB, START));
    assert_eq!(sent.body.as_json(), r#"{"text":"hi"}"#);
    assert_eq!(sent.redsyn, Some(json!({"ttl": 60})));
    assert_eq!(sent.root_id, Some(JsonText::from(&json!("r"))));
}

#[tokio::test]
async fn the_acl_holds_beyond_the_machine_too() {
    let pigeon = Arc::new(Pigeon::default());
    let yaml = format!("agents:\n  alpha:\n    allowed_targets: [{BOB}]\n");
    let (service, _) = service(&yaml, pigeon.clone());
    service.send(agent("alpha"), request(json!({"to": BOB}))).await.unwrap();
    let refused = service.send(agent("alpha"), request(json!({"to": "acme/it/bob/y"}))).await.unwrap_err();
    assert_eq!(refused.code(), Code::Forbidden);
    assert_eq!(pigeon.sent.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_pattern_in_the_acl_lets_a_contact_through() {
    let pigeon = Arc::new(Pigeon::default());
    let (service, _) = service("agents:\n  alpha:\n    allowed_targets: ['acme/it/*/*']\n", pigeon.clone());
    service.send(agent("alpha"), request(json!({"to": CONTACT}))).await.unwrap();
    let refused = service.send(agent("alpha"), request(json!({"to": "beta"}))).await.unwrap_err();
    assert_eq!(refused.code(), Code::Forbidden);
}

#[tokio::test]
async fn whom_nobody_knows_is_no_such_agent() {
    let (service, _) = service("", Arc::new(NoCarrier));
    for to in ["ghost", BOB, " beta"] {
        let refused = service.send(agent("alpha"), request(json!({ "to": to }))).await.unwrap_err();
        assert_eq!(refused.code(), Code::NoSuchAgent, "{to}");
    }
}

#[tokio::test]
async fn peers_are_local_and_remote_in_one_order() {
    let (service, clock) = service("", Arc::new(Pigeon::default()));
    service.register(agent("beta")).await.unwrap();
    clock.advance(v1::ONLINE - Duration::from_millis(1));
    service.register(agent("Alpha")).await.unwrap();
    let names = |peers: &answer::Peers| {
        peers.peers.iter().map(|peer| (peer.agent.to_string(), peer.online)).collect::<Vec<_>>()
    };
    let all = [(BOB.to_owned(), true), ("Alpha".to_owned(), true), ("beta".to_owned(), true)];
    assert_eq!(names(&service.peers().await.unwrap()), all);
    clock.advance(Duration::from_millis(1));
    assert!(!names(&service.peers().await.unwrap())[2].1);
}

#[tokio::test]
async fn the_carrier_hears_of_every_sign_of_life_before_we_look() {
    let pigeon = Arc::new(Pigeon::default());
    let (service, _) = service("", pigeon.clone());
    service.register(agent("a")).await.unwrap();
    service.poll(agent("b"), None, 5).await.unwrap();
    service.pull(agent("c"), request::Pull { limit: 5, lease_seconds: None, wait_seconds: 0 }).await.unwrap();
    service.peers().await.unwrap();
    assert_eq!(*pigeon.touched.lock().unwrap(), [agent("a"), agent("b"), agent("c")]);
}

fn no_route() -> ApiError {
    ApiError::not_found("POST", "/messages/x/ack")
}

#[tokio::test]
async fn receipts_for_remote_senders_take_any_id_and_leave_by_the_carrier() {
    let pigeon = Arc::new(Pigeon::default());
    let (service, _) = service("", pigeon.clone());
    let inbound = NewMessage::new(DshId::new("not hex"), Party::new(BOB), agent("beta"), START);
    let beta = agent("beta");
    service.store.db().call("test", move |conn| insert_message(conn, &inbound, Some(&beta))).await.unwrap();
    let receipt = |by: &str, id: &str| {
        let (by, id) = (agent(by), DshId::new(id));
        let service = &service;
        async move { service.receipt(by, (id, false), r#"{"status":"error","error":7}"#, no_route()).await }
    };
    let accepted = receipt("beta", "not hex").await.unwrap();
    let sent = pigeon.sent.lock().unwrap().remove(0);
    assert_eq!((&sent.id, sent.to.as_str(), sent.message_type), (&accepted.id, BOB, MessageType::Ack));
    assert_eq!(sent.reply_to.unwrap().as_json(), r#""not hex""#);
    assert_eq!(sent.body.as_json(), r#"{"status":"error","error":"7"}"#);
    assert_eq!(receipt("gamma", "not hex").await.unwrap_err().code(), Code::Forbidden);
    assert_eq!(receipt("beta", "nope").await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn a_held_pull_is_answered_by_mail_by_its_end_or_by_a_stop() {
    let (service, clock) = service("", Arc::new(NoCarrier));
    service.register(agent("beta")).await.unwrap();
    let pull = || {
        let request = request::Pull { limit: 1, lease_seconds: None, wait_seconds: 25 };
        service.pull(agent("beta"), request)
    };
    let taken = |answer: Result<answer::Messages, ApiError>| answer.unwrap().messages.len();
    let steps = async {
        let (held, sent) = tokio::join!(pull(), service.send(agent("alpha"), request(json!({"to": "beta"}))));
        sent.unwrap();
        assert_eq!(taken(held), 1);
        let end = async {
            tokio::task::yield_now().await;
            clock.advance(Duration::from_secs(24));
            assert_eq!(service.wakeups.held(), 1, "it is not over yet");
            clock.advance(Duration::from_secs(1));
        };
        let (held, ()) = tokio::join!(pull(), end);
        assert_eq!(taken(held), 0);
        let stop = async { service.stopping.cancel() };
        let (held, ()) = tokio::join!(pull(), stop);
        assert_eq!(taken(held), 0);
    };
    tokio::time::timeout(Duration::from_secs(30), steps).await.unwrap();
}

#[tokio::test]
async fn a_held_pull_has_what_comes_back_when_a_lease_ends_or_is_given_back() {
    let (service, clock) = service("", Arc::new(NoCarrier));
    service.register(agent("beta")).await.unwrap();
    service.send(agent("alpha"), request(json!({"to": "beta", "id": "m1"}))).await.unwrap();
    let pull = |lease, wait_seconds| {
        service.pull(agent("beta"), request::Pull { limit: 1, lease_seconds: Some(lease), wait_seconds })
    };
    let looked = async || {
        while service.wakeups.held() == 0 {
            tokio::task::yield_now().await;
        }
    };
    let steps = async {
        assert_eq!(pull(5, 0).await.unwrap().messages.len(), 1);
        let end = async {
            looked().await;
            clock.advance(Duration::from_secs(5));
        };
        let (again, ()) = tokio::join!(pull(60, 25), end);
        let lease = again.unwrap().messages.remove(0).lease_id.unwrap();
        let give_back = async {
            looked().await;
            let body = json!({"messageId": "m1", "leaseId": lease, "outcome": "retry"}).to_string();
            service.ack(agent("beta"), request::Ack::parse(&body).unwrap()).await.unwrap();
        };
        let (again, ()) = tokio::join!(pull(60, 25), give_back);
        assert_eq!(again.unwrap().messages.len(), 1);
    };
    tokio::time::timeout(Duration::from_secs(30), steps).await.unwrap();
}

#[tokio::test]
async fn a_store_that_has_gone_is_busy_and_no_more() {
    let (service, _) = service("", Arc::new(NoCarrier));
    service.store.clone().close().await.unwrap();
    let refused = service.register(agent("beta")).await.unwrap_err();
    assert_eq!((refused.status(), refused.name()), (503, "busy"));
}

#[tokio::test]
async fn the_sweep_runs_every_minute() {
    let (service, clock) = service("  messageTtlDays: 1\n", Arc::new(NoCarrier));
    service.register(agent("beta")).await.unwrap();
    service.send(agent("alpha"), request(json!({"to": "beta", "id": "m1"}))).await.unwrap();
    service
        .pull(agent("beta"), request::Pull { limit: 1, lease_seconds: Some(1), wait_seconds: 0 })
        .await
        .unwrap();
    let status = async || {
        let lines = service.store.status(agent("beta"), vec!["m1".into()]).await.unwrap();
        lines[0].1.as_ref().map(|line| line.status.as_str())
    };
    let until = async |expected| {
        while status().await != expected {
            tokio::task::yield_now().await;
        }
    };
    let test = async {
        clock.advance(Duration::from_secs(59));
        assert_eq!(status().await, Some("leased"));
        clock.advance(Duration::from_secs(1));
        until(Some("queued")).await;
        clock.advance(Duration::from_secs(86_400));
        until(None).await;
    };
    tokio::select! {
        biased;
        () = sweep::run(&service) => panic!("a sweep has no end"),
        () = test => {}
    }
}

#[tokio::test]
async fn who_asks_how_the_broker_is_is_told_while_nothing_can_be_kept() {
    let (service, clock) = service("", Arc::new(NoCarrier));
    service.register(agent("beta")).await.unwrap();
    service.health().await.unwrap();
    let limit = async |pages: &'static str| {
        let limit = format!("PRAGMA max_page_count = {pages}");
        service.store.db().call("limit", move |conn| Ok(conn.execute_batch(&limit)?)).await.unwrap();
    };
    // SQLite allows no fewer than there are.
    limit("1").await;
    let large = request(json!({"to": "beta", "id": "m1", "body": {"text": "x".repeat(50_000)}}));
    let told =
        [service.send(agent("alpha"), large.clone()).await.unwrap_err(), service.health().await.unwrap_err()];
    for error in told {
        assert_eq!(error.code(), Code::Busy);
        assert!(error.to_string().contains("disk is full"), "{error}");
    }
    service.peers().await.unwrap();
    assert!(service.health().await.is_err(), "it can be read from, and no more");

    limit("1000").await;
    assert!(service.health().await.is_err(), "nobody has written");
    let sweep = async {
        clock.advance(Duration::from_secs(60));
        while service.health().await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        () = sweep::run(&service) => panic!("a sweep has no end"),
        () = sweep => {}
    }
    service.send(agent("alpha"), large).await.unwrap();
}

fn authenticate(service: &Service, name: &str, at: Timestamp, key: &str) -> Result<AgentName, Code> {
    let timestamp = at.secs().to_string();
    let text = format!("GET\n/peers\n{timestamp}\n");
    let signature = hmac::sha256_hex(key.as_bytes(), &[text.as_bytes()]);
    let given = Credentials { agent: name, timestamp: &timestamp, signature: &signature };
    let signed = Signed { method: "GET", target: "/peers", body: b"" };
    service.auth.authenticate(Some(given), signed).map_err(|error| error.code())
}

#[test]
fn a_lock_ends_by_itself_and_failures_in_it_do_not_extend_it() {
    let (service, clock) =
        service("security:\n  lockAfterFailures: 2\n  lockMinutes: 1\n", Arc::new(NoCarrier));
    let call = |key: &str| authenticate(&service, "alpha", clock.now(), key);
    assert_eq!(call("s"), Ok(agent("alpha")));
    assert_eq!(
        (call("x"), call("x"), call("s")),
        (Err(Code::Unauthenticated), Err(Code::Unauthenticated), Err(Code::Locked))
    );
    clock.advance(Duration::from_secs(30));
    assert_eq!(call("x"), Err(Code::Locked));
    clock.advance(Duration::from_secs(30));
    assert_eq!(
        (call("x"), call("s"), call("x"), call("x"), call("s")),
        (
            Err(Code::Unauthenticated),
            Ok(agent("alpha")),
            Err(Code::Unauthenticated),
            Err(Code::Unauthenticated),
            Err(Code::Locked)
        )
    );
}

#[test]
fn isolated_agents_have_their_own_secrets_or_none() {
    let yaml = "agents:\n  alpha:\n    secret: a\n  beta:\n    keys:\n      k:\n        secret: b\n";
    let (service, clock) = service(yaml, Arc::new(NoCarrier));
    let call = |name: &str, key: &str| authenticate(&service, name, clock.now(), key);
    assert_eq!(call("alpha", "a"), Ok(agent("alpha")));
    assert_eq!(call("alpha", "s"), Err(Code::Unauthenticated));
    // Keys are for another scheme: they open nothing here, and neither does the shared secret.
    assert_eq!((call("beta", "b"), call("beta", "s")), (Err(Code::UnknownAgent), Err(Code::UnknownAgent)));
    assert_eq!(
        (call("ghost", "s"), call("__proto__", "s")),
        (Err(Code::UnknownAgent), Err(Code::UnknownAgent))
    );
}

#[tokio::test]
async fn nobody_takes_the_name_of_a_contact() {
    let (service, _) = service("", Arc::new(Pigeon::default()));
    let refused = service.register(agent(CONTACT)).await.unwrap_err();
    assert_eq!(refused.code(), Code::Forbidden);
    service.register(agent("alpha")).await.unwrap();
    service.send(agent("alpha"), request(json!({"to": CONTACT}))).await.unwrap();
    let refused = service.send(agent(CONTACT), request(json!({"to": "beta"}))).await.unwrap_err();
    assert_eq!(refused.code(), Code::Forbidden);
}
