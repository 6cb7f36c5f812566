//! Puts the parts of the bridge together and owns their tasks: none outlives `stop`, and one that dies ends the
//! bridge, so that the process can say so.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::bells::Bells;
use super::carrier::BridgeCarrier;
use super::directory::Directory;
use super::events::Events;
use super::inbound::Inbound;
use super::keys::NodeKeys;
use super::link::Link;
use super::names::Names;
use super::outbound::{InFlight, Outbound};
use super::presence::Presence;
use crate::config::redsyn::RedsynConfig;
use crate::domain::clock::SharedClock;
use crate::domain::random::SharedRandom;
use crate::domain::wakeups::Wakeups;
use crate::proto::dsh::names::AgentName;
use crate::redsyn_client::RelayClient;
use crate::store::sqlite::bridge::BridgeStore;

/// How often what no relay can deliver again is forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(60 * 60);

/// A bridge that is configured and not yet running.
#[derive(Debug)]
pub struct Bridge {
    outbound: Arc<Outbound>,
    inbound: Arc<Inbound>,
    pub link: Arc<Link>,
    pub names: Arc<Names>,
    pub events: Events,
}

impl Bridge {
    /// `client` speaks to the relay with this node's token; `keys` are this node's; `wakeups` rings local agents
    /// that wait for mail.
    pub fn new(
        config: &RedsynConfig,
        store: BridgeStore,
        client: RelayClient,
        keys: NodeKeys,
        wakeups: Wakeups<AgentName>,
        clock: SharedClock,
        random: SharedRandom,
    ) -> (Self, BridgeCarrier) {
        let keys = Arc::new(keys);
        let names = Arc::new(Names::new(config));
        let events = Events::default();
        let wake = Arc::new(Notify::new());
        let held = names.agents().map(|(name, agent)| (name.clone(), agent.hold)).collect::<Vec<_>>();
        let presence = Arc::new(Presence::new(held, Arc::clone(&clock)));
        let link = Arc::new(Link::new(
            client.clone(),
            store.clone(),
            Arc::clone(&keys),
            Arc::clone(&names),
            Arc::clone(&clock),
            Arc::clone(&random),
        ));
        let in_flight = InFlight::default();
        let bells = Bells { v1: wakeups, v2: Wakeups::default() };
        let carrier = BridgeCarrier {
            bells: bells.clone(),
            taking: Mutex::default(),
            directory: Directory::default(),
            store: store.clone(),
            names: Arc::clone(&names),
            presence: Arc::clone(&presence),
            client: Some(client.clone()),
            encrypt: config.encrypt,
            receipts: config.receipts,
            clock: Arc::clone(&clock),
            wake: Arc::clone(&wake),
            in_flight: in_flight.clone(),
        };
        let outbound = Arc::new(Outbound {
            store: store.clone(),
            client: client.clone(),
            link: Arc::clone(&link),
            keys: Arc::clone(&keys),
            names: Arc::clone(&names),
            encrypt: config.encrypt,
            events: events.clone(),
            clock: Arc::clone(&clock),
            random: Arc::clone(&random),
            wake: Arc::clone(&wake),
            wakeups: bells.clone(),
            in_flight,
        });
        let inbound = Arc::new(Inbound {
            store,
            client,
            link: Arc::clone(&link),
            keys,
            names: Arc::clone(&names),
            presence,
            events: events.clone(),
            clock,
            random,
            wake_outbound: wake,
            wakeups: bells,
        });
        (Self { outbound, inbound, link, names, events }, carrier)
    }

    /// Runs until `stop`.
    ///
    /// # Errors
    /// The panic of a task, after the others have been stopped.
    pub async fn run(self, stop: CancellationToken) -> Result<(), tokio::task::JoinError> {
        let mut tasks = JoinSet::new();
        let all = stop.child_token();
        {
            let (link, stop) = (Arc::clone(&self.link), all.clone());
            tasks.spawn(async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = link.bring_up() => stop.cancelled().await,
                }
            });
        }
        tasks.spawn(Arc::clone(&self.outbound).run(all.clone()));
        for (name, agent) in self.names.agents() {
            tasks.spawn(Arc::clone(&self.inbound).run(name.clone(), agent.clone(), all.clone()));
        }
        tasks.spawn(forget(Arc::clone(&self.outbound), all.clone()));
        let mut result = Ok(());
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "bridge_task_failed");
                result = Err(error);
            }
            all.cancel();
        }
        result
    }
}

async fn forget(parts: Arc<Outbound>, stop: CancellationToken) {
    loop {
        if let Err(error) = parts.store.forget(parts.clock.now()).await {
            tracing::error!(%error, "bridge_forget_failed");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = parts.clock.sleep(FORGET_EVERY) => {}
        }
    }
}
