//! The real binary three times: one relay, two bridges. A v1.1 client asks through one and gets its answer through
//! the other; what travelled is then checked byte by byte with the keys from the nodes' own files.

use std::path::Path;

use redsyn_bridge::bridge::keys::NodeKeys;
use redsyn_bridge::crypto::seal::{self, Enc};
use redsyn_bridge::crypto::sealed_content::SealedContent;
use redsyn_bridge::crypto::secret::Secret;
use redsyn_bridge::crypto::{jcs, json};
use redsyn_bridge::domain::clock::SystemClock;
use redsyn_bridge::proto::redsyn::signed;
use serde_json::{Value, json};

use crate::support::bridge::BridgeProcess;
use crate::support::process::{Process, run};
use crate::support::world::{Member, found, link, write};

/// Adds a person and a node with the command line, and gives the node's token.
fn node(folder: &Path, email: &str) -> Secret {
    let relay = ["relay", "--config", "relay.yaml"];
    let user =
        run(folder, &[&relay[..], &["user", "add", "--email", email, "--plan", "enterprise"]].concat());
    assert!(user.status.success(), "{user:?}");
    let node = run(folder, &[&relay[..], &["node", "add", "--user", email, "--name", "laptop"]].concat());
    assert!(node.status.success(), "{node:?}");
    Secret::new(String::from_utf8(node.stdout).unwrap().trim())
}

fn keys(bridge: &BridgeProcess) -> NodeKeys {
    NodeKeys::parse(&std::fs::read_to_string(bridge.folder.join("data/node.key")).unwrap()).unwrap()
}

#[tokio::test]
async fn a_sealed_request_crosses_two_bridges_and_its_answer_returns() {
    let folder = tempfile::tempdir().unwrap();
    let relay_folder = folder.path().join("relay");
    write(&relay_folder, "relay.yaml", "listen: 127.0.0.1:0\ndataDir: ./data\n");
    let ana = node(&relay_folder, "ana@acme.example");
    let bob = node(&relay_folder, "bob@globex.example");
    let ana = Member { org: "acme", team: "finance", user: "ana", agent: "close", token: ana };
    let bob = Member { org: "globex", team: "erp", user: "bob", agent: "billing", token: bob };
    let mut relay = Process::start(&relay_folder, &["relay", "--config", "relay.yaml", "serve"]);
    let line = relay.wait_for("listening on http://").pop().unwrap();
    let url = format!("{}/redsyn/v1", line.split_once("listening on ").unwrap().1);
    found(&ana, &url).await;
    found(&bob, &url).await;
    link(&ana, &bob, &url).await;
    link(&bob, &ana, &url).await;

    let close = BridgeProcess::start(&folder.path().join("acme"), &ana, &bob, &url);
    let billing = BridgeProcess::start(&folder.path().join("globex"), &bob, &ana, &url);
    close.register().await;
    billing.register().await;

    let asked = json!({"question": "Is invoice 123 paid?", "números": [1, 2.5, "ñ 📨"], "nested": {"b": null, "a": ""}});
    let id = close.send(&json!({"to": bob.address(), "kind": "request", "body": asked, "ack": true})).await;
    let request = billing.pull_one().await;
    assert_eq!(request["id"], json!(id));
    assert_eq!(request["from"], json!(ana.address()));
    assert_eq!(request["to"], json!("billing"));
    assert_eq!(request["kind"], json!("request"));
    assert_eq!(request["body"].to_string(), asked.to_string(), "the body is the same, byte by byte");
    assert_eq!(request["ack"], json!(true), "the wish for a receipt crosses");
    assert_eq!(request["rootId"], json!(id));
    let metadata = &request["redsyn"];
    assert_eq!(metadata["verified"], json!(true));
    assert_eq!(metadata["encrypted"], json!(true));
    assert_eq!(metadata["refs"], json!([]), "our own reference is taken out");
    assert_eq!(metadata["fingerprint"], json!(keys(&close).signing.verifying_key().fingerprint()));

    let reply = json!({"to": request["from"], "kind": "reply", "parentId": id, "body": {"text": "Yes."}});
    let reply_id = billing.send(&reply).await;
    billing.ack(&request).await;
    let answer = close.pull_one().await;
    assert_eq!(answer["id"], json!(reply_id));
    assert_eq!(answer["from"], json!(bob.address()));
    assert_eq!(answer["kind"], json!("reply"));
    assert_eq!(
        (&answer["parentId"], &answer["replyTo"], &answer["rootId"]),
        (&json!(id), &json!(id), &json!(id))
    );
    assert_eq!(answer["body"], json!({"text": "Yes."}));
    assert_eq!(answer["redsyn"]["verified"], json!(true));
    assert_eq!(answer["redsyn"]["encrypted"], json!(true));
    close.ack(&answer).await;
    assert_eq!(close.status(&id).await["status"], json!("done"));

    let client = ana.relay(&url, SystemClock::shared());
    let thread = client.get(&format!("/threads/{id}")).await.unwrap();
    let travelled = thread["items"].as_array().unwrap();
    assert_eq!(travelled.len(), 2);
    let opened = open_as(&travelled[0], &keys(&close), &keys(&billing), "request");
    assert_eq!(opened.body, json!({"type": "application/json", "data": asked}));
    assert_eq!(opened.reply_key, keys(&close).enc.enc_key().to_string());
    let opened = open_as(&travelled[1], &keys(&billing), &keys(&close), "reply");
    assert_eq!(opened.body, json!({"type": "text/plain", "text": "Yes."}));
    for item in travelled {
        let text = item.to_string();
        assert!(!text.contains("invoice") && !text.contains("Yes."), "the relay can read it: {text}");
    }
    drop((close, billing));
    #[cfg(unix)]
    assert_eq!(relay.terminate(), Some(0));
}

/// Checks the signature over exactly what travelled, by exactly the sender's key, and opens the seal.
fn open_as(item: &Value, sender: &NodeKeys, recipient: &NodeKeys, kind: &str) -> SealedContent {
    let envelope = item.as_object().unwrap();
    let signer = signed::check_delivered(envelope).unwrap();
    assert_eq!(signer.key, sender.signing.verifying_key());
    let payload = envelope["sig"]["payload"].as_str().unwrap();
    let parsed = json::parse(payload.as_bytes()).unwrap();
    assert_eq!(jcs::canonical(&parsed).unwrap(), payload.as_bytes(), "the payload is canonical JSON");
    assert_eq!(envelope["kind"], json!(kind));
    assert_eq!(envelope["refs"], json!([]));
    let enc = Enc::from_body(&envelope["body"]).unwrap();
    let id = envelope["id"].as_str().unwrap();
    assert!(seal::open(&sender.enc, id, kind, &enc).is_err(), "nobody but the recipient opens it");
    SealedContent::parse(&seal::open(&recipient.enc, id, kind, &enc).unwrap()).unwrap()
}
