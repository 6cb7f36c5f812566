//! A local agent, which signs its calls to a broker, and where a broker may listen.

use std::net::{SocketAddr, TcpListener};

use redsyn_bridge::crypto::hmac;
use redsyn_bridge::domain::clock::{Clock, SystemClock};

use crate::common::http::Connection;

/// What the brokers under load and their agents share.
pub const SECRET: &str = "benchmark-secret";

pub struct Caller(Connection);

impl Caller {
    pub async fn connect(address: SocketAddr) -> Self {
        Self(Connection::open(address).await)
    }

    pub async fn call(&mut self, method: &str, path: &str, agent: &str, body: &str) -> Vec<u8> {
        let timestamp = SystemClock.now().secs().to_string();
        let parts: [&[u8]; 7] =
            [method.as_bytes(), b"\n", path.as_bytes(), b"\n", timestamp.as_bytes(), b"\n", body.as_bytes()];
        let signature = hmac::sha256_hex(SECRET.as_bytes(), &parts);
        let headers = format!(
            "X-Relay-Agent: {agent}\r\nX-Relay-Timestamp: {timestamp}\r\nX-Relay-Signature: {signature}\r\n"
        );
        self.0.call(method, path, &headers, body).await
    }
}

/// Where nobody listens yet.
pub fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}
