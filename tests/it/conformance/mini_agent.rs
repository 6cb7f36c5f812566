//! The document's complete example, written by somebody else: an agent that answers in capitals, asked in the open and
//! sealed. Judges only where the kit is, like the tests against its relay.

use std::process::Command;

use super::relay::{Relay, skipped};
use crate::support::process::Process;

fn kit() -> Option<(String, String)> {
    let python = std::env::var("REDSYN_KIT_PYTHON").ok()?;
    let kit = std::env::var("REDSYN_KIT").ok()?;
    Some((python, format!("{kit}/mini_agent.py")))
}

async fn answers_in_capitals(extra: &'static [&'static str]) {
    let Some((python, script)) = kit() else { return skipped("no kit") };
    let relay = Relay::start().await;
    let folder = tempfile::tempdir().unwrap();
    let (listener, sender) = (relay.agent(&relay.ana, "shout"), relay.agent(&relay.beto, "cli"));
    let command = |what: &str, token: &str, me: &str| {
        let mut command = Command::new(&python);
        let url = relay.ana.base_url.as_str();
        command.args([script.as_str(), what, "--base-url", url, "--me", me]).env("REDSYN_TOKEN", token);
        for (option, file) in [("--keys", "keys"), ("--pins", "pins")] {
            let wanted = !extra.is_empty() && (option == "--keys" || what == "send");
            if wanted {
                command.args([option, &format!("{what}-{file}.json")]);
            }
        }
        command.args(extra);
        command
    };
    let mut listening = Process::spawn(command("listen", &relay.ana.token, &listener), folder.path());
    listening.wait_for("announced: 2");
    let mut send = command("send", &relay.beto.token, &sender);
    send.args(["--to", &listener, "hello from the example", "--wait-reply", "20"]).current_dir(folder.path());
    let output = tokio::task::spawn_blocking(move || send.output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("HELLO FROM THE EXAMPLE"), "{said}\n{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documents_example_works_in_the_open() {
    answers_in_capitals(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documents_example_works_sealed() {
    answers_in_capitals(&["--e2e"]).await;
}
