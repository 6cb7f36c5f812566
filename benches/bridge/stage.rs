//! A relay with two linked organisations, and a bridge in each, as processes of their own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::agent::{SECRET, free_address};
use crate::common::http::Connection;
use crate::common::process::Process;

/// Who stands where: organisation, team, user, agent.
const CLOSE: [&str; 4] = ["acme", "finance", "ana", "close"];
const BILLING: [&str; 4] = ["globex", "erp", "bob", "billing"];

pub struct Stage {
    pub close: Side,
    pub billing: Side,
    pub relay: Relay,
    _folder: TempDir,
}

/// One bridge and its agent.
pub struct Side {
    pub agent: &'static str,
    /// Whom the agent writes to.
    pub remote: String,
    pub broker: SocketAddr,
    pub bridge: Process,
}

pub struct Relay {
    pub address: SocketAddr,
    /// Of a node of Ana's without a bridge.
    pub token: String,
    folder: PathBuf,
    process: Option<Process>,
}

impl Stage {
    pub async fn set() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut relay = Relay::new(&folder.path().join("relay"));
        let ana = relay.person("ana@acme.example", &["laptop", "other"]);
        let bob = relay.person("bob@globex.example", &["laptop"]);
        relay.token.clone_from(&ana[1]);
        relay.start();
        for (token, [org, team, user, _]) in [(&ana[0], CLOSE), (&bob[0], BILLING)] {
            relay.call(token, "POST", "/orgs", &json!({"handle": org, "me": user})).await;
            relay.call(token, "POST", &format!("/orgs/{org}/teams"), &json!({"handle": team})).await;
        }
        for (token, [org, team, user, _], [other, ..]) in
            [(&ana[0], CLOSE, BILLING), (&bob[0], BILLING, CLOSE)]
        {
            relay.call(token, "POST", &format!("/orgs/{org}/links"), &json!({"other": other})).await;
            let exposure = json!({"kind": "agent", "pattern": format!("{team}/{user}/*"), "on": true});
            relay.call(token, "PUT", &format!("/orgs/{org}/links/{other}/expose"), &exposure).await;
        }
        let close = Side::start(folder.path(), CLOSE, BILLING, &ana[0], relay.address);
        let billing = Side::start(folder.path(), BILLING, CLOSE, &bob[0], relay.address);
        Self { close, billing, relay, _folder: folder }
    }
}

impl Stage {
    /// The two bridges, the relay, and this process, which has the agents.
    pub fn processes(&self) -> [u32; 4] {
        let relay = self.relay.process.as_ref().map_or(0, Process::id);
        [self.close.bridge.id(), self.billing.bridge.id(), relay, std::process::id()]
    }
}

impl Side {
    fn start(
        folder: &Path,
        ours: [&'static str; 4],
        theirs: [&str; 4],
        token: &str,
        relay: SocketAddr,
    ) -> Self {
        let ([org, team, user, agent], [other, ..]) = (ours, theirs);
        let folder = folder.join(org);
        std::fs::create_dir_all(&folder).unwrap();
        let broker = free_address();
        let config = format!(
            "broker:\n  port: {}\n  secret: {SECRET}\n  dataDir: ./data\n  rateLimitLoopback: 4000000000\n\
             redsyn:\n  relay: http://{relay}/redsyn/v1\n  token: \"{token}\"\n  scope: {org}/{team}/{user}\n  \
             agents:\n    {agent}: {{ allow: [\"org:{other}\"] }}\n",
            broker.port()
        );
        std::fs::write(folder.join("config.yaml"), config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_redsyn-bridge"));
        command.args(["serve", "--config", "config.yaml"]).current_dir(&folder).env("RUST_LOG", "off");
        let (bridge, ()) = Process::start(command, |line| line.contains("broker").then_some(()));
        Self { agent, remote: theirs.join("/"), broker, bridge }
    }
}

impl Relay {
    fn new(folder: &Path) -> Self {
        std::fs::create_dir_all(folder).unwrap();
        let address = free_address();
        let limits = "{ callsPerMinuteAndToken: unlimited, callsPerMinuteAndAddress: unlimited }";
        let config = format!("listen: {address}\nlimits: {limits}\n");
        std::fs::write(folder.join("relay.yaml"), config).unwrap();
        Self { address, token: String::new(), folder: folder.to_owned(), process: None }
    }

    pub fn start(&mut self) {
        let ready = |line: &str| line.contains("listening on http://").then_some(());
        self.process = Some(Process::start(self.command(&["serve"]), ready).0);
    }

    /// As if its machine had lost power.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// The tokens of a person's nodes.
    fn person(&self, email: &str, nodes: &[&str]) -> Vec<String> {
        self.line_of(&["user", "add", "--email", email, "--plan", "enterprise"]);
        nodes.iter().map(|name| self.line_of(&["node", "add", "--user", email, "--name", name])).collect()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redsyn-bridge"));
        command.args(["relay", "--config", "relay.yaml"]).args(arguments).current_dir(&self.folder);
        command.env("RUST_LOG", "off");
        command
    }

    fn line_of(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub async fn call(&self, token: &str, method: &str, path: &str, body: &Value) -> Value {
        let mut connection = Connection::open(self.address).await;
        let answer = connection.call(method, &path_of(path), &bearer(token), &body.to_string()).await;
        serde_json::from_slice(&answer).unwrap()
    }
}

pub fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

pub fn path_of(path: &str) -> String {
    format!("/redsyn/v1{path}")
}
