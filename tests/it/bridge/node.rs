//! One node inside the test: a real file, real pumps, a clock in the test's hand.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redsyn_bridge::bridge::carrier::BridgeCarrier;
use redsyn_bridge::bridge::events::{Event, Events};
use redsyn_bridge::bridge::keys::{KeyRing, NoKeeper, NodeKeys};
use redsyn_bridge::bridge::link::Link;
use redsyn_bridge::bridge::supervisor::{Bridge, Control};
use redsyn_bridge::config::redsyn::{RedsynConfig, RelayMode};
use redsyn_bridge::crypto::secret::Secret;
use redsyn_bridge::domain::clock::ManualClock;
use redsyn_bridge::domain::random::{Random, SystemRandom};
use redsyn_bridge::domain::wakeups::Wakeups;
use redsyn_bridge::proto::dsh::names::AgentName;
use redsyn_bridge::redsyn_client::RelayClient;
use redsyn_bridge::store::sqlite::bridge::BridgeStore;
use redsyn_bridge::store::sqlite::local::LocalStore;
use redsyn_bridge::store::sqlite::v2::V2Store;
use tokio::sync::broadcast;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::relay::HANG;

/// Randomness that can be told to bring down whoever asks for it next.
#[derive(Debug, Default)]
pub struct Treacherous {
    strikes: AtomicBool,
}

impl Treacherous {
    pub fn strike(&self) {
        self.strikes.store(true, Ordering::SeqCst);
    }
}

impl Random for Treacherous {
    fn fill(&self, bytes: &mut [u8]) {
        if self.strikes.swap(false, Ordering::SeqCst) {
            // Unlike `panic!`, without a word.
            std::panic::resume_unwind(Box::new("the test said so"));
        }
        SystemRandom.fill(bytes);
    }
}

/// A running node.
pub struct Node {
    pub local: LocalStore,
    pub v2: V2Store,
    pub link: Arc<Link>,
    pub control: Control,
    pub carrier: Arc<BridgeCarrier>,
    pub events: broadcast::Receiver<Event>,
    pub random: Arc<Treacherous>,
    /// Rings local agents.
    pub wakeups: Wakeups<AgentName>,
    pub stop: CancellationToken,
    pub running: JoinHandle<Result<(), JoinError>>,
}

impl Node {
    /// A node with this `redsyn` section, whose relay is a URL, and its files in `folder`.
    pub fn start(yaml: &str, folder: &Path, token: &str, keys: &NodeKeys, clock: ManualClock) -> Self {
        let config = RedsynConfig::parse(yaml, folder).unwrap();
        let RelayMode::Remote(url) = &config.relay else { panic!("{yaml}") };
        let local = LocalStore::open(folder).unwrap();
        let v2 = V2Store::new(local.db().clone(), SystemRandom::shared());
        let store = BridgeStore::new(local.db().clone());
        let clock = Arc::new(clock);
        let client = RelayClient::new(url, Secret::new(token), &config.version, clock.clone()).unwrap();
        let random = Arc::new(Treacherous::default());
        let wakeups = Wakeups::default();
        let same_keys = NodeKeys::parse(&keys.to_text()).unwrap();
        let ring = KeyRing::new(same_keys, None, None, Box::new(NoKeeper));
        let (bridge, carrier) =
            Bridge::new(&config, store, client, ring, wakeups.clone(), clock, random.clone());
        let control = bridge.control.clone();
        let (link, events) = (Arc::clone(&bridge.link), Events::watch(&bridge.events));
        let stop = CancellationToken::new();
        let running = tokio::spawn(bridge.run(stop.clone()));
        let carrier = Arc::new(carrier);
        Self { local, v2, link, control, carrier, events, random, wakeups, stop, running }
    }

    /// Stops it in an orderly way.
    pub async fn stopped(self) {
        self.stop.cancel();
        tokio::time::timeout(HANG, self.running).await.unwrap().unwrap().unwrap();
        self.local.close().await.unwrap();
    }
}
