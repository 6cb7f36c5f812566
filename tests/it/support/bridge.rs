//! A real bridge process with one agent, driven as a v1.1 client would.

use std::path::{Path, PathBuf};
use std::time::Duration;

use redsyn_bridge::crypto::secret::Secret;
use redsyn_bridge::domain::clock::SystemClock;
use redsyn_bridge::dsh_client::DshClient;
use redsyn_bridge::proto::dsh::names::AgentName;
use serde_json::{Value, json};

use super::process::Process;
use super::world::{Member, write};
use crate::golden::broker::free_port;

/// A hang is a failure too; nothing here takes nearly as long.
const HANG: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct BridgeProcess {
    pub folder: PathBuf,
    pub client: DshClient,
    pub agent: &'static str,
    port: u16,
    process: Option<Process>,
}

impl BridgeProcess {
    /// Writes a configuration for `member` in `folder` and starts the binary on it.
    pub fn start(folder: &Path, member: &Member, other: &Member, relay: &str) -> Self {
        Self::start_on("sqlite", folder, member, other, relay)
    }

    /// The same on a storage of choice.
    pub fn start_on(storage: &str, folder: &Path, member: &Member, other: &Member, relay: &str) -> Self {
        let agents = format!("\n    {}:\n      allow: [\"org:{}\"]", member.agent, other.org);
        Self::start_with(storage, folder, member, relay, &agents)
    }

    /// The same with these `agents`: what follows that key in the file.
    pub fn start_with(storage: &str, folder: &Path, member: &Member, relay: &str, agents: &str) -> Self {
        let relay = format!("{relay}\n  token: {}", member.token.expose());
        let scope = format!("{}/{}/{}", member.org, member.team, member.user);
        Self::launch(storage, folder, member.agent, &format!("{relay}\n  scope: {scope}\n  agents:{agents}"))
    }

    /// A process with a relay of its own on this port of loopback, whose node is `home/general/me`.
    pub fn start_embedded(
        storage: &str,
        folder: &Path,
        relay: u16,
        agent: &'static str,
        agents: &str,
    ) -> Self {
        let relay = format!("embedded\n  listen: 127.0.0.1:{relay}\n  scope: home/general/me");
        Self::launch(storage, folder, agent, &format!("{relay}\n  agents:{agents}"))
    }

    fn launch(storage: &str, folder: &Path, agent: &'static str, redsyn: &str) -> Self {
        let port = free_port();
        let config = format!(
            "broker:\n  port: {port}\n  secret: test-secret\n  dataDir: ./data\n  storage: {storage}\n  rateLimitLoopback: 1000000\n\
             redsyn:\n  relay: {redsyn}\n"
        );
        write(folder, "config.yaml", &config);
        let mut bridge =
            Self { folder: folder.to_owned(), client: client(port, agent), port, agent, process: None };
        bridge.restart();
        bridge
    }

    /// A client of another agent of the same broker.
    pub fn other(&self, agent: &str) -> DshClient {
        self.client_with(agent, "test-secret")
    }

    pub fn base(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn client_with(&self, agent: &str, secret: &str) -> DshClient {
        let base = format!("http://127.0.0.1:{}", self.port);
        let name = AgentName::parse(agent).unwrap();
        DshClient::new(&base, name, Secret::new(secret), SystemClock::shared()).unwrap()
    }

    pub fn kill(&mut self) {
        self.process.take().unwrap().kill();
    }

    pub fn restart(&mut self) {
        let mut process = Process::start(&self.folder, &["serve", "--config", "config.yaml"]);
        process.wait_for("stop ");
        self.process = Some(process);
        // The old client holds connections that died with the process.
        self.client = client(self.port, self.agent);
    }

    /// Stops it, puts `to` in place of `from` in its configuration, and starts it again.
    pub fn reconfigure(&mut self, from: &str, to: &str) {
        self.kill();
        let path = self.folder.join("config.yaml");
        let before = std::fs::read_to_string(&path).unwrap();
        let after = before.replace(from, to);
        assert_ne!(before, after);
        std::fs::write(&path, after).unwrap();
        self.restart();
    }

    #[cfg(unix)]
    pub fn hang_up(&self) {
        self.process.as_ref().unwrap().signal("-HUP");
    }

    /// Waits for a line of the log.
    pub async fn log_of(&mut self, event: &'static str) -> String {
        let mut process = self.process.take().unwrap();
        let waited = tokio::task::spawn_blocking(move || {
            let line = process.wait_for_log(event).pop().unwrap();
            (process, line)
        });
        let (process, line) = waited.await.unwrap();
        self.process = Some(process);
        line
    }

    pub async fn register(&self) {
        self.client.post("/register", &json!({"agent": self.agent})).await.unwrap();
    }

    pub async fn send(&self, envelope: &Value) -> String {
        let sent = self.client.post("/messages", envelope).await.unwrap();
        sent.get("id").unwrap().as_str().unwrap().to_owned()
    }

    /// Pulls until a message is there.
    pub async fn pull_one(&self) -> Value {
        let pull = async {
            loop {
                let pulled = self.client.post("/v1/pull", &json!({"waitSeconds": 20})).await.unwrap();
                let messages = pulled.get("messages").unwrap().as_array().unwrap().clone();
                assert!(messages.len() <= 1, "{messages:?}");
                if let Some(message) = messages.first() {
                    return message.clone();
                }
            }
        };
        tokio::time::timeout(HANG, pull).await.expect("no message came")
    }

    pub async fn ack(&self, message: &Value) {
        let ack = json!({"messageId": message["id"], "leaseId": message["leaseId"], "outcome": "completed"});
        self.client.post("/v1/ack", &ack).await.unwrap();
    }

    /// Everything the agent has ever been sent or has sent, newest first.
    pub async fn recent(&self) -> Vec<Value> {
        let recent = self.client.post("/v1/recent", &json!({"limit": 200})).await.unwrap();
        recent.get("messages").unwrap().as_array().unwrap().clone()
    }

    /// The state of a message that the agent sent.
    pub async fn status(&self, id: &str) -> Value {
        let status = self.client.post("/v1/status", &json!({"messageIds": [id]})).await.unwrap();
        status.pointer("/messages/0").unwrap().clone()
    }
}

fn client(port: u16, agent: &str) -> DshClient {
    let base = format!("http://127.0.0.1:{port}");
    let name = AgentName::parse(agent).unwrap();
    DshClient::new(&base, name, Secret::new("test-secret"), SystemClock::shared()).unwrap()
}
