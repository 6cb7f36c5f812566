//! The relay under test: a base URL, nodes with tokens, and, for one of our own, a clock to move.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use redsyn_bridge::crypto::sign::SigningKey;
use redsyn_bridge::domain::clock::{ManualClock, Timestamp};
use redsyn_bridge::domain::random::SystemRandom;
use redsyn_bridge::domain::relay::plan::Plans;
use redsyn_bridge::proto::redsyn::ids::PREFIX;
use redsyn_bridge::proto::redsyn::signed;
use redsyn_bridge::relay::metrics::Counter;
use redsyn_bridge::relay::{Listening, Service, Settings, serve};
use redsyn_bridge::store::sqlite::relay::SqliteRelay;
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(super) const NOW: i64 = 1_790_000_000;
/// Longer than any answer takes that does come.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for what must happen soon by the real clock; the relay's own stands still.
pub(super) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("an answer in time")
}

/// One node: a base URL and a token.
#[derive(Clone, Debug)]
pub(super) struct Node {
    http: reqwest::Client,
    pub(super) base_url: String,
    pub(super) token: String,
}

#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Value,
}

impl Reply {
    /// The body, when the status is the one expected. Errors must have the protocol's form.
    #[track_caller]
    pub(super) fn is(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        if status >= 400 {
            assert_eq!(self.body["status"], status);
            assert!(self.body["error"].as_str().is_some_and(|text| !text.is_empty()), "{}", self.body);
        }
        assert_eq!(self.headers["redsyn-version"], "2026-09-25");
        assert!(self.headers.contains_key("date"));
        self.body
    }

    /// The error's text.
    #[track_caller]
    pub(super) fn refused(self, status: u16) -> String {
        self.is(status)["error"].as_str().unwrap().to_owned()
    }
}

impl Node {
    pub(super) fn new(base_url: &str, token: &str) -> Self {
        // Another test may have done it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        Self { http, base_url: base_url.to_owned(), token: token.to_owned() }
    }

    pub(super) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base_url)).bearer_auth(&self.token)
    }

    pub(super) async fn send_request(&self, request: reqwest::RequestBuilder) -> Reply {
        soon(async {
            let response = request.send().await.unwrap();
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            let bytes = response.bytes().await.unwrap();
            let body = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).unwrap() };
            Reply { status, headers, body }
        })
        .await
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Reply {
        let mut request = self.request(method, path);
        if let Some(body) = body {
            request = request.json(body);
        }
        self.send_request(request).await
    }

    pub(super) async fn get(&self, path: &str) -> Reply {
        self.call(Method::GET, path, None).await
    }

    pub(super) async fn put(&self, path: &str, body: Value) -> Reply {
        self.call(Method::PUT, path, Some(&body)).await
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> Reply {
        self.call(Method::POST, path, Some(&body)).await
    }

    /// Announces an agent as listening, with `extra` fields.
    pub(super) async fn announce(&self, agent: &str, extra: Value) -> Reply {
        let mut body = json!({"listening": true});
        body.as_object_mut().unwrap().extend(extra.as_object().cloned().unwrap_or_default());
        self.put(&format!("/agents/{agent}"), body).await
    }

    pub(super) async fn send(&self, envelope: &Value) -> Reply {
        self.call(Method::POST, "/messages", Some(envelope)).await
    }

    pub(super) async fn take(&self, agent: &str) -> Vec<Value> {
        self.take_with(agent, "").await
    }

    pub(super) async fn take_with(&self, agent: &str, query: &str) -> Vec<Value> {
        let body = self.get(&format!("/inbox/{agent}?{query}")).await.is(200);
        body["items"].as_array().unwrap().clone()
    }

    /// The ids that a take gives, in order.
    pub(super) async fn take_ids(&self, agent: &str) -> Vec<String> {
        ids(&self.take(agent).await)
    }

    pub(super) async fn ack(&self, agent: &str, ids: &[&str]) -> Value {
        self.post(&format!("/inbox/{agent}/ack"), json!({"ids": ids})).await.is(200)
    }
}

pub(super) fn ids(items: &[Value]) -> Vec<String> {
    items.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

pub(super) fn text(text: &str) -> Value {
    json!({"type": "text/plain", "text": text})
}

/// A plain request.
pub(super) fn request(id: &str, from: &str, to: &str) -> Value {
    json!({"v": 1, "id": id, "kind": "request", "from": from, "to": to, "body": text("hi")})
}

pub(super) fn answer(kind: &str, id: &str, from: &str, reply_to: &str) -> Value {
    json!({"v": 1, "id": id, "kind": kind, "from": from, "reply_to": reply_to, "body": text("done")})
}

/// `with(envelope, {"to": …})`: the same with other fields.
pub(super) fn with(mut envelope: Value, fields: Value) -> Value {
    envelope.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    envelope
}

pub(super) fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed(&[seed; 32])
}

