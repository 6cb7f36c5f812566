//! One method per call of the API that the bridge uses (spec, «La API HTTP»).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use reqwest::header::{DATE, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use url::Url;

use super::dates::Dates;
use super::error::{CallError, Refusal};
use super::time::RelayTime;
use crate::crypto::base64url;
use crate::crypto::secret::Secret;
use crate::domain::clock::{SharedClock, Timestamp};
use crate::proto::redsyn::address::{AgentAddress, TopicAddress};
use crate::proto::redsyn::error::ErrorBody;
use crate::proto::redsyn::ids::{FILES_LIMIT, MessageId, VERSION_HEADER};
use crate::proto::redsyn::keys::{KeyAnswer, KeyRegistration};
use crate::proto::redsyn::policy::Policy;

/// The time for everything but a held inbox call; a relay that is slower is treated as away.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The time for a call that carries files: 5 MB over a slow line.
const FILES_TIMEOUT: Duration = Duration::from_secs(180);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of an answer. References have no limit in the protocol and stand twice in a signed envelope: what one
/// sender puts in must not make a whole take unreadable, and with it the mail of others.
const ANSWER_LIMIT: usize = 256 * 1024 * 1024;
/// The most characters kept of a relay's reason: it is shown to people and written to the log.
const REASON_LIMIT: usize = 500;

/// One node's connection to one relay. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct RelayClient {
    http: reqwest::Client,
    base: Arc<str>,
    token: Secret,
    dates: Arc<Dates>,
    time: Arc<RelayTime>,
    last_success: Arc<AtomicI64>,
}

/// What `PUT /agents/…` says of an agent.
#[derive(Clone, Debug)]
pub struct Announcement {
    pub description: String,
    pub policy: Policy,
}

/// The 201 (or 200) of `POST /messages`.
#[derive(Clone, Debug, Deserialize)]
pub struct Receipt {
    #[serde(default)]
    pub thread: Option<String>,
    /// The recipient with its session.
    #[serde(default)]
    pub to: Option<String>,
    /// The id was known: this is the receipt of the first message under it.
    #[serde(default)]
    pub duplicate: bool,
}

/// What a directory tells of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Presence {
    pub online: bool,
    pub last_seen: Option<Timestamp>,
}

/// How to take: seconds to hold the call (at most 25), seconds of lease.
#[derive(Clone, Copy, Debug)]
pub struct Take {
    pub wait_secs: u64,
    pub lease_secs: u64,
}

/// Each item is read by itself: what another sender has put into one must not make the others unreadable.
#[derive(Deserialize)]
struct Items {
    items: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Zip {
    zip: String,
}

impl RelayClient {
    /// # Errors
    /// When no TLS configuration can be built, or the token or the date cannot be sent as headers.
    pub fn new(base: &Url, token: Secret, version: &str, clock: SharedClock) -> Result<Self, CallError> {
        // Several parts may build clients; the first installs the provider and the rest find it.
        let header = |name: &str, text: &str| {
            // Without this, every call would fail as if the relay had not answered.
            HeaderValue::from_str(text).map_err(|_| {
                CallError::Malformed(format!("the {name} has characters that no header can carry"))
            })
        };
        header("token", token.expose())?;
        let dates = Arc::new(Dates::new(header("version", version)?));
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("redsyn-bridge/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy();
        if base.scheme() == "http" {
            // Plain HTTP needs no roots, and a machine without any must still reach its own relay.
            builder = builder.tls_certs_only([]);
        } else {
            builder = builder.https_only(true);
        }
        let http = builder.build().map_err(|error| CallError::NoAnswer(error_chain(&error)))?;
        Ok(Self {
            http,
            base: base.as_str().trim_end_matches('/').into(),
            token,
            dates,
            time: Arc::new(RelayTime::new(clock)),
            last_success: Arc::new(AtomicI64::new(i64::MIN)),
        })
    }

    /// The relay's clock, as far as its answers have told.
    pub fn relay_now(&self) -> Timestamp {
        self.time.now()
    }

    /// The moment on our clock that the relay calls `relay`.
    pub fn to_local(&self, relay: Timestamp) -> Timestamp {
        self.time.to_local(relay)
    }

    /// How the API date that the relay uses differs from the one it is asked for.
    pub fn lacks_date(&self) -> Option<String> {
        self.dates.lacks()
    }

    /// When a call last succeeded, by the relay's clock.
    pub fn last_success(&self) -> Option<Timestamp> {
        let millis = self.last_success.load(Ordering::Relaxed);
        (millis != i64::MIN).then(|| Timestamp::from_millis(millis))
    }

    /// `PUT /nodes/key`.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn register_key(&self, registration: &KeyRegistration) -> Result<(), CallError> {
        let request = self.request(Method::PUT, "/nodes/key").json(registration);
        self.json::<Value>(request).await.map(drop)
    }

