//! A node that sends, takes and confirms.

use std::sync::Arc;

use serde_json::{Value, json};

use super::server::Server;
use crate::common::http::Connection;

pub struct Client {
    connection: Connection,
    token: Arc<str>,
    is_floor: bool,
}

/// The agent that worker number `worker` sends from, and to.
pub fn agent(worker: usize) -> String {
    format!("acme/general/ana/w{worker}")
}

impl Client {
    pub async fn connect(server: &Server) -> Self {
        let connection = Connection::open(server.address).await;
        Self { connection, token: Arc::clone(&server.token), is_floor: server.is_floor }
    }

    pub async fn send(&mut self, worker: usize) {
        let agent = agent(worker);
        let text = "x".repeat(380);
        let envelope = json!({"v": 1, "kind": "request", "from": agent, "to": agent, "thread": "t",
                              "body": {"type": "text/plain", "text": text}});
        self.call("POST", "/redsyn/v1/messages", &envelope.to_string()).await;
    }

    pub async fn take_and_ack(&mut self, worker: usize) {
        let agent = agent(worker);
        let taken = self.call("GET", &format!("/redsyn/v1/inbox/{agent}"), "").await;
        let ids: Vec<Value> = if self.is_floor {
            Vec::new()
        } else {
            let taken: Value = serde_json::from_slice(&taken).unwrap();
            taken["items"].as_array().unwrap().iter().map(|item| item["id"].clone()).collect()
        };
        let body = json!({"ids": ids}).to_string();
        self.call("POST", &format!("/redsyn/v1/inbox/{agent}/ack"), &body).await;
    }

    pub async fn call(&mut self, method: &str, path: &str, body: &str) -> Vec<u8> {
        let headers = format!("Authorization: Bearer {}\r\n", self.token);
        self.connection.call(method, path, &headers, body).await
    }
}
