//! The demo's exchange against an independent, strict relay (docs/fake-relay.md): its log must show no violation.
//! Runs where `REDSYN_KIT` names the kit's folder and `REDSYN_KIT_PYTHON` a Python with its requirements.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use redsyn_bridge::crypto::secret::Secret;
use serde_json::{Value, json};

use crate::support::bridge::BridgeProcess;
use crate::support::proxy::http;
use crate::support::world::{Member, write};

struct FakeRelay {
    child: Child,
    base: String,
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
fn fake_relay(folder: &std::path::Path) -> Option<FakeRelay> {
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

async fn outside(relay: &FakeRelay, path: &str) -> Value {
    let root = relay.base.strip_suffix("/redsyn/v1").unwrap();
    http().get(format!("{root}{path}")).send().await.unwrap().json().await.unwrap()
}

#[tokio::test]
async fn a_strict_relay_finds_nothing_wrong_with_the_exchange() {
    let folder = tempfile::tempdir().unwrap();
    let Some(relay) = fake_relay(folder.path()) else {
        eprintln!("not judged: REDSYN_KIT and REDSYN_KIT_PYTHON are not set (docs/fake-relay.md)");
        return;
    };
    let member = |org, team, user, agent, token| Member { org, team, user, agent, token: Secret::new(token) };
    let ana = member("acme", "finance", "ana", "close", "tok-ana");
    let bob = member("globex", "erp", "bob", "billing", "tok-bob");
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