    /// `PUT /agents/…` with `listening: true`.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn announce(&self, agent: &AgentAddress, announcement: &Announcement) -> Result<(), CallError> {
        let policy = &announcement.policy;
        let body = json!({
            "description": announcement.description,
            "adapter": concat!("redsyn-bridge/", env!("CARGO_PKG_VERSION")),
            "listening": true,
            "allow": policy.allow.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "trust": if policy.full_trust { "full" } else { "none" },
            "signed_only": policy.signed_only,
            "encrypted_only": policy.encrypted_only,
        });
        let request = self.request(Method::PUT, &format!("/agents/{agent}")).json(&body);
        self.json::<Value>(request).await.map(drop)
    }

    /// `GET /agents/…/key`; `None` when the agent has no key, or the relay has no such call.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn agent_key(&self, agent: &AgentAddress) -> Result<Option<KeyAnswer>, CallError> {
        match self.json(self.request(Method::GET, &format!("/agents/{agent}/key"))).await {
            Ok(answer) => Ok(Some(answer).filter(|answer: &KeyAnswer| !answer.is_empty())),
            Err(error) if error.is_not_offered() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// `POST /messages`: a signed envelope. The same id again is answered as a duplicate.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn send(&self, envelope: &Map<String, Value>) -> Result<Receipt, CallError> {
        let request = self.request(Method::POST, "/messages").json(envelope);
        let has_files = envelope.contains_key("files");
        self.json(if has_files { request.timeout(FILES_TIMEOUT) } else { request }).await
    }

    /// `POST /messages/{id}/cancel`.
    ///
    /// # Errors
    /// See [`CallError`]; 409 when somebody has taken it.
    pub async fn cancel(&self, id: &MessageId) -> Result<(), CallError> {
        let request = self.request(Method::POST, &message_path(id, "cancel")?).json(&json!({}));
        self.json::<Value>(request).await.map(drop)
    }

