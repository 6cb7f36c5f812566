//! A server under load, as a process of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;

use super::client::{Client, agent};
use super::floor;
use crate::common::floor::MODE;
use crate::common::process::Process;

pub struct Server {
    pub address: SocketAddr,
    pub token: Arc<str>,
    pub is_floor: bool,
    pub process: Process,
    _folder: TempDir,
}

fn relay(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redsyn-bridge"));
    command.args(["relay", "--config", "relay.yaml"]).args(arguments).current_dir(folder);
    command.env("RUST_LOG", "off");
    command
}

fn line_of(folder: &Path, arguments: &[&str]) -> String {
    let output = relay(folder, arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

impl Server {
    /// A relay with one person who has `agents` agents.
    pub async fn relay(agents: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let limits = "{ callsPerMinuteAndToken: unlimited, callsPerMinuteAndAddress: unlimited }";
        let config = format!("listen: 127.0.0.1:0\nlimits: {limits}\n");
        std::fs::write(folder.path().join("relay.yaml"), config).unwrap();
        line_of(folder.path(), &["user", "add", "--email", "ana@acme.example", "--plan", "enterprise"]);
        let token = line_of(folder.path(), &["node", "add", "--user", "p1", "--name", "bench"]);
        let command = relay(folder.path(), &["serve"]);
        let server = Self::start(command, folder, token.into(), false, "listening on http://");
        let mut client = Client::connect(&server).await;
        client.call("POST", "/redsyn/v1/orgs", &json!({"handle": "acme", "me": "ana"}).to_string()).await;
        for number in 0..agents {
            let path = format!("/redsyn/v1/agents/{}", agent(number));
            client.call("PUT", &path, "{\"listening\":true}").await;
        }
        server
    }

    pub fn floor() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(MODE).arg(folder.path());
        Self::start(command, folder, floor::TOKEN.into(), true, "floor on ")
    }

    fn start(command: Command, folder: TempDir, token: Arc<str>, is_floor: bool, sign: &str) -> Self {
        let (process, address) = Process::start(command, |line| line.strip_prefix(sign)?.parse().ok());
        Self { address, token, is_floor, process, _folder: folder }
    }
}
