//! An HTTP proxy between a bridge and its relay. It can stop one chosen call for ever, before the relay sees it or after
//! the relay has answered, so that killing the bridge then is a crash at exactly that moment; and it can do to chosen
//! calls what networks and hostile relays do.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::Notify;

const LIMIT: usize = 64 * 1024 * 1024;

/// On which side of the relay's work something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The relay never sees it.
    BeforeTheRelay,
    /// The relay has acted; the bridge never learns of it.
    AfterTheRelay,
}

/// Which call is stopped: the first that fits.
#[derive(Clone, Debug)]
pub struct Stop {
    pub method: Method,
    pub path: &'static str,
    pub when: When,
    /// What the body of the request (before) or of the answer (after) must contain.
    pub containing: &'static str,
}

/// What goes wrong with a call.
#[derive(Clone)]
pub enum Fault {
    /// Neither an answer nor an end.
    Silence(When),
    /// The connection is closed instead of an answer.
    Cut(When),
    /// An error answer instead of the relay's own.
    Refuse { when: When, status: u16, retry_after: Option<&'static str> },
    /// The answer ends half-way.
    Truncate,
    /// The answer is something else.
    Replace(&'static [u8]),
    /// The answer is changed.
    Rewrite(Arc<dyn Fn(&mut Value) + Send + Sync>),
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silence(when) => write!(f, "silence {when:?}"),
            Self::Cut(when) => write!(f, "cut {when:?}"),
            Self::Refuse { when, status, retry_after } => write!(f, "{status} {retry_after:?} {when:?}"),
            Self::Truncate => f.write_str("truncated"),
            Self::Replace(_) => f.write_str("replaced"),
            Self::Rewrite(_) => f.write_str("rewritten"),
        }
    }
}

impl Fault {
    /// Changes each answer that fits.
    pub fn rewrite(change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        Self::Rewrite(Arc::new(change))
    }

    const fn when(&self) -> When {
        match self {
            Self::Silence(when) | Self::Cut(when) | Self::Refuse { when, .. } => *when,
            Self::Truncate | Self::Replace(_) | Self::Rewrite(_) => When::AfterTheRelay,
        }
    }
}

/// A fault and the calls that it is for.
#[derive(Debug)]
struct Rule {
    method: Method,
    path: &'static str,
    containing: &'static str,
    fault: Fault,
    /// How many calls are still to suffer it.
    left: usize,
}

#[derive(Debug)]
struct Inner {
    relay: Mutex<SocketAddr>,
    http: reqwest::Client,
    rules: Mutex<Vec<Rule>>,
    suffered: AtomicUsize,
    stopped: Notify,
    /// Takes that the relay has answered.
    looks: AtomicUsize,
    /// For each mailbox the calls that the relay holds now, and the most that it has held at once.
    held: Mutex<HashMap<String, (usize, usize)>>,
    hurries: AtomicBool,
    /// Calls under way that the relay does not hold.
    busy: AtomicUsize,
    /// Takes that wait at the relay, or are on their way there or back.
    takes: AtomicUsize,
}

/// A running proxy.
#[derive(Debug)]
pub struct Proxy {
    pub address: SocketAddr,
    inner: Arc<Inner>,
}

impl Proxy {
    pub async fn start(relay: SocketAddr) -> Self {
        let inner = Arc::new(Inner {
            relay: Mutex::new(relay),
            http: http(),
            rules: Mutex::default(),
            suffered: AtomicUsize::new(0),
            stopped: Notify::new(),
            looks: AtomicUsize::new(0),
            held: Mutex::default(),
            hurries: AtomicBool::new(false),
            busy: AtomicUsize::new(0),
            takes: AtomicUsize::new(0),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(pass).with_state(Arc::clone(&inner));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, inner }
    }

    /// Stops the next call that fits.
    pub fn stop_at(&self, stop: Stop) {
        let Stop { method, path, when, containing } = stop;
        self.add(Rule { method, path, containing, fault: Fault::Silence(when), left: 1 });
    }

    /// Resolves once a call has been stopped.
    pub async fn stopped(&self) {
        self.inner.stopped.notified().await;
    }

    /// The next call with this in its path suffers this.
    pub fn fault(&self, method: Method, path: &'static str, fault: Fault) {
        self.faults(method, path, "", fault, 1);
    }

    /// So many of the next calls with this in their path, and this in their body or answer, suffer this.
    pub fn faults(
        &self,
        method: Method,
        path: &'static str,
        containing: &'static str,
        fault: Fault,
        times: usize,
    ) {
        self.add(Rule { method, path, containing, fault, left: times });
    }

    fn add(&self, rule: Rule) {
        self.inner.rules.lock().unwrap().push(rule);
    }

    /// Nothing goes wrong any more.
    pub fn heal(&self) {
        self.inner.rules.lock().unwrap().clear();
    }

    /// How many calls have suffered something.
    pub fn suffered(&self) -> usize {
        self.inner.suffered.load(Ordering::SeqCst)
    }

    /// From now on the relay holds no call.
    pub fn hurry(&self) {
        self.inner.hurries.store(true, Ordering::SeqCst);
    }

    /// For each mailbox that was ever taken from: the calls under way now, and the most at once.
    pub fn held(&self) -> Vec<(usize, usize)> {
        self.inner.held.lock().unwrap().values().copied().collect()
    }

    /// How many takes the relay has answered.
    pub fn looks(&self) -> usize {
        self.inner.looks.load(Ordering::SeqCst)
    }

    /// Whether a call is under way that the relay does not hold.
    pub fn is_busy(&self) -> bool {
        self.inner.busy.load(Ordering::SeqCst) > 0
    }

    /// How many takes have been sent and not answered, by clients that are still there.
    pub fn takes(&self) -> usize {
        self.inner.takes.load(Ordering::SeqCst)
    }

    /// Another relay stands there from now on.
    pub fn redirect(&self, relay: SocketAddr) {
        *self.inner.relay.lock().unwrap() = relay;
    }
}

/// Counts a call as under way until it is dropped.
struct Busy<'a>(&'a AtomicUsize);