    /// `GET /directory`: the agents within reach.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn directory(&self) -> Result<Vec<(AgentAddress, Presence)>, CallError> {
        let answer: Value = self.json(self.request(Method::GET, "/directory")).await?;
        let agents = answer.get("agents").and_then(Value::as_array).cloned().unwrap_or_default();
        // What cannot be read is somebody nobody here can write to.
        Ok(agents.iter().filter_map(present).collect())
    }

    /// `PUT /subscriptions`.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn subscribe(&self, agent: &AgentAddress, topic: &TopicAddress) -> Result<(), CallError> {
        let body = json!({"agent": agent, "topic": topic});
        self.json::<Value>(self.request(Method::PUT, "/subscriptions").json(&body)).await.map(drop)
    }

    /// `POST /subscriptions/remove`.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn unsubscribe(&self, agent: &AgentAddress, topic: &TopicAddress) -> Result<(), CallError> {
        let body = json!({"agent": agent, "topic": topic});
        self.json::<Value>(self.request(Method::POST, "/subscriptions/remove").json(&body)).await.map(drop)
    }

    /// `GET /inbox/…`: takes what waits, as it was delivered. What is no JSON that can be read (nested without end,
    /// half an emoji) is left out; the relay abandons it in time and tells its sender.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn take(&self, agent: &AgentAddress, take: Take) -> Result<Vec<Value>, CallError> {
        let request = self
            .request(Method::GET, &format!("/inbox/{agent}"))
            .query(&[("wait", take.wait_secs), ("lease", take.lease_secs)])
            .timeout(CALL_TIMEOUT + Duration::from_secs(take.wait_secs));
        let items = self.json::<Items>(request).await?.items;
        Ok(items.iter().filter_map(|item| readable(item)).collect())
    }

    /// `GET /inbox/…?peek=1`: what waits, without taking it. A relay that knows no looking takes it for a second.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn peek(&self, agent: &AgentAddress) -> Result<Vec<Value>, CallError> {
        let request = self.request(Method::GET, &format!("/inbox/{agent}"));
        let items = self.json::<Items>(request.query(&[("peek", 1), ("wait", 0), ("lease", 1)])).await?.items;
        Ok(items.iter().filter_map(|item| readable(item)).collect())
    }

    /// `POST /inbox/…/ack`.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn ack(&self, agent: &AgentAddress, ids: &[MessageId]) -> Result<(), CallError> {
        let request = self.request(Method::POST, &format!("/inbox/{agent}/ack")).json(&json!({"ids": ids}));
        self.json::<Value>(request).await.map(drop)
    }

    /// `GET /messages/{id}/files`: the bytes of the zip as it travelled.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn files(&self, id: &MessageId) -> Result<Vec<u8>, CallError> {
        let request = self.request(Method::GET, &message_path(id, "files")?).timeout(FILES_TIMEOUT);
        let zip: Zip = self.json(request).await?;
        let bytes =
            base64url::zip_decode(&zip.zip).map_err(|error| CallError::Malformed(error.to_string()))?;
        if bytes.len() > FILES_LIMIT {
            return Err(CallError::Malformed("the files are over 5 MB".into()));
        }
        Ok(bytes)
    }

    /// `GET /threads/{id}`: what has been said in it, in order of arrival, as far as we may see.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn thread(&self, id: &str) -> Result<Vec<Value>, CallError> {
        let request = self.request(Method::GET, &encoded(&["threads", id])?);
        Ok(self.json::<Items>(request).await?.items.iter().filter_map(|item| readable(item)).collect())
    }

    /// A `GET` that has no method of its own here, like `/me`.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn get(&self, path: &str) -> Result<Value, CallError> {
        self.json(self.request(Method::GET, path)).await
    }

    /// A `POST` that has no method of its own here: setting up organisations and links.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, CallError> {
        self.json(self.request(Method::POST, path).json(body)).await
    }

    /// A `PUT` that has no method of its own here: what a link exposes.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn put(&self, path: &str, body: &Value) -> Result<Value, CallError> {
        self.json(self.request(Method::PUT, path).json(body)).await
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http
            .request(method, format!("{}{path}", self.base))
            .bearer_auth(self.token.expose())
            .timeout(CALL_TIMEOUT)
    }

    async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, CallError> {
        let again = request.try_clone();
        let tried = self.dates.used();
        let answer = self.once(request, tried.clone()).await;
        let known = answer.as_ref().err().and_then(CallError::known_dates);
        if let (Some(again), Some(known)) = (again, known)
            && self.dates.fall_back(&tried, known)
        {
            return self.once(again, self.dates.used()).await;
        }
        answer
    }

    async fn once<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
        date: HeaderValue,
    ) -> Result<T, CallError> {
        let request = request.header(VERSION_HEADER, date);
        let mut answer = request.send().await.map_err(|error| CallError::NoAnswer(error_chain(&error)))?;
        if let Some(date) = answer.headers().get(DATE).and_then(|date| date.to_str().ok()) {
            self.time.learn(date);
        }
        let status = answer.status();
        let retry_after = answer
            .headers()
            .get(RETRY_AFTER)
            .and_then(|seconds| seconds.to_str().ok()?.parse().ok())
            .map(Duration::from_secs);
        let location = answer.headers().get(LOCATION).and_then(|to| to.to_str().ok()).map(str::to_owned);
        let mut bytes = Vec::new();
        while let Some(chunk) =
            answer.chunk().await.map_err(|error| CallError::NoAnswer(error_chain(&error)))?
        {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > ANSWER_LIMIT {
                return Err(CallError::Malformed(format!("the answer is over {ANSWER_LIMIT} bytes")));
            }
        }
        if status.is_success() {
            self.dates.answered(answer.headers().get(VERSION_HEADER));
            let value = serde_json::from_slice(&legible(bytes))
                .map_err(|error| CallError::Malformed(place(&error)))?;
            self.last_success.store(self.time.now().millis(), Ordering::Relaxed);
            return Ok(value);
        }
        Err(Refusal { body: error_body(status, location.as_deref(), &bytes), retry_after }.into())
    }
}

