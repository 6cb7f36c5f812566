//! One node: the local broker and, when configured, the bridge and the embedded relay, started in order and stopped
//! in the reverse one.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::admin::{self, AdminFile};
use super::data_folder::DataFolder;
use super::error::{RunError, cannot_open};
use super::key_files::KeyFiles;
use super::listen::listen;
use super::local_store;
use super::operator::{self, Live, Operator, Reloadable, SharedOperator};
use super::progress::{Progress, Tell};
use super::relay_host::RelayHost;
use super::secrets;
use super::signals::Hangups;
use super::takeover::{Taken, Takeover};
use crate::bridge::carrier::BridgeCarrier;
use crate::bridge::events::{Event, Events};
use crate::bridge::keys::KeyRing;
use crate::bridge::link::Link;
use crate::bridge::names::CurrentNames;
use crate::bridge::supervisor::Bridge;
use crate::broker::carrier::{Carrier, NoCarrier};
use crate::broker::{self, Service};
use crate::config::redsyn::{RedsynConfig, RelayMode, TokenSource};
use crate::config::{BrokerSecret, Config, Storage};
use crate::crypto::secret::Secret;
use crate::domain::clock::{SharedClock, Timestamp};
use crate::domain::random::SharedRandom;
use crate::domain::wakeups::Wakeups;
use crate::proto::redsyn::ids::PREFIX;
use crate::redsyn_client::RelayClient;
use crate::store::sqlite::bridge::BridgeStore;
use crate::store::sqlite::local::{Loaded, LocalStore};
use crate::store::sqlite::v2::V2Store;

/// How long what was accepted may take to finish after a stop.
const STOP_LIMIT: Duration = Duration::from_secs(5);
const TOKEN: &str = "redsyn.token";
/// The folder of the embedded relay, and this node's token in it.
const EMBEDDED_RELAY: &str = "relay";
const EMBEDDED_TOKEN: &str = "node.token";
/// The variable that goes before `redsyn.token` and `redsyn.tokenFile`.
const TOKEN_VARIABLE: &str = "REDSYN_TOKEN";

/// What a caller may set beside the configuration.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Where the broker listens instead of `broker.host` and `broker.port`.
    pub broker: Option<String>,
    /// The file that the configuration came from, to be read again by `reload`.
    pub config_file: Option<PathBuf>,
    /// Ends a start that takes long, as soon as nothing is half done.
    pub stop: CancellationToken,
    /// Told how far a long start is.
    pub tell: Option<Tell>,
}

/// A running node.
#[derive(Debug)]
pub struct Node {
    broker: SocketAddr,
    /// Where the broker secret lies; none when it is in the configuration.
    pub secret_file: Option<PathBuf>,
    pub storage: &'static str,
    /// What was taken over from a Node broker at this start.
    pub taken: Vec<Taken>,
    relay: Option<RelayHost>,
    bridge: Option<Bridged>,
    store: LocalStore,
    tasks: JoinSet<Result<(), RunError>>,
    stop: CancellationToken,
    clock: SharedClock,
    _admin: Option<AdminFile>,
    /// Held to the end: the folder is ours as long as anything of it is in use.
    _folder: Option<DataFolder>,
}

/// What others may know of the running bridge.
#[derive(Debug)]
struct Bridged {
    names: Arc<CurrentNames>,
    events: Events,
    link: Arc<Link>,
    relay_url: String,
}

