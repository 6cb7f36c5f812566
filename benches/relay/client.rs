//! HTTP/1.1 over one kept connection, without a client library in between that would be measured too.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::server::Server;

pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
    token: Arc<str>,
    is_floor: bool,
}

/// The agent that worker number `worker` sends from, and to.
pub fn agent(worker: usize) -> String {
    format!("acme/general/ana/w{worker}")
}

impl Client {
    pub async fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: Vec::new(), token: Arc::clone(&server.token), is_floor: server.is_floor }
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
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await.unwrap();
        self.answer().await
    }

    async fn answer(&mut self) -> Vec<u8> {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&self.buffer[..end]).to_lowercase();
                assert!(head.starts_with("http/1.1 2"), "{head}");
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let whole = end + 4 + length.map_or(0, |length| length.parse::<usize>().unwrap());
                if self.buffer.len() >= whole {
                    let body = self.buffer[end + 4..whole].to_vec();
                    self.buffer.drain(..whole);
                    return body;
                }
            }
            let read = self.stream.read_buf(&mut self.buffer).await.unwrap();
            assert!(read > 0, "the server closed the connection");
        }
    }
}
