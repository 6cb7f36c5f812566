//! An agent that speaks the second generation.

use redsyn_bridge::crypto::hmac;
use redsyn_bridge::domain::clock::{Clock, SystemClock};
use redsyn_bridge::proto::dsh::v2::signing::Signed;
use reqwest::Method;
use serde_json::Value;

use super::proxy::http;

#[derive(Clone, Debug)]
pub struct V2Agent {
    http: reqwest::Client,
    base: String,
    secret: String,
    name: String,
}

impl V2Agent {
    pub fn new(base: &str, secret: &str, name: &str) -> Self {
        Self { http: http(), base: base.to_owned(), secret: secret.to_owned(), name: name.to_owned() }
    }

    /// The status and the answer; an error when none came.
    pub async fn post(&self, path: &str, body: &Value) -> Result<(u16, Value), reqwest::Error> {
        let (status, answer) = self.call(Method::POST, path, body.to_string().into_bytes()).await?;
        Ok((status, serde_json::from_slice(&answer).unwrap()))
    }

    /// The same of bytes, both ways.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(u16, Vec<u8>), reqwest::Error> {
        let timestamp = SystemClock.now().secs().to_string();
        let signed = Signed {
            agent: &self.name,
            key_id: None,
            timestamp: &timestamp,
            method: method.as_str(),
            target: path,
            body: &body,
        };
        let signature = hmac::sha256_hex(self.secret.as_bytes(), &[signed.text().as_bytes()]);
        let answer = self
            .http
            .request(method, format!("{}{path}", self.base))
            .header("X-Agent-Relay-Agent", &self.name)
            .header("X-Agent-Relay-Timestamp", timestamp)
            .header("X-Agent-Relay-Signature", signature)
            .body(body)
            .send()
            .await?;
        Ok((answer.status().as_u16(), answer.bytes().await?.to_vec()))
    }
}
