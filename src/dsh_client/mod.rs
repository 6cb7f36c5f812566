//! A client of the local broker, protocol v1.1, for the commands that act as an agent: the demo and, later, checks.

use std::time::{Duration, UNIX_EPOCH};

use reqwest::Method;
use serde_json::Value;

use crate::crypto::hmac;
use crate::crypto::secret::Secret;
use crate::domain::clock::{SharedClock, Timestamp};
use crate::proto::dsh::names::AgentName;
use crate::proto::dsh::v1::signing;

/// One agent of one broker.
#[derive(Clone, Debug)]
pub struct DshClient {
    http: reqwest::Client,
    base: String,
    agent: AgentName,
    secret: Secret,
    clock: SharedClock,
}

/// What listens at an address says of itself to anybody.
#[derive(Clone, Debug)]
pub struct About {
    /// The answer to `GET /`; null when it is no JSON.
    pub answer: Value,
    /// Its clock, to the second.
    pub date: Option<Timestamp>,
}

/// Asks what listens at `base`, like `http://127.0.0.1:19121`, for at most `patience`.
///
/// # Errors
/// When no answer came, or one that is not 2xx.
pub async fn about(base: &str, patience: Duration) -> Result<About, DshError> {
    let answer = client()?.get(format!("{base}/")).timeout(patience).send().await?;
    let date = answer.headers().get(reqwest::header::DATE).and_then(|date| date.to_str().ok());
    let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
    let since_epoch = date.and_then(|date| date.duration_since(UNIX_EPOCH).ok());
    let date = since_epoch.map(|since| Timestamp::from_millis(0).plus(since));
    Ok(About { answer: json(answer).await?, date })
}

/// Why a call gave no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum DshError {
    #[error("no answer from the broker: {0}")]
    NoAnswer(#[from] reqwest::Error),
    #[error("the broker answered {status}: {body}")]
    Refused { status: u16, body: Value },
}

impl DshClient {
    /// `base` is like `http://127.0.0.1:19121`.
    ///
    /// # Errors
    /// When no HTTP client can be built.
    pub fn new(base: &str, agent: AgentName, secret: Secret, clock: SharedClock) -> Result<Self, DshError> {
        Ok(Self { http: client()?, base: base.trim_end_matches('/').to_owned(), agent, secret, clock })
    }

    /// `POST` with a JSON body; the answer's JSON.
    ///
    /// # Errors
    /// When no answer came, or one that is not 2xx.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, DshError> {
        self.call(Method::POST, path, body.to_string()).await
    }

    /// `GET`; the answer's JSON.
    ///
    /// # Errors
    /// When no answer came, or one that is not 2xx.
    pub async fn get(&self, path: &str) -> Result<Value, DshError> {
        self.call(Method::GET, path, String::new()).await
    }

    /// `PUT` of bytes that are no JSON; the answer's JSON.
    ///
    /// # Errors
    /// When no answer came, or one that is not 2xx.
    pub async fn put_bytes(&self, path: &str, body: Vec<u8>) -> Result<Value, DshError> {
        json(self.request(Method::PUT, path, body).await?).await
    }

    /// `GET` of bytes that are no JSON.
    ///
    /// # Errors
    /// When no answer came, or one that is not 2xx.
    pub async fn get_bytes(&self, path: &str) -> Result<Vec<u8>, DshError> {
        let answer = self.request(Method::GET, path, Vec::new()).await?;
        if answer.status().is_success() {
            return Ok(answer.bytes().await?.to_vec());
        }
        json(answer).await.map(|_| Vec::new())
    }

    async fn call(&self, method: Method, path: &str, body: String) -> Result<Value, DshError> {
        json(self.request(method, path, body.into_bytes()).await?).await
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<reqwest::Response, reqwest::Error> {
        let timestamp = self.clock.now().secs().to_string();
        let parts = signing::signed(method.as_str(), path, &timestamp, &body);
        let signature = hmac::sha256_hex(self.secret.expose().as_bytes(), &parts);
        self.http
            .request(method, format!("{}{path}", self.base))
            .header(signing::AGENT_HEADER, self.agent.as_str())
            .header(signing::TIMESTAMP_HEADER, timestamp)
            .header(signing::SIGNATURE_HEADER, signature)
            .header(reqwest::header::CONTENT_TYPE, "application/json")
            .body(body)
            .send()
            .await
    }
}

fn client() -> Result<reqwest::Client, reqwest::Error> {
    // The client wants a provider of TLS even for plain HTTP; whoever comes second finds it installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().tls_certs_only([]).build()
}

async fn json(answer: reqwest::Response) -> Result<Value, DshError> {
    let status = answer.status();
    let body = answer.json().await.unwrap_or(Value::Null);
    if status.is_success() { Ok(body) } else { Err(DshError::Refused { status: status.as_u16(), body }) }
}
