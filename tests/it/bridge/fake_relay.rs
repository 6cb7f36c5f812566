//! The demo's exchange against an independent, strict relay (docs/fake-relay.md): its log must show no violation.
//! Runs where `REDSYN_KIT` names the kit's folder and `REDSYN_KIT_PYTHON` a Python with its requirements.

use std::future::Future;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use redsyn_bridge::crypto::secret::Secret;
use serde_json::{Value, json};

use super::v2_process::{post, pull_one};
use crate::support::bridge::BridgeProcess;
use crate::support::proxy::http;
use crate::support::world::{Member, write};
use crate::support::zips::{member_of, zip_of};

pub struct FakeRelay {
    child: Child,
    pub base: String,
}

impl Drop for FakeRelay {
    fn drop(&mut self) {
        // Already gone is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const CONFIG: &str = r#"{
  "people": {
    "ana": {"email": "ana@acme.example", "plan": "enterprise", "tokens": {"ana-laptop": "tok-ana"}},
    "bob": {"email": "bob@globex.example", "plan": "enterprise", "tokens": {"bob-laptop": "tok-bob"}}
  },
  "orgs": {
    "acme": {"creator": "ana", "members": {"ana": "ana"}, "teams": {"finance": ["ana"]}},
    "globex": {"creator": "bob", "members": {"bob": "bob"}, "teams": {"erp": ["bob"]}}
  },
  "links": [{"orgs": ["acme", "globex"],
             "expose": {"acme": [["agent", "*"]], "globex": [["agent", "*"]]}}]
}"#;

/// `None` where the kit is not there: the tests of our own relay then stand alone.
pub fn fake_relay(folder: &std::path::Path) -> Option<FakeRelay> {
    let (kit, python) = (std::env::var("REDSYN_KIT").ok()?, std::env::var("REDSYN_KIT_PYTHON").ok()?);
    write(folder, "fake.json", CONFIG);
    let mut child = Command::new(python)
        .arg(format!("{kit}/fake_relay.py"))
        .args(["--port", "0", "--config"])
        .arg(folder.join("fake.json"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let base = line.trim().split_once("fake relay at ").expect(&line).1.to_owned();
    Some(FakeRelay { child, base })
}

pub async fn outside(relay: &FakeRelay, path: &str) -> Value {
    let root = relay.base.strip_suffix("/redsyn/v1").unwrap();
    http().get(format!("{root}{path}")).send().await.unwrap().json().await.unwrap()
}

/// Two members of the relay's two organisations.
pub fn members() -> (Member, Member) {
    let member = |org, team, user, agent, token| Member { org, team, user, agent, token: Secret::new(token) };
    (
        member("acme", "finance", "ana", "close", "tok-ana"),
        member("globex", "erp", "bob", "billing", "tok-bob"),
    )
}

pub async fn control(relay: &FakeRelay, order: Value) {
    ask(relay, order).await;
}

/// Gives an order, and what it answers.
pub async fn ask(relay: &FakeRelay, order: Value) -> Value {
    let root = relay.base.strip_suffix("/redsyn/v1").unwrap();
    let answer = http().post(format!("{root}/_control")).body(order.to_string()).send().await.unwrap();
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    assert!(status.is_success(), "{order}: {text}");
    serde_json::from_str(&text).unwrap()
}

/// Files, a body that travels among them, the second generation and an event, while the relay drops answers, refuses
/// and delivers twice.
#[tokio::test]
async fn a_strict_and_faulty_relay_finds_nothing_wrong_with_files_and_the_second_generation() {
    let folder = tempfile::tempdir().unwrap();
    let Some(relay) = fake_relay(folder.path()) else {
        eprintln!("not judged: REDSYN_KIT and REDSYN_KIT_PYTHON are not set (docs/fake-relay.md)");
        return;
    };
    let (ana, bob) = members();
    let close = BridgeProcess::start(&folder.path().join("acme"), &ana, &bob, &relay.base);
    let billing = BridgeProcess::start(&folder.path().join("globex"), &bob, &ana, &relay.base);
    close.register().await;
    billing.register().await;
    for (action, method, path) in [
        ("drop_after", "POST", "^/messages$"),
        ("drop_before", "GET", "^/messages/.*/files$"),
        ("truncate", "GET", "^/messages/.*/files$"),
        ("duplicate_delivery", "GET", "^/inbox/"),
        ("drop_after", "POST", "/ack$"),
    ] {
        let fault = json!({"op": "fault", "action": action, "match": {"method": method, "path": path}, "times": 1,
                           "mode": "twice"});
        control(&relay, fault).await;
    }
    let status = json!({"op": "fault", "action": "status", "status": 503, "after": true, "times": 1,
                        "match": {"method": "POST", "path": "^/messages$"}});
    control(&relay, status).await;

    let zip = zip_of(&[("a.txt", b"one")]);
    let name = close.client.put_bytes("/bridge/v1/files", zip.clone()).await.unwrap()["file"].clone();
    let rows = json!({"rows": vec!["a row of many"; 8000]});
    let ask = json!({"to": bob.address(), "kind": "request", "body": rows, "redsyn": {"files": name}});
    let id = close.send(&ask).await;
    // Files that did not come leave the message leased at the relay: a quarter of an hour passes. Then back: its `Date`
    // does not follow the clock that is moved, so that nobody could sign.
    let request = leased_out(&relay, billing.pull_one()).await;
    control(&relay, json!({"op": "clock", "skew": 0})).await;
    assert_eq!((&request["id"], &request["body"]), (&json!(id), &rows));
    let fetched = billing.client.get_bytes(&format!("/bridge/v1/messages/{id}/files")).await.unwrap();
    assert_eq!(member_of(&fetched, "a.txt"), b"one");
    billing.ack(&request).await;
    let reply = json!({"to": request["from"], "kind": "reply", "parentId": id, "body": {"text": "Yes."}});
    billing.send(&reply).await;
    let answer = pull_one(&close, "close").await;
    assert_eq!((&answer["body"], &answer["parent_id"]), (&json!("Yes."), &json!(id)));
    let done = json!({"message_id": answer["message_id"], "outcome": "completed"});
    post(&close, "close", "/v1/ack", &done).await;

    let ask = json!({"origin": "close", "target": bob.address(), "kind": "request", "body": "And 124?",
                     "idempotency_key": "k1", "context": "the close"});
    let asked = post(&close, "close", "/v1/messages", &ask).await["message_id"].clone();
    let request = billing.pull_one().await;
    assert_eq!((&request["id"], &request["body"]), (&asked, &json!({"text": "And 124?"})));
    billing.ack(&request).await;
    let event = close.send(&json!({"to": "topic:finance/invoices", "body": {"text": "paid"}})).await;
    tokio::time::timeout(std::time::Duration::from_secs(60), async {
        while close.status(&event).await["status"] != json!("done") {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the event was not published");
    assert_eq!(billing.recent().await.len(), 2, "nothing twice");

    let violations = outside(&relay, "/_violations").await;
    let wrong: Vec<_> =
        violations.as_array().unwrap().iter().filter(|one| one["level"] == "violation").collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Lets the relay's leases run out while something is waited for.
async fn leased_out<T>(relay: &FakeRelay, waited: impl Future<Output = T>) -> T {
    let mut waited = std::pin::pin!(waited);
    loop {
        // Real time: the bridges' own back-off passes meanwhile.
        match tokio::time::timeout(std::time::Duration::from_secs(5), &mut waited).await {
            Ok(done) => return done,
            Err(_) => control(relay, json!({"op": "clock", "advance": 901})).await,
        }
    }
}

#[tokio::test]
async fn a_strict_relay_finds_nothing_wrong_with_the_exchange() {
    let folder = tempfile::tempdir().unwrap();
    let Some(relay) = fake_relay(folder.path()) else {
        eprintln!("not judged: REDSYN_KIT and REDSYN_KIT_PYTHON are not set (docs/fake-relay.md)");
        return;
    };
    let (ana, bob) = members();
    let close = BridgeProcess::start(&folder.path().join("acme"), &ana, &bob, &relay.base);
    let billing = BridgeProcess::start(&folder.path().join("globex"), &bob, &ana, &relay.base);
    close.register().await;
    billing.register().await;

    let id =
        close.send(&json!({"to": bob.address(), "kind": "request", "body": {"text": "Is it paid?"}})).await;
    let request = billing.pull_one().await;
    assert_eq!(
        (&request["body"], &request["redsyn"]["verified"]),
        (&json!({"text": "Is it paid?"}), &json!(true))
    );
    assert_eq!(request["redsyn"]["encrypted"], json!(true));
    let reply =
        json!({"to": request["from"], "kind": "reply", "parentId": request["id"], "body": {"text": "Yes."}});
    billing.send(&reply).await;
    billing.ack(&request).await;
    let answer = close.pull_one().await;
    assert_eq!((&answer["body"], &answer["parentId"]), (&json!({"text": "Yes."}), &json!(id)));
    close.ack(&answer).await;

    assert_eq!(outside(&relay, "/_violations").await, json!([]), "violations or warnings");
}
