//! A plain local broker as a process, on a storage of choice, and agents that speak to it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use redsyn_bridge::crypto::secret::Secret;
use redsyn_bridge::domain::clock::SystemClock;
use redsyn_bridge::dsh_client::{DshClient, DshError};
use redsyn_bridge::proto::dsh::names::AgentName;
use serde_json::{Value, json};

use super::process::Process;
use super::proxy::http;
use super::world::write;
use crate::golden::broker::free_port;

#[derive(Debug)]
pub struct LocalBroker {
    pub folder: PathBuf,
    pub port: u16,
    process: Option<Process>,
}

impl LocalBroker {
    /// Writes a configuration in `folder`; nothing runs yet.
    pub fn new(folder: &Path, storage: &str) -> Self {
        let port = free_port();
        let config = format!(
            "broker:\n  port: {port}\n  secret: s\n  dataDir: ./data\n  storage: {storage}\n  rateLimitLoopback: 1000000\n"
        );
        write(folder, "config.yaml", &config);
        Self { folder: folder.to_owned(), port, process: None }
    }

    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Starts it and returns its first screen.
    pub fn start(&mut self) -> String {
        self.start_as(Process::start(&self.folder, &["serve", "--config", "config.yaml"]))
    }

    pub const fn is_started(&self) -> bool {
        self.process.is_some()
    }

    pub fn start_as(&mut self, mut process: Process) -> String {
        let screen = process.wait_for("  stop ");
        self.process = Some(process);
        screen.join("\n")
    }

    pub fn kill(&mut self) {
        self.process.take().unwrap().kill();
    }

    pub fn process(&mut self) -> &mut Process {
        self.process.as_mut().unwrap()
    }

    /// Asks it to stop and returns its exit code.
    #[cfg(unix)]
    pub fn terminate(&mut self) -> Option<i32> {
        self.process.take().unwrap().terminate()
    }

    /// Ends it, in good order where a signal can ask for that.
    pub fn stop(&mut self) {
        #[cfg(unix)]
        assert_eq!(self.terminate(), Some(0));
        #[cfg(not(unix))]
        drop(self.process.take());
    }

    /// Waits for its end, and returns its exit code.
    #[cfg(unix)]
    pub fn ended(&mut self) -> Option<i32> {
        self.process.take().unwrap().ended()
    }

    /// Adds lines to the configuration, for the next start.
    pub fn configure(&self, lines: &str) {
        let file = self.folder.join("config.yaml");
        let before = std::fs::read_to_string(&file).unwrap();
        std::fs::write(file, before + lines).unwrap();
    }

    pub fn base(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn agent(&self, name: &str) -> DshClient {
        self.agent_with(name, "s")
    }

    pub fn agent_with(&self, name: &str, secret: &str) -> DshClient {
        let base = self.base();
        let name = AgentName::parse(name).unwrap();
        DshClient::new(&base, name, Secret::new(secret), SystemClock::shared()).unwrap()
    }

    /// Resolves once so many agents of each of these generations pull.
    pub async fn until_pulling(&self, generations: &[&str], agents: usize) {
        let all = async {
            loop {
                let page = http().get(format!("{}/metrics", self.base())).send().await.unwrap();
                let page = page.text().await.unwrap();
                let pulls = |generation: &&str| {
                    let line =
                        format!("redsyn_broker_pulling_agents{{generation=\"{generation}\"}} {agents}");
                    page.lines().any(|one| one == line)
                };
                if generations.iter().all(pulls) {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(30), all).await.expect("nobody pulls");
    }

    pub async fn register(&self, names: &[&str]) {
        for name in names {
            self.agent(name).post("/register", &json!({})).await.unwrap();
        }
    }

    /// Sends a message from `alpha` to `beta`.
    pub async fn send(&self, id: &str, body: &str) -> Result<Value, DshError> {
        self.agent("alpha").post("/messages", &json!({"to": "beta", "id": id, "body": {"text": body}})).await
    }

    /// The state of each message as `beta` sees it.
    pub async fn statuses(&self, ids: &[String]) -> Vec<String> {
        let mut statuses = Vec::new();
        for ids in ids.chunks(200) {
            let answer = self.agent("beta").post("/v1/status", &json!({ "messageIds": ids })).await.unwrap();
            let lines = answer["messages"].as_array().unwrap();
            statuses.extend(lines.iter().map(|line| line["status"].as_str().unwrap().to_owned()));
        }
        statuses
    }
}