impl<'a> Busy<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Counts a call to a mailbox until it is dropped.
struct Held<'a>(&'a Inner, String);

impl<'a> Held<'a> {
    fn new(inner: &'a Inner, mailbox: &str) -> Self {
        let mut held = inner.held.lock().unwrap();
        let (now, most) = held.entry(mailbox.to_owned()).or_default();
        *now += 1;
        *most = (*most).max(*now);
        Self(inner, mailbox.to_owned())
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some((now, _)) = self.0.held.lock().unwrap().get_mut(&self.1) {
            *now -= 1;
        }
    }
}

impl Inner {
    fn fault(&self, method: &Method, path: &str, when: When, body: &[u8]) -> Option<Fault> {
        let mut rules = self.rules.lock().unwrap();
        let fits = |rule: &Rule| {
            rule.method == *method
                && path.contains(rule.path)
                && rule.fault.when() == when
                && String::from_utf8_lossy(body).contains(rule.containing)
        };
        let at = rules.iter().position(fits)?;
        let rule = rules.get_mut(at)?;
        let fault = rule.fault.clone();
        rule.left -= 1;
        if rule.left == 0 {
            rules.remove(at);
        }
        self.suffered.fetch_add(1, Ordering::SeqCst);
        Some(fault)
    }
}

async fn pass(State(inner): State<Arc<Inner>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, LIMIT).await.unwrap_or_default();
    let mut path = parts.uri.path_and_query().map_or_else(String::new, ToString::to_string);
    if inner.hurries.load(Ordering::SeqCst) {
        path = path.replace("?wait=", "?wait=0&was=");
    }
    let is_held = parts.method == Method::GET && path.contains("/inbox/");
    let busy = (!is_held).then(|| Busy::new(&inner.busy));
    let _take = is_held.then(|| Busy::new(&inner.takes));
    let held = is_held.then(|| Held::new(&inner, parts.uri.path()));
    if let Some(fault) = inner.fault(&parts.method, &path, When::BeforeTheRelay, &body) {
        return suffer(&inner, fault, Response::new(Body::empty()), b"", busy).await;
    }
    let mut headers = parts.headers;
    headers.remove("host");
    let relay = *inner.relay.lock().unwrap();
    let sent = inner
        .http
        .request(parts.method.clone(), format!("http://{relay}{path}"))
        .headers(headers)
        .body(body)
        .send()
        .await;
    drop(held);
    // What was held is under way again.
    let busy = busy.unwrap_or_else(|| Busy::new(&inner.busy));
    let Ok(answer) = sent else {
        return Response::builder().status(StatusCode::BAD_GATEWAY).body(Body::empty()).unwrap();
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status();
    for (name, value) in answer.headers() {
        if name != "transfer-encoding" && name != "content-length" {
            response.headers_mut().append(name, value.clone());
        }
    }
    let body = answer.bytes().await.unwrap_or_default();
    if is_held && !path.contains("peek=1") {
        inner.looks.fetch_add(1, Ordering::SeqCst);
    }
    if let Some(fault) = inner.fault(&parts.method, &path, When::AfterTheRelay, &body) {
        return suffer(&inner, fault, response, &body, Some(busy)).await;
    }
    *response.body_mut() = Body::from(body);
    response
}

/// What becomes of the relay's `response` and its `body`.
async fn suffer(
    inner: &Inner,
    fault: Fault,
    mut response: Response,
    body: &[u8],
    busy: Option<Busy<'_>>,
) -> Response {
    *response.body_mut() = match fault {
        Fault::Silence(_) => {
            drop(busy);
            inner.stopped.notify_one();
            std::future::pending().await
        }
        Fault::Cut(_) => {
            drop(busy);
            hang_up()
        }
        Fault::Refuse { status, retry_after, .. } => {
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            if let Some(secs) = retry_after {
                response.headers_mut().insert(header::RETRY_AFTER, secs.parse().unwrap());
            }
            Body::from(json!({"error": "the proxy's doing", "status": status}).to_string())
        }
        Fault::Truncate => {
            response.headers_mut().insert(header::CONTENT_LENGTH, body.len().into());
            cut_short(body)
        }
        Fault::Replace(bytes) => Body::from(bytes),
        Fault::Rewrite(change) => {
            let mut answer = serde_json::from_slice(body).unwrap_or(Value::Null);
            change(&mut answer);
            Body::from(answer.to_string())
        }
    };
    response
}

/// Ends the task of the connection. Unlike `panic!`, it does so without a word.
pub fn hang_up() -> ! {
    std::panic::resume_unwind(Box::new("the script said so"))
}

/// The first half of it, and then nothing, whatever its length was said to be.
pub fn cut_short(body: &[u8]) -> Body {
    let half = body.get(..body.len() / 2).unwrap_or_default().to_vec();
    let end = Err(std::io::Error::other("the script said so"));
    Body::from_stream(futures_util::stream::iter([Ok(half), end]))
}

/// A client for plain HTTP on loopback.
pub fn http() -> reqwest::Client {
    // Another test may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap()
}
