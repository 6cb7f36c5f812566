//! A relay that does as it is told: it records every call, answers what a script says, and otherwise what a friendly
//! relay would. Its clock is the test's, give or take a skew.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use redsyn_bridge::bridge::keys::NodeKeys;
use redsyn_bridge::domain::clock::{Clock, ManualClock};
use serde_json::{Value, json};
use tokio::sync::watch;
use url::Url;

use crate::support::proxy::hang_up;

/// Long enough for a slow machine; only a test that has failed waits for it.
pub const HANG: Duration = Duration::from_secs(20);

/// A call as it arrived.
#[derive(Clone, Debug)]
pub struct Call {
    /// Method and path, without the base and the query.
    pub what: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: Value,
}

/// What the script lets the relay say.
#[derive(Clone, Debug)]
pub enum Say {
    Json(u16, Value),
    Limited(u16, Value, &'static str),
    Text(u16, String),
    Bytes(u16, Vec<u8>),
    /// Close the connection instead of answering.
    HangUp,
    /// Do what was asked, then close the connection.
    ObeyAndHangUp,
    /// Keep the caller waiting.
    Nothing,
}

impl Say {
    pub fn error(status: u16, why: &str) -> Self {
        Self::Json(status, json!({"error": why, "status": status}))
    }
}

#[derive(Debug)]
struct Inner {
    clock: ManualClock,
    skew_secs: Mutex<i64>,
    has_forgotten: AtomicBool,
    /// What it says in `Redsyn-Version`.
    date: Mutex<Option<String>>,
    calls: watch::Sender<Vec<Call>>,
    script: Mutex<Vec<(String, Say)>>,
    keys: Mutex<HashMap<String, Value>>,
    mail: watch::Sender<HashMap<String, VecDeque<Value>>>,
}

/// Stops answering when it is dropped.
#[derive(Debug)]
pub struct Relay {
    inner: Arc<Inner>,
    pub url: Url,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Relay {
    pub async fn start(clock: ManualClock) -> Self {
        let inner = Arc::new(Inner {
            clock,
            skew_secs: Mutex::default(),
            has_forgotten: AtomicBool::new(false),
            date: Mutex::default(),
            calls: watch::Sender::default(),
            script: Mutex::default(),
            keys: Mutex::default(),
            mail: watch::Sender::default(),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/redsyn/v1", listener.local_addr().unwrap()).parse().unwrap();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&inner));
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { inner, url, server }
    }

    /// The next call that begins with `what` (`POST /messages`) gets this answer, once.
    pub fn script(&self, what: &str, say: Say) {
        self.inner.script.lock().unwrap().push((what.to_owned(), say));
    }

    /// Its clock is ahead by so much.
    pub fn skew(&self, secs: i64) {
        *self.inner.skew_secs.lock().unwrap() = secs;
    }

    /// It knows no key of the node any more, until it is given one.
    pub fn forget_the_node(&self) {
        self.inner.has_forgotten.store(true, Ordering::SeqCst);
    }

    /// The API date of its answers from now on.
    pub fn answer_as_of(&self, date: &str) {
        *self.inner.date.lock().unwrap() = Some(date.to_owned());
    }

    /// What `GET /agents/<address>/key` answers from now on.
    pub fn set_key(&self, address: &str, keys: &NodeKeys) {
        let registration = keys.registration();
        let answer = json!({"node": "n", "signing_key": registration.public_key, "enc_key": registration.enc_key,
                            "enc_sig": registration.enc_sig, "fingerprint": "f"});
        self.set_key_answer(address, answer);
    }

    pub fn set_key_answer(&self, address: &str, answer: Value) {
        self.inner.keys.lock().unwrap().insert(address.to_owned(), answer);
    }

    pub fn drop_key(&self, address: &str) {
        self.inner.keys.lock().unwrap().remove(address);
    }

    /// Puts mail into an agent's mailbox. What is taken is gone: to deliver it again, put it in again.
    pub fn deliver(&self, address: &str, envelopes: impl IntoIterator<Item = Value>) {
        self.inner.mail.send_modify(|mail| mail.entry(address.to_owned()).or_default().extend(envelopes));
    }

    pub fn waiting(&self, address: &str) -> usize {
        self.inner.mail.borrow().get(address).map_or(0, VecDeque::len)
    }

    /// All calls so far whose method and path begin with `what`.
    pub fn calls(&self, what: &str) -> Vec<Call> {
        self.inner.calls.borrow().iter().filter(|call| call.what.starts_with(what)).cloned().collect()
    }

    /// Waits until there are so many of them.
    pub async fn called(&self, what: &str, times: usize) -> Vec<Call> {
        let mut calls = self.inner.calls.subscribe();
        let enough =
            |calls: &Vec<Call>| calls.iter().filter(|call| call.what.starts_with(what)).count() >= times;
        let waited = tokio::time::timeout(HANG, calls.wait_for(enough)).await;
        assert!(waited.is_ok(), "{what} was not called {times} times: {:#?}", self.summary());
        self.calls(what)
    }

    pub fn summary(&self) -> Vec<String> {
        self.inner.calls.borrow().iter().map(|call| call.what.clone()).collect()
    }
}

async fn answer(State(relay): State<Arc<Inner>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let bytes = to_bytes(body, 1 << 24).await.unwrap();
    let path = parts.uri.path().strip_prefix("/redsyn/v1").unwrap_or(parts.uri.path());
    let call = Call {
        what: format!("{} {path}", parts.method),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers,
        body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
    };
    let scripted = {
        let mut script = relay.script.lock().unwrap();
        let at = script.iter().position(|(what, _)| call.what.starts_with(what));
        at.map(|at| script.remove(at).1)
    };
    relay.calls.send_modify(|calls| calls.push(call.clone()));
    let mut response = match scripted {
        Some(Say::HangUp) => hang_up(),
        Some(Say::Nothing) => std::future::pending().await,
        Some(Say::ObeyAndHangUp) => {
            friendly(&relay, &call).await;
            hang_up()
        }
        Some(Say::Bytes(status, bytes)) => (StatusCode::from_u16(status).unwrap(), bytes).into_response(),
        Some(Say::Json(status, body)) => json_answer(status, &body),
        Some(Say::Limited(status, body, retry_after)) => {
            let mut response = json_answer(status, &body);
            response.headers_mut().insert(header::RETRY_AFTER, retry_after.parse().unwrap());
            response
        }
        Some(Say::Text(status, text)) => (StatusCode::from_u16(status).unwrap(), text).into_response(),
        None => friendly(&relay, &call).await,
    };
    let secs = relay.clock.now().secs() + *relay.skew_secs.lock().unwrap();
    let date = UNIX_EPOCH + Duration::from_secs(u64::try_from(secs).unwrap());
    response.headers_mut().insert(header::DATE, httpdate::fmt_http_date(date).parse().unwrap());
    if let Some(date) = &*relay.date.lock().unwrap() {
        response.headers_mut().insert("redsyn-version", date.parse().unwrap());
    }
    response
}

fn json_answer(status: u16, body: &Value) -> Response {
    let response = Response::builder().status(status).header(header::CONTENT_TYPE, "application/json");
    response.body(Body::from(body.to_string())).unwrap()
}

async fn friendly(relay: &Inner, call: &Call) -> Response {
    let (method, path) = call.what.split_once(' ').unwrap();
    let not_found = json!({"error": "there is no such thing", "status": 404});
    match (method, path) {
        ("GET", path) if path.ends_with("/key") => {
            let address = path.trim_start_matches("/agents/").trim_end_matches("/key");
            match relay.keys.lock().unwrap().get(address) {
                Some(key) => json_answer(200, key),
                None => json_answer(404, &not_found),
            }
        }
        ("GET", path) if path.starts_with("/agents/") => json_answer(200, &json!({"online": false})),
        ("PUT", path) => {
            if path == "/nodes/key" {
                relay.has_forgotten.store(false, Ordering::SeqCst);
            }
            json_answer(200, &json!({"ok": true}))
        }
        ("POST", "/messages") if relay.has_forgotten.load(Ordering::SeqCst) => {
            json_answer(401, &json!({"error": "no key of this node", "status": 401}))
        }
        ("POST", "/messages") => {
            let text = |name: &str| call.body[name].as_str().map(str::to_owned);
            let thread = text("thread").or_else(|| text("id"));
            let to = text("to").map(|to| if to.contains('#') { to } else { format!("{to}#s1") });
            json_answer(201, &json!({"id": call.body["id"], "thread": thread, "to": to, "signed": true}))
        }
        ("POST", path) if path.ends_with("/ack") => json_answer(200, &json!({"ok": true})),
        ("GET", path) if path.starts_with("/inbox/") => {
            let address = path.trim_start_matches("/inbox/");
            let items = if call.query.contains("peek=1") {
                relay.mail.borrow().get(address).into_iter().flatten().cloned().collect()
            } else {
                take(relay, address, call.query.contains("wait=0")).await
            };
            json_answer(200, &json!({"items": items}))
        }
        _ => json_answer(404, &not_found),
    }
}

/// What waits in the mailbox; when nothing does and the caller is patient, what comes first.
async fn take(relay: &Inner, address: &str, impatient: bool) -> Vec<Value> {
    let has_mail =
        |mail: &HashMap<String, VecDeque<Value>>| mail.get(address).is_some_and(|box_| !box_.is_empty());
    if !impatient {
        relay.mail.subscribe().wait_for(has_mail).await.unwrap();
    }
    let mut taken = Vec::new();
    relay.mail.send_if_modified(|mail| {
        taken.extend(mail.get_mut(address).into_iter().flat_map(|box_| box_.drain(..)));
        false
    });
    taken
}
