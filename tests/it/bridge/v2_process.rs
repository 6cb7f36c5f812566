//! Two real bridges: one agent speaks the second generation, the other the first, over HTTP both ways.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::bridge::BridgeProcess;
use crate::support::local::LocalBroker;
use crate::support::process::run;
use crate::support::v2::V2Agent;
use crate::support::world::{Member, World};
use crate::support::zips::{member_of, zip_of};

pub async fn post(bridge: &BridgeProcess, agent: &str, path: &str, body: &Value) -> Value {
    let agent = V2Agent::new(&bridge.base(), "test-secret", agent);
    let (status, answer) = agent.post(path, body).await.unwrap();
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

pub async fn pull_one(bridge: &BridgeProcess, agent: &str) -> Value {
    let pull = async {
        loop {
            let pulled = post(bridge, agent, "/v1/pull", &json!({"wait_seconds": 20})).await;
            if let Some(message) = pulled["messages"].as_array().unwrap().first() {
                return message.clone();
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), pull).await.expect("no message came")
}

#[tokio::test]
async fn the_second_generation_asks_and_answers_the_first() {
    let world = World::new().await;
    let start = |member: &Member, other: &Member| {
        BridgeProcess::start(&world.folder.path().join(member.org), member, other, &world.url())
    };
    let (close, billing) = (start(&world.ana, &world.bob), start(&world.bob, &world.ana));
    billing.register().await;

    let long = "ñ is paid? ".repeat(4000);
    let ask = json!({"origin": "close", "target": world.bob.address(), "kind": "request", "body": long.trim(),
                     "idempotency_key": "k1", "context": "the close", "topic": "invoices"});
    let created = post(&close, "close", "/v1/messages", &ask).await;
    assert_eq!(created["created"], json!(true));
    assert_eq!(post(&close, "close", "/v1/messages", &ask).await["created"], json!(false));
    let id = created["message_id"].as_str().unwrap();
    let request = billing.pull_one().await;
    assert_eq!((request["id"].as_str(), &request["body"]), (Some(id), &json!({"text": long.trim()})));
    assert_eq!(request["redsyn"]["envelope"], json!({"context": "the close", "topic": "invoices"}));
    let reply =
        json!({"to": request["from"], "kind": "reply", "parentId": id, "body": {"text": "Yes.", "n": 1}});
    billing.send(&reply).await;
    billing.ack(&request).await;
    let answer = pull_one(&close, "close").await;
    let answer_id = answer["message_id"].clone();
    assert_eq!((&answer["kind"], &answer["parent_id"]), (&json!("reply"), &json!(id)));
    assert_eq!(answer["body"], json!(r#"{"n":1,"text":"Yes."}"#));
    assert_eq!(
        (&answer["origin"], &answer["redsyn"]["verified"]),
        (&json!(world.bob.address()), &json!(true))
    );
    let done = json!({"message_id": answer["message_id"], "outcome": "completed", "lease_token": answer["lease_token"]});
    post(&close, "close", "/v1/ack", &done).await;
    let status = post(&close, "close", "/v1/status", &json!({"message_ids": [id]})).await;
    assert_eq!(status["messages"][0]["status"], json!("completed"));

    // And the other way round.
    let asked = billing
        .send(&json!({"to": world.ana.address(), "kind": "request", "body": {"text": "And 124?"}}))
        .await;
    let request = pull_one(&close, "close").await;
    assert_eq!((&request["message_id"], &request["execution_mode"]), (&json!(asked), &json!("read")));
    let reply = json!({"origin": "close", "target": request["origin"], "kind": "reply", "body": "Too.",
                       "parent_id": asked, "idempotency_key": "k2"});
    post(&close, "close", "/v1/messages", &reply).await;
    let answer = billing.pull_one().await;
    assert_eq!((&answer["parentId"], &answer["body"]), (&json!(asked), &json!({"text": "Too."})));
    assert!(close.recent().await.is_empty(), "nothing in the first generation");

    for (id, stages) in [
        (id, ["stored", "accepted", "leased", "answered"]),
        (&asked, ["stored", "leased", "answered", "answered"]),
        (answer_id.as_str().unwrap(), ["stored", "leased", "acked", "acked"]),
    ] {
        let traced = traced(&close, id);
        let [message] = traced.as_slice() else { panic!("{traced:?}") };
        let reached = &message["local"]["stages"];
        assert!(stages.iter().all(|stage| reached[stage].is_string()), "{id}: {message}");
        assert!(message["redsyn"]["id"].is_string(), "{message}");
    }
}

/// What `trace` shows of a message.
fn traced(bridge: &BridgeProcess, id: &str) -> Vec<Value> {
    let output = run(&bridge.folder, &["trace", id, "--json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    answer["messages"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_message_that_does_not_leave_is_traced_too() {
    let world = World::new().await;
    let folder = world.folder.path().join("acme");
    let bridge = BridgeProcess::start(&folder, &world.ana, &world.bob, &world.url());
    let say =
        json!({"origin": "eve", "target": "close", "kind": "request", "body": "hi", "idempotency_key": "k"});
    let id = post(&bridge, "eve", "/v1/messages", &say).await["message_id"].clone();
    let traced = traced(&bridge, id.as_str().unwrap());
    let [message] = traced.as_slice() else { panic!("{traced:?}") };
    let local = &message["local"];
    assert_eq!(
        (&local["from"], &local["to"], &local["kind"], &local["status"]),
        (&json!("eve"), &json!("close"), &json!("request"), &json!("queued"))
    );
    assert!(local["stages"]["stored"].is_string() && message["redsyn"].is_null(), "{message}");
}

#[tokio::test]
async fn nobody_takes_mail_or_sends_under_the_name_of_a_contact() {
    let world = World::new().await;
    let folder = world.folder.path().join("acme");
    let agents = format!(" {{close: {{}}}}\n  contacts: {{Bob: {}}}", world.bob.address());
    let bridge = BridgeProcess::start_with("sqlite", &folder, &world.ana, &world.url(), &agents);
    let say = |origin: &str, target: &str| json!({"origin": origin, "target": target, "kind": "request", "body": "hi", "idempotency_key": "k"});
    for caller in ["bob", "bob#s1"] {
        let agent = V2Agent::new(&bridge.base(), "test-secret", caller);
        for (path, body) in [("/v1/pull", json!({})), ("/v1/messages", say(caller, "close"))] {
            let (status, answer) = agent.post(path, &body).await.unwrap();
            assert_eq!(
                (status, &answer["error"]["code"]),
                (403, &json!("forbidden")),
                "{caller} {path}: {answer}"
            );
        }
    }
    assert_eq!(post(&bridge, "close", "/v1/messages", &say("close", "bob")).await["created"], json!(true));
    assert_eq!(post(&bridge, "close", "/v1/pull", &json!({})).await["messages"], json!([]));
}

/// What an agent asks for with bytes and is answered with.
async fn bytes(
    bridge: &BridgeProcess,
    agent: &str,
    method: Method,
    path: &str,
    body: &[u8],
) -> (u16, Vec<u8>) {
    V2Agent::new(&bridge.base(), "test-secret", agent).call(method, path, body.to_vec()).await.unwrap()
}

fn files_of(id: &Value) -> String {
    format!("/bridge/v1/messages/{}/files", id.as_str().unwrap())
}

#[tokio::test]
async fn the_second_generation_puts_and_fetches_files() {
    let world = World::new().await;
    let start = |member: &Member, other: &Member| {
        BridgeProcess::start(&world.folder.path().join(member.org), member, other, &world.url())
    };
    let (close, billing) = (start(&world.ana, &world.bob), start(&world.bob, &world.ana));
    post(&billing, "billing", "/v1/pull", &json!({})).await;

    // No UTF-8, and more than a message may have.
    let noise: Vec<u8> = (0..2_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let zip = zip_of(&[("noise", &noise)]);
    let (status, put) = bytes(&close, "close", Method::PUT, "/bridge/v1/files", &zip).await;
    let put: Value = serde_json::from_slice(&put).unwrap();
    assert_eq!(status, 200, "{put}");
    let redsyn = json!({"files": put["file"], "encrypt": "require"});
    let ask = |target: &str, key: &str, redsyn: &Value| {
        json!({"origin": "close", "target": target, "kind": "request", "body": "look", "idempotency_key": key,
               "redsyn": redsyn})
    };
    let asked = post(&close, "close", "/v1/messages", &ask(&world.bob.address(), "k1", &redsyn)).await;
    let request = pull_one(&billing, "billing").await;
    assert_eq!(request["message_id"], asked["message_id"]);
    assert_eq!(request["redsyn"]["encrypted"], json!(true));
    let (status, fetched) =
        bytes(&billing, "billing", Method::GET, &files_of(&request["message_id"]), b"").await;
    assert_eq!((status, member_of(&fetched, "noise") == noise), (200, true));
    let (status, own) = bytes(&close, "close", Method::GET, &files_of(&asked["message_id"]), b"").await;
    assert_eq!((status, own == zip), (200, true), "its sender may look, too");
    assert_eq!(bytes(&billing, "eve", Method::GET, &files_of(&request["message_id"]), b"").await.0, 404);

    let (status, answer) = V2Agent::new(&close.base(), "test-secret", "eve")
        .post(
            "/v1/messages",
            &json!({"origin": "eve", "target": "close", "kind": "request", "body": "x",
                                      "idempotency_key": "k", "redsyn": redsyn}),
        )
        .await
        .unwrap();
    assert_eq!((status, &answer["error"]["code"]), (400, &json!("bad_request")), "{answer}");
    let put = |agent: V2Agent, body: Vec<u8>| async move {
        agent.call(Method::PUT, "/bridge/v1/files", body).await.unwrap().0
    };
    assert_eq!(put(V2Agent::new(&close.base(), "another secret", "close"), zip).await, 401);
    let agent = V2Agent::new(&close.base(), "test-secret", "close");
    assert_eq!(put(agent.clone(), vec![0; 5 * 1024 * 1024 + 1]).await, 413);
    assert_eq!(put(agent, b"no zip".to_vec()).await, 400);
    assert_eq!(bytes(&close, "close", Method::PUT, "/bridge/v1/other", b"").await.0, 404);
    let cancel = format!("/bridge/v1/messages/{}/cancel", asked["message_id"].as_str().unwrap());
    assert_eq!(bytes(&close, "close", Method::POST, &cancel, b"{}").await.0, 409, "somebody has taken it");
}

#[tokio::test]
async fn a_broker_without_a_bridge_has_no_place_for_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = LocalBroker::new(folder.path(), "sqlite");
    broker.start();
    let agent = V2Agent::new(&broker.base(), "s", "alpha");
    let (status, answer) = agent.call(Method::PUT, "/bridge/v1/files", b"PK".to_vec()).await.unwrap();
    assert_eq!(status, 404, "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test]
async fn what_has_crossed_is_cancelled_until_somebody_takes_it() {
    let world = World::new().await;
    let start = |member: &Member, other: &Member| {
        BridgeProcess::start(&world.folder.path().join(member.org), member, other, &world.url())
    };
    // Announced and not there: mail for it waits at the relay.
    let (close, billing) = (start(&world.ana, &world.bob), start(&world.bob, &world.ana));
    let ask = async |key: &str| {
        let ask = json!({"origin": "close", "target": world.bob.address(), "kind": "request", "body": key,
                         "idempotency_key": key});
        let id = post(&close, "close", "/v1/messages", &ask).await["message_id"].clone();
        let crossed = async {
            while status(&close, &id).await["status"] != json!("leased") {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), crossed).await.expect("it did not cross");
        id
    };
    let manage = async |agent: &str, what: &str, id: &Value| {
        let agent = V2Agent::new(&close.base(), "test-secret", agent);
        agent.post(&format!("/v1/admin/{what}"), &json!({"message_id": id})).await.unwrap()
    };
    let first = ask("first").await;
    assert_eq!(manage("eve", "cancel", &first).await.0, 403, "it is not hers");
    assert_eq!(manage("close", "cancel", &first).await, (200, json!({"ok": true, "message_id": first})));
    assert_eq!(status(&close, &first).await["status"], json!("failed"));
    let second = ask("second").await;
    assert_eq!(pull_one(&billing, "billing").await["message_id"], second, "the first is gone");
    let (code, answer) = manage("close", "cancel", &second).await;
    assert_eq!((code, &answer["error"]["code"]), (409, &json!("conflict")), "{answer}");
    assert_eq!(status(&close, &second).await["status"], json!("leased"));
    assert_eq!(manage("close", "requeue", &second).await.0, 403, "nor is it there to take");
}

/// The state of a message that `close` has sent.
async fn status(bridge: &BridgeProcess, id: &Value) -> Value {
    post(bridge, "close", "/v1/status", &json!({"message_ids": [id]})).await["messages"][0].clone()
}

#[tokio::test]
async fn peers_have_the_presence_of_remote_agents_of_the_second_generation() {
    let world = World::new().await;
    let folder = world.folder.path().join("acme");
    let agents = format!(
        " {{close: {{}}}}\n  contacts: {{billing: {}, nobody: globex/erp/bob/nobody}}",
        world.bob.address()
    );
    let close = BridgeProcess::start_with("sqlite", &folder, &world.ana, &world.url(), &agents);
    let bob = world.folder.path().join("globex");
    let billing = BridgeProcess::start(&bob, &world.bob, &world.ana, &world.url());
    post(&billing, "billing", "/v1/pull", &json!({})).await;
    close.register().await;
    let peers = close.client.get("/peers").await.unwrap();
    let peer = |name: &str| {
        let peers = peers["peers"].as_array().unwrap();
        peers.iter().find(|peer| peer["agent"] == json!(name)).unwrap_or_else(|| panic!("{peers:?}")).clone()
    };
    let now = redsyn_bridge::domain::clock::Clock::now(&world.clock).secs();
    assert_eq!(peer("billing")["online"], json!(true));
    assert!(peer("billing")["lastSeen"].as_i64().unwrap() >= now - 60, "{peers}");
    assert_eq!((&peer("nobody")["online"], &peer("nobody")["lastSeen"]), (&json!(false), &json!(0)));
    let v2 = V2Agent::new(&close.base(), "test-secret", "close");
    let (code, _) = v2.call(Method::GET, "/peers", Vec::new()).await.unwrap();
    assert_eq!(code, 404, "the second generation has no such call");
}
