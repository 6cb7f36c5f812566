//! `redsyn-bridge relay`, as an operator and a supervisor use it.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::target::Node;
use crate::support::process::{Process, run};
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
    let (code, out, error) = relay(folder.path(), &["user", "ls"]);
    assert_eq!((code, out.as_str(), error.lines().count()), (Some(1), "", 1), "{error}");
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

#[cfg(unix)]
#[expect(
    clippy::disallowed_methods,
    reason = "how long another process takes is told by the real clock alone"
)]
fn now() -> Instant {
    Instant::now()
}