/// Signs an envelope; `ts` is the relay's time unless it has one.
pub(super) fn signed_by(key: &SigningKey, envelope: Value) -> Value {
    let Value::Object(mut map) = envelope else { panic!("an envelope is an object") };
    map.entry("ts").or_insert(NOW.into());
    signed::sign(&mut map, key).unwrap();
    Value::Object(map)
}

/// A body whose seal nobody opens; its shape is right.
pub(super) fn sealed_body() -> Value {
    let epk = redsyn_bridge::crypto::base64url::encode(&P256_POINT);
    let enc = json!({"v": 1, "alg": "P256-HKDF-SHA256-A256GCM", "epk": epk, "nonce": "AAAAAAAAAAAAAAAA",
                     "ct": "AAAAAAAAAAAAAAAAAAAAAAAA", "files_nonce": ""});
    json!({"type": "application/redsyn+encrypted", "enc": enc})
}

/// The generator of P-256, uncompressed: a valid public key.
pub(super) const P256_POINT: [u8; 65] = [
    0x04, 0x6b, 0x17, 0xd1, 0xf2, 0xe1, 0x2c, 0x42, 0x47, 0xf8, 0xbc, 0xe6, 0xe5, 0x63, 0xa4, 0x40, 0xf2,
    0x77, 0x03, 0x7d, 0x81, 0x2d, 0xeb, 0x33, 0xa0, 0xf4, 0xa1, 0x39, 0x45, 0xd8, 0x98, 0xc2, 0x96, 0x4f,
    0xe3, 0x42, 0xe2, 0xfe, 0x1a, 0x7f, 0x9b, 0x8e, 0xe7, 0xeb, 0x4a, 0x7c, 0x0f, 0x9e, 0x16, 0x2b, 0xce,
    0x33, 0x57, 0x6b, 0x31, 0x5e, 0xce, 0xcb, 0xb6, 0x40, 0x68, 0x37, 0xbf, 0x51, 0xf5,
];

/// The people the suite needs. `acme`: ana (admin, two nodes), beto (finance too), caro (ops). `globex`: dora.
/// eva belongs to no organisation; fede's `solo` is on the free plan.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) ana: Node,
    pub(super) ana_server: Node,
    pub(super) beto: Node,
    pub(super) caro: Node,
    pub(super) dora: Node,
    pub(super) eva: Node,
    pub(super) fede: Node,
}

/// A relay of our own, whose clock stands still.
pub(super) struct Bench {
    pub(super) target: Target,
    pub(super) clock: ManualClock,
    pub(super) service: Arc<Service>,
    pub(super) folder: tempfile::TempDir,
    stop: Option<oneshot::Sender<()>>,
    pub(super) serving: JoinHandle<std::io::Result<()>>,
}

impl std::ops::Deref for Bench {
    type Target = Target;

    fn deref(&self) -> &Target {
        &self.target
    }
}

impl Bench {
    pub(super) async fn start() -> Self {
        Self::start_with(Plans::default()).await
    }

    pub(super) async fn start_with(plans: Plans) -> Self {
        Self::start_as(Settings { plans: Arc::new(plans), insecure_targets: true, ..Settings::default() })
            .await
    }

    /// As people run it: webhooks point to public hosts alone.
    pub(super) async fn start_strict(plans: Plans) -> Self {
        Self::start_as(Settings { plans: Arc::new(plans), ..Settings::default() }).await
    }

    pub(super) async fn start_as(settings: Settings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(Timestamp::from_secs(NOW));
        let Running { base_url, service, stop, serving } = run(folder.path(), &clock, settings).await;
        let target = people(&service, &base_url).await;
        Self { target, clock, service, folder, stop: Some(stop), serving }
    }

    /// Once stopped: again, on the same store. The nodes know the old address; only the relay's own doing is seen.
    pub(super) async fn restart(&mut self) {
        soon(&mut self.serving).await.unwrap().unwrap();
        self.service.close().await.unwrap();
        let running = run(self.folder.path(), &self.clock, self.service.settings().clone()).await;
        (self.service, self.serving, self.stop) = (running.service, running.serving, Some(running.stop));
    }