fn present(agent: &Value) -> Option<(AgentAddress, Presence)> {
    let address = agent.get("address")?.as_str()?.parse().ok()?;
    let online = agent.get("online").and_then(Value::as_bool).unwrap_or(false);
    let last_seen = agent.get("last_seen").and_then(Value::as_i64).map(Timestamp::from_secs);
    Some((address, Presence { online, last_seen }))
}

/// `/messages/{id}/…`.
fn message_path(id: &MessageId, what: &str) -> Result<String, CallError> {
    encoded(&["messages", id.as_str(), what])
}

/// A path of these parts: ids may be any text.
fn encoded(parts: &[&str]) -> Result<String, CallError> {
    let mut path = Url::parse("http://relay").map_err(|error| CallError::Malformed(error.to_string()))?;
    if let Ok(mut segments) = path.path_segments_mut() {
        segments.extend(parts);
    }
    Ok(path.path().to_owned())
}

/// What is no UTF-8 in an answer becomes what is no readable text: half an emoji. The answer can still be taken apart,
/// and only the item that it lies in cannot be read. Twice, so that a backslash before it escapes no more than the first.
fn legible(bytes: Vec<u8>) -> Vec<u8> {
    if std::str::from_utf8(&bytes).is_ok() {
        return bytes;
    }
    let mut legible = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        legible.extend_from_slice(chunk.valid().as_bytes());
        if !chunk.invalid().is_empty() {
            legible.extend_from_slice(br"\ud800\ud800");
        }
    }
    legible
}

fn readable(item: &RawValue) -> Option<Value> {
    match serde_json::from_str(item.get()) {
        Ok(value) => Some(value),
        Err(error) => {
            tracing::warn!(bytes = item.get().len(), error = place(&error), "inbound_item_unreadable");
            None
        }
    }
}

/// What is wrong with a JSON text and where. Not in serde's words, which repeat the text: it may be a body.
fn place(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Data => "not the JSON that was expected",
        _ => "not JSON",
    };
    format!("{what} (line {}, column {})", error.line(), error.column())
}

/// The status line is what happened; the body only adds words and `quota`.
fn error_body(status: StatusCode, location: Option<&str>, bytes: &[u8]) -> ErrorBody {
    if status.is_redirection() {
        // Where to is never followed: whoever answers here would choose who gets the token.
        let to = location.unwrap_or("another address");
        let why = format!("the relay redirects to {to}; put the relay's own URL in redsyn.relay");
        return ErrorBody::new(status.as_u16(), why.chars().take(REASON_LIMIT).collect::<String>());
    }
    let status = status.as_u16();
    match serde_json::from_slice::<ErrorBody>(bytes) {
        Ok(body) => ErrorBody { status, error: body.error.chars().take(REASON_LIMIT).collect(), ..body },
        Err(_) => ErrorBody::new(status, "the relay gave no reason"),
    }
}

/// reqwest's own text hides the cause (refused, reset, TLS), which is what a person needs.
fn error_chain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirection_tells_where_to_and_what_to_change() {
        let told = |to| error_body(StatusCode::FOUND, to, b"<html>").error;
        let told_of = told(Some("https://relay.example/redsyn/v1/me"));
        assert!(told_of.contains("redirects to https://relay.example/redsyn/v1/me; put"), "{told_of}");
        assert!(told(None).contains("another address") && told(None).contains("redsyn.relay"));
    }
}