impl Node {
    /// Starts everything, or nothing: what had begun is dropped with the error.
    ///
    /// # Errors
    /// One sentence naming the thing and the way out.
    pub async fn start(
        config: &Config,
        overrides: &Overrides,
        clock: SharedClock,
        random: SharedRandom,
    ) -> Result<Self, RunError> {
        let redsyn = config.redsyn.as_ref();
        // A broker that keeps nothing needs no folder.
        let keeps = config.broker.storage != Storage::Memory || redsyn.is_some();
        let folder =
            keeps.then(|| DataFolder::open(&config.broker.data_dir, "broker.dataDir")).transpose()?;
        let (secret, secret_file) = match &config.broker.secret {
            BrokerSecret::Value(secret) => (secret.clone(), None),
            BrokerSecret::File(file) => (secrets::broker_secret(file, &*random)?, Some(file.clone())),
        };
        let address = overrides
            .broker
            .clone()
            .unwrap_or_else(|| host_and_port(&config.broker.host, config.broker.port));
        let (listener, broker) = listen(&address, "broker.host or broker.port").await?;
        let (store, loaded) = local_store::open(config)?;
        let taken = match &folder {
            Some(folder) if config.broker.storage != Storage::Memory => {
                let v2_store = V2Store::new(store.db().clone(), Arc::clone(&random));
                let taken =
                    take_over(config, folder, (&store, v2_store), loaded.as_ref(), clock.now(), overrides)
                        .await;
                match taken {
                    Ok(taken) => taken,
                    Err(error) => {
                        if let Err(error) = store.close().await {
                            tracing::error!(%error, "not_closed");
                        }
                        return Err(error);
                    }
                }
            }
            _ => Vec::new(),
        };
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();

        let wakeups = Wakeups::default();
        let mut control = None;
        let mut relay = None;
        let mut bridge = None;
        let mut carrier: Arc<dyn Carrier> = Arc::new(NoCarrier);
        if let (Some(redsyn), Some(folder)) = (redsyn, &folder) {
            let at = Relayed { folder, clock: &clock, random: &random };
            let bridge_store = BridgeStore::new(store.db().clone());
            if redsyn.relay == RelayMode::Off {
                carrier = Arc::new(BridgeCarrier::without_relay(redsyn, bridge_store, Arc::clone(&clock)));
            } else if let Some((parts, client, relay_url)) =
                at.connect(redsyn, &bridge_store, &mut relay).await?
            {
                let (running, to_bridge) = Bridge::new(
                    redsyn,
                    bridge_store,
                    client,
                    parts,
                    wakeups.clone(),
                    Arc::clone(&clock),
                    Arc::clone(&random),
                );
                bridge = Some(Bridged {
                    names: Arc::clone(&running.names),
                    events: running.events.clone(),
                    link: Arc::clone(&running.link),
                    relay_url,
                });
                control = Some(running.control.clone());
                carrier = Arc::new(to_bridge);
                let stop = stop.clone();
                tasks.spawn(async move {
                    running
                        .run(stop)
                        .await
                        .map_err(|error| RunError::other(format!("the bridge ended: {error}")))
                });
            }
        }

        let service = Arc::new(Service::new(
            config,
            secret.clone(),
            store.clone(),
            Arc::clone(&clock),
            Arc::clone(&random),
            carrier,
            wakeups,
        ));
        let mut admin = None;
        if let Some(folder) = &folder {
            let decisions = match &control {
                Some(control) => control.decisions.clone(),
                None => operator::decisions(redsyn, &store, &clock),
            };
            let operator = Arc::new(Operator {
                local: store.clone(),
                decisions,
                keys: KeyFiles::new(folder.path()),
                clock: Arc::clone(&clock),
                random: Arc::clone(&random),
                relay: redsyn.map(|redsyn| redsyn.relay.clone()),
                live: Some(Live {
                    broker,
                    relay_url: bridge.as_ref().map(|bridge| bridge.relay_url.clone()),
                    control,
                    config_file: overrides.config_file.clone(),
                    reloadable: Reloadable { service: Arc::clone(&service), secret, config: config.clone() },
                }),
            });
            tasks.spawn(reload_on_hangup(Arc::clone(&operator), stop.clone()));
            admin = Some(
                admin::open(folder, operator, &*random, Arc::clone(&clock), stop.clone(), &mut tasks).await?,
            );
        }
        let stopped = stop.clone().cancelled_owned();
        tasks.spawn(async move {
            broker::serve(listener, service, stopped)
                .await
                .map_err(|error| RunError::other(format!("the broker ended: {error}")))
        });
        let storage = store.storage();
        Ok(Self {
            broker,
            secret_file,
            storage,
            taken,
            relay,
            bridge,
            store,
            tasks,
            stop,
            clock,
            _admin: admin,
            _folder: folder,
        })
    }

