//! `compat/node/index.js`: what a plugin starts in place of the Node broker.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use crate::golden::broker::free_port;
use crate::support::world::write;

const SHIM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/compat/node/index.js");

/// Without Node there is no plugin either. With `REQUIRE_NODE` set that is no excuse.
fn has_node() -> bool {
    let is_there = Command::new("node").arg("--version").stdout(Stdio::null()).status().is_ok();
    assert!(is_there || std::env::var_os("REQUIRE_NODE").is_none(), "there is no node on the PATH");
    if !is_there {
        eprintln!("skipped: there is no node on the PATH");
    }
    is_there
}

/// `None` without Node.
fn shim(folder: &std::path::Path) -> Option<(Child, impl BufRead + use<>)> {
    started(folder, ("REDSYN_BRIDGE_BIN", env!("CARGO_BIN_EXE_redsyn-bridge")))
}

fn started(folder: &std::path::Path, variable: (&str, &str)) -> Option<(Child, impl BufRead + use<>)> {
    if !has_node() {
        return None;
    }
    write(folder, "config.yaml", &format!("broker:\n  port: {}\n  secret: s\n", free_port()));
    let mut child = Command::new("node")
        .arg(SHIM)
        .args(["--config", "config.yaml"])
        .current_dir(folder)
        .env_remove("REDSYN_BRIDGE_BIN")
        .env(variable.0, variable.1)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("stop ") {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "it did not start");
    }
    Some((child, output))
}

#[cfg(unix)]
#[test]
fn it_passes_signals_on_and_the_exit_code_back() {
    let folder = tempfile::tempdir().unwrap();
    for signal in ["-TERM", "-INT"] {
        let Some((mut child, _output)) = shim(folder.path()) else { return };
        let pid = child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn the_broker_ends_with_a_parent_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let Some((mut child, mut output)) = shim(folder.path()) else { return };
    child.kill().unwrap();
    child.wait().unwrap();
    // The broker holds the other end of our pipe: reading ends when it does.
    output.read_to_end(&mut Vec::new()).unwrap();
}

#[cfg(unix)]
#[test]
fn without_a_name_the_program_is_the_one_on_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let programs = folder.path().join("programs");
    std::fs::create_dir(&programs).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_redsyn-bridge"), programs.join("redsyn-bridge")).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let Some((mut child, _output)) = started(folder.path(), ("PATH", &path)) else { return };
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    if !has_node() {
        return;
    }
    let output = Command::new("node")
        .arg(SHIM)
        .current_dir(folder.path())
        .env("REDSYN_BRIDGE_BIN", "no-such-program")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("no-such-program") && text.contains("REDSYN_BRIDGE_BIN"), "{text}");
}

#[test]
fn a_configuration_that_is_wrong_ends_it_with_the_programs_own_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    if !has_node() {
        return;
    }
    write(folder.path(), "named.yaml", "broker:\n  port: nonsense\n  secret: s\n");
    let output = Command::new("node")
        .args([SHIM, "--config", "named.yaml"])
        .current_dir(folder.path())
        .env("REDSYN_BRIDGE_BIN", env!("CARGO_BIN_EXE_redsyn-bridge"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && text.contains("named.yaml"), "{text}");
}
