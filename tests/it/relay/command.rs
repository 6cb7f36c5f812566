//! `redsyn-bridge relay`, as an operator and a supervisor use it.

use std::path::Path;
#[cfg(unix)]
use std::time::{Duration, Instant};

#[cfg(unix)]
use redsyn_bridge::domain::clock::{Clock, SystemClock};
use serde_json::json;

use super::target::Node;
#[cfg(unix)]
use super::target::{key, request, signed_at, text, with};
#[cfg(unix)]
use crate::support::process::binary;
use crate::support::process::{Process, run};
#[cfg(unix)]
use crate::support::receiver::Receiver;
use crate::support::world::write;

const CONFIG: &str = "listen: 127.0.0.1:0\ndataDir: ./data\n";

fn relay(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = run(folder, &[&["relay", "--config", "relay.yaml"], arguments].concat());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim().to_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn scripts_get_just_the_id_and_just_the_token() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "relay.yaml", CONFIG);
    let (code, id, _) =
        relay(folder.path(), &["user", "add", "--email", "ana@acme.example", "--plan", "pro"]);
    assert_eq!((code, id.as_str()), (Some(0), "p1"));
    let (code, token, _) =
        relay(folder.path(), &["node", "add", "--user", "ana@acme.example", "--name", "a"]);
    assert!(code == Some(0) && token.starts_with("rsn_") && !token.contains(char::is_whitespace));
    let (_, all, _) = relay(folder.path(), &["node", "add", "--user", "p1", "--name", "b", "--json"]);
    let all: serde_json::Value = serde_json::from_str(&all).unwrap();
    assert_eq!((&all["user"], &all["name"]), (&json!("p1"), &json!("b")));
    let (_, list, _) = relay(folder.path(), &["user", "ls"]);
    assert!(list.contains("ana@acme.example") && !list.contains("rsn_"), "{list}");
    for wrong in [
        ["user", "add", "--email", "ana@acme.example", "--plan", "pro"],
        ["user", "add", "--email", "beto@acme.example", "--plan", "gold"],
        ["node", "add", "--user", "nobody@acme.example", "--name", "a"],
        ["node", "add", "--user", "p1", "--name", "a"],
    ] {
        let (code, out, error) = relay(folder.path(), &wrong);
        assert_eq!((code, out.as_str(), error.lines().count()), (Some(1), "", 1), "{error}");
    }
}

#[test]
fn a_relay_for_others_without_tls_says_so_at_its_start() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "relay.yaml", "dataDir: ./data\nlisten: 0.0.0.0:0\n");
    let mut process = Process::start(folder.path(), &["relay", "--config", "relay.yaml", "serve"]);
    let log = process.wait_for_log("warning: ");
    assert!(
        log.last().unwrap().contains("relay.yaml:2: relay.listen listens beyond this machine"),
        "{log:?}"
    );
    process.wait_for("listening on http://0.0.0.0:");
}

#[cfg(unix)]
#[tokio::test]
async fn a_running_relay_owns_its_store_and_stops_at_once_with_polls_held() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "relay.yaml", CONFIG);
    relay(folder.path(), &["user", "add", "--email", "ana@acme.example", "--plan", "pro"]);
    let (_, token, _) = relay(folder.path(), &["node", "add", "--user", "p1", "--name", "a"]);
    let mut process = Process::start(folder.path(), &["relay", "--config", "relay.yaml", "serve"]);
    let lines = process.wait_for("listening on http://127.0.0.1:");
    let url = lines.last().unwrap().split(' ').next_back().unwrap().to_owned();
    let (code, out, _) = relay(folder.path(), &["user", "ls"]);
    assert_eq!((code, out.as_str()), (Some(0), "p1  ana@acme.example  pro  a"));
    let node = Node::new(&format!("{url}/redsyn/v1"), &token);
    node.post("/orgs", json!({"handle": "acme", "me": "ana"})).await.is(201);
    let agent = "acme/general/ana/a";
    node.announce(agent, json!({})).await.is(201);
    let poll = tokio::spawn({
        let node = node.clone();
        async move { node.take_with(agent, "wait=25").await }
    });
    while node.get(&format!("/agents/{agent}")).await.body["online"] != true {}
    let stopping = now();
    let code = tokio::task::spawn_blocking(move || process.terminate()).await.unwrap();
    assert_eq!(code, Some(0));
    assert!(poll.await.unwrap().is_empty());
    assert!(stopping.elapsed() < Duration::from_secs(5));
    relay(folder.path(), &["user", "ls"]);
}

