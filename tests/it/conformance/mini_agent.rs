//! The document's complete example, written by somebody else: an agent that answers in capitals, asked in the open and
//! sealed. Judges only where the kit is, like the tests against its relay.

use std::process::Command;

use super::relay::{Relay, skipped};
use crate::support::process::Process;

/// Where the kit is, and a Python that can run it.
#[derive(Debug)]
pub struct Kit {
    pub folder: String,
    pub python: String,
}

pub fn kit() -> Option<Kit> {
    let variable = |name: &str| std::env::var(name).ok();
    Some(Kit { folder: variable("REDSYN_KIT")?, python: variable("REDSYN_KIT_PYTHON")? })
}

async fn answers_in_capitals(extra: &'static [&'static str]) {
    let Some(kit) = kit() else { return skipped("no kit") };
    if Relay::is_foreign() && !extra.is_empty() {
        return skipped("the example never replaces the keys that other cases have registered");
    }
    let script = format!("{}/mini_agent.py", kit.folder);
    let relay = Relay::start().await;
    let folder = tempfile::tempdir().unwrap();
    let (listener, sender) = (relay.agent(&relay.ana, "shout"), relay.agent(&relay.beto, "cli"));
    let command = |what: &str, token: &str, me: &str| {
        let mut command = Command::new(&kit.python);
        let url = relay.ana.base_url.as_str();
        command.args([script.as_str(), what, "--base-url", url, "--me", me]).env("REDSYN_TOKEN", token);
        command.env("PYTHONDONTWRITEBYTECODE", "1");
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
