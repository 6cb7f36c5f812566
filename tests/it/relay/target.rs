//! The relay under test: a base URL, nodes with tokens, and, for one of our own, a clock to move.

use std::sync::Arc;
use std::time::Duration;

use redsyn_bridge::crypto::sign::SigningKey;
use redsyn_bridge::domain::clock::{ManualClock, Timestamp};
use redsyn_bridge::domain::random::SystemRandom;
use redsyn_bridge::domain::relay::plan::Plans;
use redsyn_bridge::proto::redsyn::ids::PREFIX;
use redsyn_bridge::relay::metrics::Counter;
use redsyn_bridge::relay::{Listening, Service, Settings, serve};
use redsyn_bridge::store::relay::RelayStore;
use redsyn_bridge::store::sqlite::relay::SqliteRelay;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(super) use crate::support::redsyn::*;

pub(super) const NOW: i64 = 1_790_000_000;

/// Signs an envelope; `ts` is the relay's time unless it has one.
pub(super) fn signed_by(key: &SigningKey, envelope: Value) -> Value {
    signed_at(NOW, key, envelope)
}

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
    let store = open_store(folder, Arc::clone(&settings.plans)).await;
    let service = Service::new(store, Arc::new(clock.clone()), random, settings);
    let base_url = format!("http://{}{PREFIX}", listening.listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel();
    let serving = tokio::spawn(serve(listening, Arc::clone(&service), async {
        let _ = stopped.await;
    }));
    Running { base_url, service, stop, serving }
}

/// The one place where these tests name a store: whatever else implements the operations is judged by the same tests.
pub(super) async fn open_store(folder: &std::path::Path, plans: Arc<Plans>) -> Arc<dyn RelayStore> {
    Arc::new(SqliteRelay::open(folder, plans, SystemRandom::shared()).await.unwrap())
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