fn started(folder: &Path) -> (Process, String) {
    let mut process = Process::start(folder, &["relay", "--config", "relay.yaml", "serve"]);
    let lines = process.wait_for("listening on http://127.0.0.1:");
    let url = lines.last().unwrap().split(' ').next_back().unwrap().to_owned();
    (process, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_relay_is_administered_through_its_door() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "relay.yaml", CONFIG);
    let (process, url) = started(folder.path());
    let ask = |arguments: &[&str]| {
        let (code, out, error) = relay(folder.path(), arguments);
        assert_eq!(code, Some(0), "{error}");
        out
    };
    assert_eq!(ask(&["user", "add", "--email", "ana@acme.example", "--plan", "pro"]), "p1");
    assert_eq!(ask(&["user", "add", "--email", "eva@initech.example", "--plan", "pro"]), "p2");
    let ana = ask(&["node", "add", "--user", "ana@acme.example", "--name", "laptop"]);
    let eva = ask(&["node", "add", "--user", "p2", "--name", "desk"]);
    let (ana, eva) =
        (Node::new(&format!("{url}/redsyn/v1"), &ana), Node::new(&format!("{url}/redsyn/v1"), &eva));
    ana.post("/orgs", json!({"handle": "acme", "me": "ana"})).await.is(201);
    let invite = json!({"email": "eva@initech.example", "team": "general"});
    ana.post("/orgs/acme/invites", invite).await.is(201);
    assert_eq!(ask(&["invites"]), "acme  general  eva@initech.example");
    eva.post("/orgs/acme/join", json!({"me": "eva"})).await.is(200);
    assert_eq!(ask(&["invites"]), "");
    assert_eq!(ask(&["node", "ls"]), "n1  ana@acme.example     laptop\nn2  eva@initech.example  desk");
    assert_eq!(ask(&["node", "ls", "--user", "p2"]), "n2  eva@initech.example  desk");
    assert_eq!(ask(&["node", "rm", "n2"]), "n2");
    eva.get("/me").await.refused(401);
    assert_eq!(ask(&["user", "rm", "eva@initech.example"]), "p2");
    for (wrong, words) in [
        (&["user", "rm", "p2"][..], "there is no person p2"),
        (&["user", "rm", "p1"], "created acme"),
        (&["node", "rm", "n2"], "there is no node n2"),
        (&["node", "rm", "laptop"], "there is no node laptop"),
        (&["user", "add", "--email", "ana@acme.example", "--plan", "pro"], "taken"),
    ] {
        let (code, out, error) = relay(folder.path(), wrong);
        assert_eq!((code, out.as_str(), error.lines().count()), (Some(1), "", 1), "{error}");
        assert!(error.contains(words), "{error}");
    }
    let sign = folder.path().join("data/relay-admin.json");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&sign).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let sign: serde_json::Value = serde_json::from_slice(&std::fs::read(&sign).unwrap()).unwrap();
    let door = Node::new(&format!("http://{}", sign["address"].as_str().unwrap()), "guess");
    let command = json!({"command": "user_ls"});
    assert_eq!(
        door.request(reqwest::Method::POST, "/admin").json(&command).send().await.unwrap().status(),
        401
    );
    let door = Node::new(&door.base_url, sign["token"].as_str().unwrap());
    let asked = |body: serde_json::Value| door.request(reqwest::Method::POST, "/admin").json(&body).send();
    assert_eq!(asked(command).await.unwrap().status(), 200);
    assert_eq!(asked(json!({"command": "format"})).await.unwrap().status(), 400);
    // A killed relay leaves its sign behind; the next command goes to the store itself.
    process.kill();
    assert_eq!(ask(&["user", "ls"]), "p1  ana@acme.example  pro  laptop");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn no_body_token_or_key_is_in_a_log_that_tells_all() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "relay.yaml", &format!("{CONFIG}webhooks: {{ allow_insecure_targets: true }}\n"));
    relay(folder.path(), &["user", "add", "--email", "ana@acme.example", "--plan", "pro"]);
    let (_, token, _) = relay(folder.path(), &["node", "add", "--user", "p1", "--name", "a"]);
    let mut command = binary();
    command.args(["relay", "--config", "relay.yaml", "serve"]).env("RUST_LOG", "trace");
    let mut process = Process::spawn(command, folder.path());
    let lines = process.wait_for("listening on http://127.0.0.1:");
    let base = format!("{}/redsyn/v1", lines.last().unwrap().rsplit(' ').next().unwrap());
    let ana = Node::new(&base, &token);
    ana.post("/orgs", json!({"handle": "acme", "me": "ana"})).await.is(201);
    let (agent, hooked) = ("acme/general/ana/a", "acme/general/ana/hooked");
    let public_key = key(9).verifying_key().to_string();
    ana.put("/nodes/key", json!({"public_key": public_key})).await.is(200);
    ana.announce(agent, json!({})).await.is(201);
    ana.announce(hooked, json!({})).await.is(201);
    let mut receiver = Receiver::start().await;
    receiver.say(&[500]);
    let hook = ana.put(&format!("/agents/{hooked}/webhook"), json!({"url": receiver.url})).await.is(200);
    let files = json!({"files": {"zip": redsyn_bridge::crypto::base64url::zip_encode(b"ZIPPED-WORDS")},
                       "refs": [{"note": "REFERRED-WORDS"}], "body": text("SPOKEN-WORDS")});
    let envelope = signed_at(SystemClock.now().secs(), &key(9), with(request("m1", agent, agent), files));
    ana.send(&envelope).await.is(201);
    ana.send(&with(envelope.clone(), json!({"id": "m2"}))).await.refused(401);
    ana.take(agent).await;
    ana.get("/messages/m1/files").await.is(200);
    ana.ack(agent, &["m1"]).await;
    ana.send(&with(request("m3", agent, hooked), json!({"body": text("SPOKEN-WORDS")}))).await.is(201);
    receiver.next().await;
    let broken = ana.request(reqwest::Method::POST, "/messages").body("{\"body\": \"SPOKEN-WORDS\"");
    ana.send_request(broken).await.refused(400);
    ana.send(&with(request("m4", agent, agent), json!({"body": "SPOKEN-WORDS"}))).await.refused(422);
    Node::new(&base, "rsn_GUESSED-TOKEN").get("/me").await.refused(401);
    process.signal("-TERM");
    let log = process.wait_for_log("stopping").join("\n");
    assert!(log.contains("relay_org_created") && log.contains("TRACE"), "the log tells all: {log}");
    let sig = envelope["sig"]["value"].as_str().unwrap();
    let zip = envelope["files"]["zip"].as_str().unwrap();
    let secret = hook["secret"].as_str().unwrap();
    let words = ["SPOKEN-WORDS", "REFERRED-WORDS", "ZIPPED-WORDS", "GUESSED-TOKEN"];
    for hidden in words.into_iter().chain([token.as_str(), &public_key, sig, zip, secret]) {
        assert!(!log.contains(hidden), "{hidden} is in the log");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_metrics_are_for_whoever_runs_it() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "relay.yaml", CONFIG);
    let (_process, url) = started(folder.path());
    let nobody = Node::new(&url, "");
    assert_eq!(nobody.get("/healthz").await.is(200), json!({"ok": true}));
    let metrics = nobody.request(reqwest::Method::GET, "/metrics");
    let text = metrics.try_clone().unwrap().send().await.unwrap().text().await.unwrap();
    assert!(
        text.contains("# TYPE redsyn_relay_answers_ok_total counter\nredsyn_relay_answers_ok_total 1\n"),
        "{text}"
    );
    // A client may open a second connection before it finds the first one free.
    assert!(!text.contains("\nredsyn_relay_connections 0\n"), "{text}");
    let forwarded = metrics.header("x-forwarded-for", "203.0.113.7");
    nobody.send_request(forwarded).await.refused(404);
}

#[cfg(unix)]
#[expect(
    clippy::disallowed_methods,
    reason = "how long another process takes is told by the real clock alone"
)]
fn now() -> Instant {
    Instant::now()
}
