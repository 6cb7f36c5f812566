//! `init` and `config check` with the real binary: what is written, what is understood, and what is refused as `serve`
//! refuses it.

use std::collections::BTreeSet;
use std::path::Path;

use crate::golden::broker::free_port;
use crate::support::process::{Process, run};
use crate::support::world::write;

/// The sentence of a command that found the configuration wrong.
fn wrong(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    text.lines().find(|line| line.starts_with("redsyn-bridge: ")).unwrap().to_owned()
}

fn checked(folder: &Path) -> String {
    let output = run(folder, &["config", "check"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_check_refuses_serve_refuses_in_the_same_words() {
    let folder = tempfile::tempdir().unwrap();
    for (yaml, told) in [
        (
            "broker:\n  port: 4000\n  secret: s\nredsyn:\n  scope: a/b/c\n  listen: 127.0.0.1:4000\n",
            "config.yaml:6: redsyn.listen is 127.0.0.1:4000, where the broker listens",
        ),
        (
            "broker:\n  secret: s\n  host: not a host\n",
            "config.yaml:3: broker.host \"not a host\" is no address",
        ),
        ("broker:\n  secret: s\n  dataDir: ~/data\n", "config.yaml:3: broker.dataDir begins with ~"),
        ("agents:\n  a:\n    secret: s\nbroker:\n  port: 1\n", "config.yaml:4: broker.secret is missing"),
    ] {
        write(folder.path(), "config.yaml", yaml);
        let sentence = wrong(folder.path(), &["config", "check"]);
        assert!(sentence.contains(told), "{sentence}");
        assert_eq!(sentence, wrong(folder.path(), &["serve"]));
    }
}

#[test]
fn what_is_of_another_kind_on_the_disk_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "file", "");
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    for (lines, told) in [
        ("secret: s\n  dataDir: ./file", "config.yaml:3: broker.dataDir is "),
        ("secret: s\n  dataDir: ./file/in/it", "config.yaml:3: broker.dataDir is "),
        ("secretFile: ./folder", "config.yaml:2: broker.secretFile is "),
        ("secretFile: ./file/secret", "config.yaml:2: broker.secretFile is "),
        ("secret: s\nredsyn:\n  relay: off\n  tokenFile: ./folder", "config.yaml:5: redsyn.tokenFile is "),
    ] {
        write(folder.path(), "config.yaml", &format!("broker:\n  {lines}\n"));
        let sentence = wrong(folder.path(), &["config", "check"]);
        assert!(sentence.contains(told) && sentence.contains("folder"), "{lines}: {sentence}");
    }
    // What is there already, and what a start makes.
    write(folder.path(), "config.yaml", "broker:\n  secretFile: ./file\n  dataDir: ./folder\n");
    checked(folder.path());
    write(folder.path(), "config.yaml", "broker:\n  secretFile: ./new/secret\n  dataDir: ./new/in/it\n");
    checked(folder.path());
    assert!(!folder.path().join("new").exists(), "looking makes nothing");
}

#[test]
fn what_is_allowed_but_odd_is_told_beside_what_is_understood() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = "broker:\n  secret: hunter#2\nredsyn:\n  scope: a/b/c\n  listen: 0.0.0.0:4000\n  agents:\n    x: { allow: everyone }\n";
    write(folder.path(), "config.yaml", yaml);
    let text = checked(folder.path());
    assert!(text.starts_with("config.yaml is right\n") && !text.contains("hunter"), "{text}");
    for part in [
        "warning: config.yaml:2: broker.secret means something else to the Node broker",
        "warning: config.yaml:5: redsyn.listen listens beyond this machine",
        "warning: config.yaml:7: redsyn.agents.x.allow has \"everyone\"",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
}

#[test]
fn serve_says_what_the_node_broker_read_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = format!("broker:\n  port: {}\n  secret: hunter#2\n", free_port());
    write(folder.path(), "config.yaml", &yaml);
    let mut process = Process::start(folder.path(), &["serve"]);
    process.wait_for_log("broker.secret means something else to the Node broker");
    process.wait_for("  stop ");
    process.kill();
}

#[test]
fn each_init_writes_a_secret_of_its_own_for_its_owner_alone() {
    let mut secrets = BTreeSet::new();
    for _ in 0..2 {
        let folder = tempfile::tempdir().unwrap();
        assert!(run(folder.path(), &["init"]).status.success());
        let file = folder.path().join("config.yaml");
        let text = std::fs::read_to_string(&file).unwrap();
        let line = text.lines().find(|line| line.starts_with("  secret: ")).unwrap();
        let secret = line.split('"').nth(1).unwrap().to_owned();
        assert!(secret.len() == 64 && secret.bytes().all(|byte| byte.is_ascii_hexdigit()), "{secret}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert!(!run(folder.path(), &["init"]).status.success());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "it never overwrites");
        secrets.insert(secret);
    }
    assert_eq!(secrets.len(), 2, "both have the same");
}
