//! The commands that look at a node and decide for it, with the real binary: while it runs, and while it does not.

use std::path::Path;

use serde_json::{Value, json};

use crate::golden::broker::free_port;
use crate::support::bridge::BridgeProcess;
use crate::support::process::{Process, run};
use crate::support::world::{World, write};

/// The answer of a command that worked.
fn answer(folder: &Path, arguments: &[&str]) -> Value {
    let output = run(folder, &[arguments, &["--json"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {text}{errors}");
    serde_json::from_str(&text).unwrap()
}

fn text(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The sentence of a command that failed.
fn failure(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn config(folder: &Path) {
    let yaml = include_str!("../../config.yaml")
        .replace("19121", &free_port().to_string())
        .replace("19122", &free_port().to_string());
    write(folder, "config.yaml", &yaml);
}

#[test]
fn status_tells_of_a_running_node_and_of_a_stopped_one() {
    let folder = tempfile::tempdir().unwrap();
    config(folder.path());
    let early = failure(folder.path(), &["status"]);
    assert!(early.contains("no data folder") && early.contains("serve"), "{early}");
    let mut process = Process::start(folder.path(), &["serve"]);
    process.wait_for("  stop ");
    process.wait_for_log("relay_link_up");
    let status = answer(folder.path(), &["status"]);
    assert_eq!((&status["running"], &status["relay"]["connected"]), (&json!(true), &json!(true)));
    assert_eq!((&status["outbox"], &status["relay"]["mode"]), (&json!(0), &json!("embedded")));
    let shown = text(folder.path(), &["status"]);
    for part in ["is running (process", "connected since", "home/general/me/codex", "never seen"] {
        assert!(shown.contains(part), "no {part:?} in\n{shown}");
    }
    assert!(text(folder.path(), &["outbox"]).contains("the outbox is empty"));
    assert!(failure(folder.path(), &["trace", "nobody"]).contains("no message here is called"));
    let fingerprint = answer(folder.path(), &["keys", "show"])["fingerprint"].clone();

    let admin = folder.path().join("data/admin.json");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&admin).unwrap().permissions().mode() & 0o777, 0o600);
    }
    // A process that is killed leaves the file behind; the lock tells that it is stale.
    process.kill();
    assert!(admin.exists());
    let status = answer(folder.path(), &["status"]);
    assert_eq!((&status["running"], &status["relay"]["connected"]), (&json!(false), &json!(false)));
    assert!(!admin.exists(), "the stale file is gone");
    assert!(text(folder.path(), &["status"]).contains("is not running"));
    assert_eq!(answer(folder.path(), &["keys", "show"])["fingerprint"], fingerprint);
}

#[test]
fn selfcheck_looks_at_what_must_be_right_and_says_what_is_not() {
    let folder = tempfile::tempdir().unwrap();
    config(folder.path());
    let checked = answer(folder.path(), &["selfcheck"]);
    let words = |checked: &Value| {
        let checks = checked["checks"].as_array().unwrap().iter();
        checks.map(|one| format!("{} {}", one["check"].as_str().unwrap(), one["ok"])).collect::<Vec<_>>()
    };
    assert_eq!(words(&checked)[..3], ["configuration true", "disk true", "round trip true"]);
    assert!(words(&checked)[3..].iter().all(|word| word.ends_with("null")), "nothing runs: {checked}");

    let mut process = Process::start(folder.path(), &["serve"]);
    process.wait_for("  stop ");
    process.wait_for_log("relay_link_up");
    let checked = answer(folder.path(), &["selfcheck"]);
    assert_eq!(words(&checked)[3..], ["broker true", "relay true", "clock true"], "{checked}");
    let shown = text(folder.path(), &["selfcheck"]);
    assert!(shown.contains("redsyn-bridge/") && shown.contains("(protocol "), "{shown}");
    process.kill();

    std::fs::remove_dir_all(folder.path().join("data")).unwrap();
    write(folder.path(), "data", "a file in its place");
    let text = include_str!("../../config.yaml").replace("dataDir: ./data", "dataDir: ./data/in/it");
    write(folder.path(), "config.yaml", &text);
    let output = run(folder.path(), &["selfcheck"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("FAILED   disk") && shown.contains("data is no folder"), "{shown}");
}

/// Answers each call with `answer` until the test ends.
fn impostor(answer: &'static str) -> std::net::SocketAddr {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let head =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", answer.len());
            let _ = stream.write_all((head + answer).as_bytes());
        }
    });
    address
}