    /// Where the broker listens.
    pub const fn broker(&self) -> SocketAddr {
        self.broker
    }

    /// Where the embedded relay listens, if there is one.
    pub fn embedded_relay(&self) -> Option<SocketAddr> {
        self.relay.as_ref().map(RelayHost::address)
    }

    /// The relay's base URL, when there is a bridge.
    pub fn relay_url(&self) -> Option<&str> {
        self.bridge.as_ref().map(|bridge| bridge.relay_url.as_str())
    }

    /// The local agents that have an address, and the address.
    pub fn addresses(&self) -> Vec<(String, String)> {
        let Some(bridge) = &self.bridge else { return Vec::new() };
        bridge
            .names
            .get()
            .agents()
            .map(|(name, agent)| (name.to_string(), agent.address.to_string()))
            .collect()
    }

    /// What the bridge does from now on; `None` without one.
    pub fn watch(&self) -> Option<broadcast::Receiver<Event>> {
        self.bridge.as_ref().map(|bridge| bridge.events.watch())
    }

    /// The state of the link to the relay; `None` without a bridge.
    pub fn link(&self) -> Option<&Link> {
        self.bridge.as_ref().map(|bridge| &*bridge.link)
    }

    /// Runs until `until` is cancelled or a part ends by itself, then stops.
    ///
    /// # Errors
    /// Why a part ended, or could not be stopped in time.
    pub async fn run(mut self, until: CancellationToken) -> Result<(), RunError> {
        let ended = tokio::select! {
            () = until.cancelled() => Ok(()),
            Some(ended) = self.tasks.join_next() => task_result(ended),
            ended = relay_ended(&mut self.relay) => ended,
            // Stopping tells why.
            () = self.store.db().ended() => Ok(()),
        };
        ended.and(self.stop().await)
    }

    /// Finishes what was accepted, answers held calls, closes the databases.
    ///
    /// # Errors
    /// Why a part ended badly, or did not end within five seconds.
    pub async fn stop(self) -> Result<(), RunError> {
        let Self { relay, store, mut tasks, stop, clock, .. } = self;
        stop.cancel();
        let finish = async {
            let mut result = Ok(());
            while let Some(ended) = tasks.join_next().await {
                result = result.and(task_result(ended));
            }
            if let Some(relay) = relay {
                result = result.and(relay.stop().await);
            }
            result.and(
                store.close().await.map_err(|error| RunError::other(format!("closing the store: {error}"))),
            )
        };
        tokio::select! {
            result = finish => result,
            () = clock.sleep(STOP_LIMIT) => Err(RunError::other("not everything stopped within 5 s")),
        }
    }
}

/// SIGHUP reads the configuration again, as `reload` does. What is wrong with it is told in the log, and nothing
/// changes.
async fn reload_on_hangup(operator: SharedOperator, stop: CancellationToken) -> Result<(), RunError> {
    let mut hangups = Hangups::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = hangups.next() => {}
        }
        if let Err(why) = operator.reload().await {
            tracing::error!(why, "not_reloaded");
        }
    }
}

/// Resolves when an embedded relay ends by itself; never without one.
async fn relay_ended(relay: &mut Option<RelayHost>) -> Result<(), RunError> {
    match relay {
        Some(relay) => relay.ended().await,
        None => std::future::pending().await,
    }
}

fn task_result(ended: Result<Result<(), RunError>, tokio::task::JoinError>) -> Result<(), RunError> {
    ended.unwrap_or_else(|error| Err(RunError::other(format!("a part of the process failed: {error}"))))
}

