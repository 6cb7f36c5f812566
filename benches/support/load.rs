//! The load: HTTP/1.1 over kept connections, signed requests of 512 bytes, as many as the server answers.

use std::time::{Duration, Instant};

use super::server::Server;
use crate::agent::Caller;
use crate::common::measured::Measured;

#[derive(Clone, Copy, Debug)]
pub enum Load {
    Send {
        connections: usize,
    },
    Cycle {
        connections: usize,
    },
    Poll {
        connections: usize,
    },
    /// Polls of one large inbox: of its first page, or behind its last message.
    PollLarge {
        connections: usize,
        behind: bool,
    },
}

/// Whose inbox [`fill`] fills.
const OTHERS: &str = "others";

impl Load {
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
    pub async fn run(self, server: &Server, time: Duration) -> Measured {
        let connections = match self {
            Self::Send { connections }
            | Self::Cycle { connections }
            | Self::Poll { connections }
            | Self::PollLarge { connections, .. } => connections,
        };
        let mut workers = Vec::new();
        let began = Instant::now();
        for worker in 0..connections {
            let mut client = Client::connect(server, worker).await;
            if let Self::PollLarge { behind, .. } = self {
                client.agent = OTHERS.to_owned();
                client.page = if behind { client.last().await } else { FIRST_PAGE.to_owned() };
            }
            workers.push(tokio::spawn(async move {
                let mut latencies = Vec::new();
                while began.elapsed() < time {
                    let start = Instant::now();
                    match self {
                        Self::Send { .. } => client.send().await,
                        Self::Cycle { .. } => client.cycle().await,
                        Self::Poll { .. } | Self::PollLarge { .. } => client.poll().await,
                    }
                    latencies.push(start.elapsed());
                }
                latencies
            }));
        }
        Measured::gather(workers, began).await
    }
}

const FIRST_PAGE: &str = "/messages";

/// Stores `count` messages of `size` bytes for an agent that never takes them.
pub async fn fill(server: &Server, count: usize, size: usize) {
    const AT_ONCE: usize = 64;
    let mut workers = Vec::new();
    for worker in 0..AT_ONCE {
        let mut client = Client::connect(server, worker).await;
        client.recipient = OTHERS.to_owned();
        client.text = "x".repeat(size);
        client.register(OTHERS).await;
        workers.push(tokio::spawn(async move {
            for _ in 0..count / AT_ONCE {
                client.send().await;
            }
        }));
    }
    for worker in workers {
        worker.await.unwrap();
    }
}

/// Agents that poll empty inboxes, each at its interval, for so long.
pub async fn polling(server: &Server, agents: usize, every: Duration, time: Duration) {
    let mut workers = Vec::new();
    for worker in 0..agents {
        let mut client = Client::connect(server, worker).await;
        workers.push(tokio::spawn(async move {
            let mut turns = tokio::time::interval(every);
            for _ in 0..time.as_millis() / every.as_millis() {
                turns.tick().await;
                client.poll().await;
            }
            turns.tick().await;
        }));
    }
    for worker in workers {
        worker.await.unwrap();
    }
}

pub struct Client {
    caller: Caller,
    agent: String,
    recipient: String,
    text: String,
    page: String,
    is_floor: bool,
}

impl Client {
    pub async fn connect(server: &Server, worker: usize) -> Self {
        let mut client = Self {
            caller: Caller::connect(server.address).await,
            agent: format!("sender-{worker}"),
            recipient: format!("receiver-{worker}"),
            text: "x".repeat(460),
            page: FIRST_PAGE.to_owned(),
            is_floor: server.is_floor,
        };
        let recipient = client.recipient.clone();
        client.register(&recipient).await;
        client
    }

    async fn register(&mut self, agent: &str) {
        self.call("POST", "/register", agent, "{}").await;
    }

    pub async fn send(&mut self) {
        let body = format!("{{\"to\":\"{}\",\"body\":{{\"text\":\"{}\"}}}}", self.recipient, self.text);
        let agent = self.agent.clone();
        self.call("POST", "/messages", &agent, &body).await;
    }

    /// What it costs the floor three inserts to do.
    async fn cycle(&mut self) {
        self.send().await;
        let recipient = self.recipient.clone();
        let pulled = self.call("POST", "/v1/pull", &recipient, "{\"limit\":1}").await;
        let ack = if self.is_floor {
            "{}".to_owned()
        } else {
            let pulled: serde_json::Value = serde_json::from_slice(&pulled).unwrap();
            let message = &pulled["messages"][0];
            serde_json::json!({"messageId": message["id"], "leaseId": message["leaseId"], "outcome": "completed"})
                .to_string()
        };
        self.call("POST", "/v1/ack", &recipient, &ack).await;
    }

    async fn poll(&mut self) {
        let (agent, page) = (self.agent.clone(), self.page.clone());
        self.call("GET", &page, &agent, "").await;
    }

    /// Pulls one message, waiting so many seconds for it. Whether one came.
    pub async fn take(&mut self, wait: u32) -> bool {
        let recipient = self.recipient.clone();
        let body = format!("{{\"limit\":1,\"waitSeconds\":{wait}}}");
        let pulled = self.call("POST", "/v1/pull", &recipient, &body).await;
        let pulled: serde_json::Value = serde_json::from_slice(&pulled).unwrap();
        pulled["count"] != 0
    }

    /// The page behind the last message of the agent's inbox.
    async fn last(&mut self) -> String {
        let agent = self.agent.clone();
        if self.is_floor {
            return FIRST_PAGE.to_owned();
        }
        let recent = self.call("POST", "/v1/recent", &agent, "{\"limit\":1}").await;
        let recent: serde_json::Value = serde_json::from_slice(&recent).unwrap();
        format!("/messages?since={}", recent["messages"][0]["id"].as_str().unwrap())
    }

    async fn call(&mut self, method: &str, path: &str, agent: &str, body: &str) -> Vec<u8> {
        self.caller.call(method, path, agent, body).await
    }
}