    pub(super) fn advance(&self, secs: u64) {
        self.clock.advance(Duration::from_secs(secs));
    }

    /// Tells the relay to stop; `stopped` waits for it.
    pub(super) fn stop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }

    pub(super) async fn stopped(self) {
        soon(self.serving).await.unwrap().unwrap();
        self.service.close().await.unwrap();
    }
}

/// A relay that knows nobody.
pub(super) struct Running {
    pub(super) base_url: String,
    pub(super) service: Arc<Service>,
    /// The relay stops when this is dropped.
    pub(super) stop: oneshot::Sender<()>,
    serving: JoinHandle<std::io::Result<()>>,
}

pub(super) async fn run(folder: &std::path::Path, clock: &ManualClock, settings: Settings) -> Running {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    run_at(listener.into(), folder, clock, settings).await
}

pub(super) async fn run_at(
    listening: Listening,
    folder: &std::path::Path,
    clock: &ManualClock,
    settings: Settings,
) -> Running {
    let random = SystemRandom::shared();
    let store = SqliteRelay::open(folder, Arc::clone(&settings.plans), Arc::clone(&random)).await.unwrap();
    let service = Service::new(Arc::new(store), Arc::new(clock.clone()), random, settings);
    let base_url = format!("http://{}{PREFIX}", listening.listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel();
    let serving = tokio::spawn(serve(listening, Arc::clone(&service), async {
        let _ = stopped.await;
    }));
    Running { base_url, service, stop, serving }
}

async fn people(service: &Service, base_url: &str) -> Target {
    let plain = async |email: &str, plan: &str, node: &str| {
        let person = service.create_person(email, plan).await.unwrap();
        let token = service.create_node(person, node).await.unwrap();
        (person, Node::new(base_url, token.expose()))
    };
    let colleague = async |scope: &str| {
        let mut names = scope.split('/').map(|name| name.parse().unwrap());
        let scope = redsyn_bridge::config::redsyn::Scope {
            org: names.next().unwrap(),
            team: names.next().unwrap(),
            user: names.next().unwrap(),
        };
        Node::new(base_url, service.ensure_embedded(&scope, "pc").await.unwrap().expose())
    };
    let (ana_person, ana) = plain("ana@acme.example", "enterprise", "laptop").await;
    let server = service.create_node(ana_person, "server").await.unwrap();
    let (_, dora) = plain("dora@globex.example", "enterprise", "laptop").await;
    let (_, eva) = plain("eva@initech.example", "enterprise", "laptop").await;
    let (_, fede) = plain("fede@solo.example", "free", "laptop").await;
    for (node, org, me) in [(&ana, "acme", "ana"), (&dora, "globex", "dora"), (&fede, "solo", "fede")] {
        node.post("/orgs", json!({"handle": org, "me": me})).await.is(201);
    }
    ana.post("/orgs/acme/teams", json!({"handle": "finance"})).await.is(201);
    ana.post("/orgs/acme/teams", json!({"handle": "ops"})).await.is(201);
    let (beto, caro) = (colleague("acme/finance/beto").await, colleague("acme/ops/caro").await);
    ana.post("/orgs/acme/teams/general/members", json!({"who": "beto"})).await.is(200);
    ana.post("/orgs/acme/teams/general/members", json!({"who": "caro"})).await.is(200);
    Target { ana_server: Node::new(base_url, server.expose()), ana, beto, caro, dora, eva, fede }
}

/// Until the relay has counted so many.
pub(super) async fn settled(bench: &Bench, counter: Counter, count: u64) {
    soon(async {
        while bench.service.metrics().get(counter) < count {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Links acme and globex, each side exposing everything, unsigned messages let in.
pub(super) async fn link_openly(target: &Target) {
    target.ana.post("/orgs/acme/links", json!({"other": "globex"})).await.is(201);
    target.dora.post("/orgs/globex/links", json!({"other": "acme"})).await.is(200);
    for (node, org, other) in [(&target.ana, "acme", "globex"), (&target.dora, "globex", "acme")] {
        let path = format!("/orgs/{org}/links/{other}");
        node.put(&format!("{path}/expose"), json!({"kind": "agent", "pattern": "*", "on": true}))
            .await
            .is(200);
        node.put(&format!("{path}/rules"), json!({"signed_only": false})).await.is(200);
    }
}

/// The fields of an object, for tampering.
pub(super) fn fields(value: &mut Value) -> &mut Map<String, Value> {
    value.as_object_mut().unwrap()
}