/// As it stands in a URL.
pub fn host_and_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// What a Node broker has left in the data folder.
async fn take_over(
    config: &Config,
    folder: &DataFolder,
    (store, v2_store): (&LocalStore, V2Store),
    loaded: Option<&Loaded>,
    now: Timestamp,
    overrides: &Overrides,
) -> Result<Vec<Taken>, RunError> {
    let takeover = Takeover {
        store,
        v2_store,
        from: folder.path(),
        data: folder.path(),
        storage: config.broker.storage,
        too_old: now.minus(config.broker.message_ttl),
        now,
        stop: overrides.stop.clone(),
    };
    takeover.at_start(loaded, &mut Progress::new(overrides.tell)).await
}

/// What connecting to a relay needs of the node.
struct Relayed<'a> {
    folder: &'a DataFolder,
    clock: &'a SharedClock,
    random: &'a SharedRandom,
}

impl Relayed<'_> {
    /// The node's keys, a client and the URL; `None` when `redsyn.relay` is `off`. An embedded relay is started.
    async fn connect(
        &self,
        redsyn: &RedsynConfig,
        store: &BridgeStore,
        relay: &mut Option<RelayHost>,
    ) -> Result<Option<(KeyRing, RelayClient, String)>, RunError> {
        let key_files = KeyFiles::new(self.folder.path());
        if redsyn.relay != RelayMode::Off {
            let failed = |error| cannot_open(&error, self.folder.path());
            key_files.check_kept(store.has_mail().await.map_err(failed)?)?;
            store.all_go_on(self.clock.now()).await.map_err(failed)?;
        }
        let (url, token) = match &redsyn.relay {
            RelayMode::Off => return Ok(None),
            RelayMode::Remote(url) => (url.clone(), self.given_token(&redsyn.token)?),
            RelayMode::Embedded { listen } => {
                let host = RelayHost::start(
                    &self.folder.file(EMBEDDED_RELAY),
                    listen,
                    "redsyn.listen",
                    Arc::clone(self.clock),
                    Arc::clone(self.random),
                )
                .await?;
                let token = self.embedded_token(redsyn, &host).await?;
                let url = format!("http://{}{PREFIX}", host.address());
                *relay = Some(host);
                (url.parse().map_err(|error| RunError::other(format!("{url}: {error}")))?, token)
            }
        };
        let keys = key_files.ring(&**self.random)?;
        if let Some(host) = relay {
            host.adopt_keys(&token, keys.current().registration()).await?;
        }
        let client =
            RelayClient::new(&url, token, &redsyn.version, Arc::clone(self.clock)).map_err(|error| {
                RunError::other(format!("cannot set up the connection to the relay: {error}"))
            })?;
        Ok(Some((keys, client, url.to_string())))
    }

    fn given_token(&self, source: &TokenSource) -> Result<Secret, RunError> {
        if let Some(token) = std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.trim().is_empty()) {
            return Ok(Secret::new(token.trim()));
        }
        match source {
            TokenSource::Value(token) => Ok(token.clone()),
            TokenSource::File(file) => secrets::token(file),
            TokenSource::Default => secrets::token(&self.folder.file(TOKEN)),
        }
    }

    /// The token beside the relay's store, if the relay still knows it, else a new one. Not where the token of
    /// another relay lies: that one was shown only once.
    async fn embedded_token(&self, redsyn: &RedsynConfig, host: &RelayHost) -> Result<Secret, RunError> {
        let file = self.folder.file(EMBEDDED_RELAY).join(EMBEDDED_TOKEN);
        if let Some(token) = secrets::known_token(&file)?
            && host.knows(&token).await?
        {
            return Ok(token);
        }
        let scope =
            redsyn.scope.as_ref().ok_or_else(|| RunError::Config("redsyn.scope is missing".into()))?;
        let token = host.make_embedded_node(scope).await?;
        secrets::keep_token(&file, &token)?;
        Ok(token)
    }
}