#[test]
fn selfcheck_tells_who_else_listens_where_the_broker_should() {
    for (answer, told) in [
        (r#"{"broker": "dsh-agent-relay", "protocol": "1.0"}"#, "is the Node broker"),
        (r#"{"broker": "dsh-agent-relay", "protocol": "9.0"}"#, "speaks protocol 9.0"),
        (
            r#"{"broker": "dsh-agent-relay", "protocol": "1.0", "implementation": "redsyn-bridge/x"}"#,
            "with another data folder",
        ),
        (r#"{"hello": "world"}"#, "is another program"),
        ("not even JSON", "is another program"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let port = impostor(answer).port();
        write(
            folder.path(),
            "config.yaml",
            &format!("broker: {{ port: {port}, secret: s, dataDir: ./data }}\n"),
        );
        let output = run(folder.path(), &["selfcheck"]);
        let shown = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{shown}");
        assert!(shown.contains("FAILED   broker") && shown.contains(told), "no {told:?} in\n{shown}");
    }
}

#[test]
fn a_broker_that_keeps_nothing_is_looked_at_from_outside() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    write(folder.path(), "config.yaml", &format!("broker: {{ port: {port}, secret: s, persist: false }}\n"));
    let checked = answer(folder.path(), &["selfcheck"]);
    assert_eq!(
        (&checked["checks"][3]["check"], &checked["checks"][3]["ok"]),
        (&json!("broker"), &Value::Null)
    );
    let told = failure(folder.path(), &["status"]);
    assert!(told.contains("persist is false") && told.contains("selfcheck"), "{told}");
    let mut process = Process::start(folder.path(), &["serve"]);
    process.wait_for("  stop ");
    let checked = answer(folder.path(), &["selfcheck"]);
    assert_eq!(
        (&checked["checks"][3]["check"], &checked["checks"][3]["ok"]),
        (&json!("broker"), &json!(true))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn selfcheck_fails_when_the_relay_has_another_key_for_this_node_and_a_rotation_ends_that() {
    let world = World::new().await;
    let (ana, bob) = (world.folder.path().join("ana"), world.folder.path().join("bob"));
    let mut close = BridgeProcess::start(&ana, &world.ana, &world.bob, &world.url());
    close.log_of("relay_link_up").await;
    close.kill();
    let keys = ana.join("data/node.key");
    std::fs::remove_file(&keys).unwrap();
    close.restart();
    close.log_of("relay_link_down").await;
    let output = run(&ana, &["selfcheck"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("FAILED   relay") && shown.contains("keys rotate"), "{shown}");
    assert_eq!(answer(&ana, &["keys", "rotate"])["rotated"], json!(true));
    assert_eq!(answer(&ana, &["selfcheck"])["ok"], json!(true));

    // Once mail has crossed, nobody makes new keys in silence.
    let billing = BridgeProcess::start(&bob, &world.bob, &world.ana, &world.url());
    billing.register().await;
    close.register().await;
    close.send(&json!({"to": world.bob.address(), "kind": "request", "body": {"text": "hi"}})).await;
    billing.pull_one().await;
    close.kill();
    std::fs::remove_file(&keys).unwrap();
    let refused = failure(&ana, &["serve"]);
    assert!(refused.contains("node.key is missing") && refused.contains("keys rotate"), "{refused}");
    assert!(!keys.exists());
    answer(&ana, &["keys", "rotate"]);
    close.restart();
    close.log_of("relay_link_up").await;
    assert_eq!(answer(&ana, &["selfcheck"])["ok"], json!(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn selfcheck_fails_when_the_relay_does_not_take_the_token_or_the_clock_is_off() {
    let world = World::new().await;
    let ana = world.folder.path().join("ana");
    let close = BridgeProcess::start(&ana, &world.ana, &world.bob, &world.url());
    close.register().await;
    let clock = |output: &Value| output["checks"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(clock(&answer(&ana, &["selfcheck"]))["ok"], json!(true));
    world.clock.advance(std::time::Duration::from_secs(3600));
    let output = run(&ana, &["selfcheck", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let checked: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(clock(&checked)["what"].as_str().unwrap().contains("set this machine's clock"), "{checked}");
    world.relay.stop().await.unwrap();
    let output = run(&ana, &["selfcheck", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let status = answer(&ana, &["status"]);
    assert_eq!(status["relay"]["connected"], json!(false), "{status}");
}

#[cfg(unix)]
#[test]
fn the_admin_file_goes_with_an_orderly_stop() {
    let folder = tempfile::tempdir().unwrap();
    config(folder.path());
    let mut process = Process::start(folder.path(), &["serve"]);
    process.wait_for("  stop ");
    assert!(folder.path().join("data/admin.json").exists());
    assert_eq!(process.terminate(), Some(0));
    assert!(!folder.path().join("data/admin.json").exists());
}

#[test]
fn what_is_misspelt_is_refused_before_anything_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in
        [&["keys", "accept", "bob"][..], &["keys", "allow-plain", "a/b/c"], &["keys", "confirm", "a/b"]]
    {
        assert_eq!(run(folder.path(), arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_waits_for_a_person_who_accepts_it() {
    let world = World::new().await;
    let (ana, bob) = (world.folder.path().join("ana"), world.folder.path().join("bob"));
    let close = BridgeProcess::start(&ana, &world.ana, &world.bob, &world.url());
    let billing = BridgeProcess::start(&bob, &world.bob, &world.ana, &world.url());
    close.register().await;
    billing.register().await;
    let ask =
        |n: u8| json!({"to": world.bob.address(), "kind": "request", "body": {"text": format!("q{n}")}});
    let first = close.send(&ask(1)).await;
    let question = billing.pull_one().await;
    billing.ack(&question).await;
    let trace = answer(&ana, &["trace", &first]);
    let stages = &trace["messages"][0]["local"]["stages"];
    assert!(stages["stored"].is_string() && stages["accepted"].is_string(), "{trace}");
    assert_eq!(trace["messages"][0]["redsyn"]["id"], json!(first));

    // Bob knows ana by her first key, and confirms it.
    let pins = answer(&bob, &["keys", "pins"]);
    let fingerprint = answer(&ana, &["keys", "show"])["fingerprint"].as_str().unwrap().to_owned();
    assert_eq!(pins["pins"][0]["fingerprint"], json!(fingerprint));
    assert_eq!(pins["pins"][0]["verified"], json!(false));
    assert!(failure(&bob, &["keys", "confirm", "acme/ana", "0000"]).contains(&fingerprint));
    assert!(text(&bob, &["keys", "confirm", "acme/ana", &fingerprint]).contains("verified"));

    let rotated = answer(&ana, &["keys", "rotate"]);
    assert_eq!(rotated["rotated"], json!(true), "{rotated}");
    assert_ne!(rotated["fingerprint"], json!(fingerprint));
    assert!(ana.join("data/node.key.old").exists());
    let mut billing = billing;
    let second = close.send(&ask(2)).await;
    let waited = billing.log_of("inbound_held").await;
    assert!(waited.contains(&second), "{waited}");
    let held = answer(&bob, &["held"]);
    assert_eq!(held["inbound"][0]["id"], json!(second));
    let shown = text(&bob, &["held"]);
    assert!(shown.contains("keys accept acme/ana") && shown.contains("keys reject acme/ana"), "{shown}");
    assert!(text(&bob, &["status"]).contains("1 message from outside"));

    let accepted = answer(&bob, &["keys", "accept", "acme/ana"]);
    assert_eq!(
        (&accepted["fingerprint"], &accepted["released"]["inbound"]),
        (&rotated["fingerprint"], &json!(1))
    );
    assert_eq!(billing.pull_one().await["id"], json!(second));
    assert!(text(&bob, &["held"]).contains("nothing is held"));
    let stages = answer(&bob, &["trace", &second])["messages"][0]["local"]["stages"].clone();
    assert!(stages["held"].is_string() && stages["leased"].is_string(), "{stages}");
    assert!(failure(&bob, &["keys", "accept", "acme/ana"]).contains("no mail waits"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_is_made_while_nothing_runs_and_keys_wait_for_the_relay() {
    let world = World::new().await;
    let (ana, bob) = (world.folder.path().join("ana"), world.folder.path().join("bob"));
    let mut close = BridgeProcess::start(&ana, &world.ana, &world.bob, &world.url());
    let mut billing = BridgeProcess::start(&bob, &world.bob, &world.ana, &world.url());
    close.register().await;
    billing.register().await;
    let ask = json!({"to": world.bob.address(), "kind": "request", "body": {"text": "first"}});
    close.send(&ask).await;
    let question = billing.pull_one().await;
    billing.ack(&question).await;
    close.kill();
    let rotated = answer(&ana, &["keys", "rotate"]);
    assert_eq!(rotated["rotated"], json!(false));
    assert_eq!(answer(&ana, &["keys", "show"])["next"]["fingerprint"], rotated["fingerprint"]);
    close.restart();
    close.register().await;
    let second = close.send(&ask).await;
    billing.log_of("inbound_held").await;
    assert_eq!(answer(&ana, &["keys", "show"])["fingerprint"], rotated["fingerprint"]);
    billing.kill();
    answer(&bob, &["keys", "accept", "acme/ana"]);
    billing.restart();
    billing.register().await;
    assert_eq!(billing.pull_one().await["id"], json!(second));
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_reads_contacts_and_agents_again() {
    let world = World::new().await;
    let ana = world.folder.path().join("ana");
    let close = BridgeProcess::start(&ana, &world.ana, &world.bob, &world.url());
    close.register().await;
    let before = std::fs::read_to_string(ana.join("config.yaml")).unwrap();
    write(
        &ana,
        "config.yaml",
        &format!("{before}    shout: {{}}\n  contacts:\n    bob-billing: {}\n", world.bob.address()),
    );
    let reloaded = answer(&ana, &["reload"]);
    assert_eq!((&reloaded["contacts"], &reloaded["announced"]), (&json!(1), &json!(true)), "{reloaded}");
    let id = close.send(&json!({"to": "bob-billing", "kind": "request", "body": {"text": "hi"}})).await;
    assert_eq!(answer(&ana, &["trace", &id])["messages"][0]["redsyn"]["remote"], json!(world.bob.address()));

    // A file that is wrong changes nothing, however it is asked for.
    write(&ana, "config.yaml", &before.replace("scope: acme", "scope: ACME"));
    assert_eq!(run(&ana, &["reload"]).status.code(), Some(2));
    close.send(&json!({"to": "bob-billing", "kind": "request", "body": {"text": "still"}})).await;
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn sighup_reads_the_configuration_again_or_says_why_not() {
    let world = World::new().await;
    let ana = world.folder.path().join("ana");
    let mut close = BridgeProcess::start(&ana, &world.ana, &world.bob, &world.url());
    close.register().await;
    close.log_of("relay_link_up").await;
    let before = std::fs::read_to_string(ana.join("config.yaml")).unwrap();
    write(&ana, "config.yaml", &before.replace("agents:", "agent:"));
    close.hang_up();
    let why = close.log_of("not_reloaded").await;
    assert!(why.contains("nothing was changed"), "{why}");
    write(&ana, "config.yaml", &format!("{before}  contacts:\n    bob-billing: {}\n", world.bob.address()));
    close.hang_up();
    close.log_of("contacts=1").await;
    close.send(&json!({"to": "bob-billing", "kind": "request", "body": {"text": "hi"}})).await;
}

#[test]
fn what_is_to_be_typed_next_names_the_configuration_that_was_named() {
    let folder = tempfile::tempdir().unwrap();
    let made = text(folder.path(), &["init", "--config", "my own.yaml"]);
    assert!(made.contains("serve --config \"my own.yaml\"\n"), "{made}");
    let yaml = format!("broker: {{ port: {}, secret: s, dataDir: ./data }}\n", free_port());
    for file in ["config.yaml", "other.yaml"] {
        write(folder.path(), file, &yaml);
    }
    for (file, next) in [("config.yaml", "serve`"), ("other.yaml", "serve --config other.yaml`")] {
        let told = failure(folder.path(), &["status", "--config", file]);
        assert!(told.contains(next), "{told}");
        let shown = text(folder.path(), &["selfcheck", "--config", file]);
        assert!(shown.contains(next), "{shown}");
    }
}
