//! An HTTP proxy between a bridge and its relay that can stop one chosen call for ever, before the relay sees it or
//! after the relay has answered. Killing the bridge then is a crash at exactly that moment.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use tokio::sync::Notify;

const LIMIT: usize = 64 * 1024 * 1024;

/// When the call is stopped.
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

#[derive(Debug)]
struct Inner {
    relay: SocketAddr,
    http: reqwest::Client,
    stop: Mutex<Option<Stop>>,
    stopped: Notify,
}

/// A running proxy.
#[derive(Debug)]
pub struct Proxy {
    pub address: SocketAddr,
    inner: Arc<Inner>,
}

impl Proxy {
    pub async fn start(relay: SocketAddr) -> Self {
        let http = http();
        let inner = Arc::new(Inner { relay, http, stop: Mutex::new(None), stopped: Notify::new() });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(pass).with_state(Arc::clone(&inner));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, inner }
    }

    /// Stops the next call that fits.
    pub fn stop_at(&self, stop: Stop) {
        *self.inner.stop.lock().unwrap() = Some(stop);
    }

    /// Resolves once a call has been stopped.
    pub async fn stopped(&self) {
        self.inner.stopped.notified().await;
    }
}

impl Inner {
    fn stops(&self, method: &Method, path: &str, when: When, body: &[u8]) -> bool {
        let mut stop = self.stop.lock().unwrap();
        let fits = stop.as_ref().is_some_and(|stop| {
            stop.method == *method
                && path.contains(stop.path)
                && stop.when == when
                && String::from_utf8_lossy(body).contains(stop.containing)
        });
        if fits {
            *stop = None;
            self.stopped.notify_one();
        }
        fits
    }
}

async fn pass(State(inner): State<Arc<Inner>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, LIMIT).await.unwrap_or_default();
    let path = parts.uri.path_and_query().map_or_else(String::new, ToString::to_string);
    if inner.stops(&parts.method, &path, When::BeforeTheRelay, &body) {
        std::future::pending::<()>().await;
    }
    let mut headers = parts.headers;
    headers.remove("host");
    let sent = inner
        .http
        .request(parts.method.clone(), format!("http://{}{path}", inner.relay))
        .headers(headers)
        .body(body)
        .send()
        .await;
    let Ok(answer) = sent else {
        return Response::builder().status(StatusCode::BAD_GATEWAY).body(Body::empty()).unwrap();
    };
    let mut response = Response::builder().status(answer.status());
    for (name, value) in answer.headers() {
        if name != "transfer-encoding" && name != "content-length" {
            response = response.header(name, value);
        }
    }
    let body = answer.bytes().await.unwrap_or_default();
    if inner.stops(&parts.method, &path, When::AfterTheRelay, &body) {
        std::future::pending::<()>().await;
    }
    response.body(Body::from(body)).unwrap()
}

/// A client for plain HTTP on loopback.
pub fn http() -> reqwest::Client {
    // Another test may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap()
}
