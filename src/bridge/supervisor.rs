//! Puts the parts of the bridge together and owns their tasks: none outlives `stop`, and one that dies ends the
//! bridge, so that the process can say so.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

use super::bells::Bells;
use super::carrier::BridgeCarrier;
use super::decisions::Decisions;
use super::directory::Directory;
use super::events::Events;
use super::inbound::Inbound;
use super::keys::KeyRing;
use super::link::Link;
use super::lookups::Lookups;
use super::names::{CurrentNames, Names};
use super::outbound::{InFlight, Outbound};
use super::presence::Presence;
use super::release::Decided;
use crate::config::redsyn::{MappedAgent, RedsynConfig};
use crate::domain::clock::SharedClock;
use crate::domain::random::SharedRandom;
use crate::domain::wakeups::Wakeups;
use crate::proto::dsh::names::AgentName;
use crate::redsyn_client::{CallError, RelayClient};
use crate::store::sqlite::bridge::BridgeStore;

/// How often what no relay can deliver again is forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(60 * 60);

/// A bridge that is configured and not yet running.
#[derive(Debug)]
pub struct Bridge {
    outbound: Arc<Outbound>,
    inbound: Arc<Inbound>,
    pub control: Control,
    pub link: Arc<Link>,
    pub names: Arc<CurrentNames>,
    pub events: Events,
}

/// What others may do with a running bridge. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Control {
    pub decisions: Decisions,
    pub link: Arc<Link>,
    pub keys: Arc<KeyRing>,
    pub presence: Arc<Presence>,
    pub names: Arc<CurrentNames>,
}

impl Control {
    /// Takes contacts, agents and policies of another configuration. Calls that are held at the relay go on, but for
    /// agents that changed. Everything is announced again.
    ///
    /// # Errors
    /// When the relay could not be told; what is local has changed all the same, and the next introduction tells it.
    pub async fn reload(&self, config: &RedsynConfig) -> Result<(), CallError> {
        let names = Names::new(config);
        self.presence.replace(hold_flags(&names));
        self.names.replace(names);
        let introduced = self.link.introduce().await;
        match &introduced {
            Ok(()) => self.link.found(),
            Err(error) => self.link.lost(error),
        }
        introduced
    }
}

fn hold_flags(names: &Names) -> Vec<(AgentName, bool)> {
    names.agents().map(|(name, agent)| (name.clone(), agent.hold)).collect()
}

impl Bridge {
    /// `client` speaks to the relay with this node's token; `keys` are this node's; `wakeups` rings local agents
    /// that wait for mail.
    pub fn new(
        config: &RedsynConfig,
        store: BridgeStore,
        client: RelayClient,
        keys: KeyRing,
        wakeups: Wakeups<AgentName>,
        clock: SharedClock,
        random: SharedRandom,
    ) -> (Self, BridgeCarrier) {
        let keys = Arc::new(keys);
        let names = Names::new(config);
        let presence = Arc::new(Presence::new(hold_flags(&names), Arc::clone(&clock)));
        let names = Arc::new(CurrentNames::new(names));
        let events = Events::default();
        let wake = Arc::new(Notify::new());
        let decided = Arc::new(Decided::default());
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
            lacks: Arc::clone(&link.lacks),
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
        let control = Control {
            decisions: Decisions {
                store: store.clone(),
                names: Arc::clone(&names),
                events: events.clone(),
                clock: Arc::clone(&clock),
                wake_outbound: Arc::clone(&wake),
                wakeups: bells.clone(),
                decided: Arc::clone(&decided),
            },
            link: Arc::clone(&link),
            keys: Arc::clone(&keys),
            presence: Arc::clone(&presence),
            names: Arc::clone(&names),
        };
        let outbound = Arc::new(Outbound {
            store: store.clone(),
            client: client.clone(),
            link: Arc::clone(&link),
            keys: Arc::clone(&keys),
            names: Arc::clone(&names),
            lookups: Lookups::default(),
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
            wakeups: bells.clone(),
            decided,
        });
        (Self { outbound, inbound, control, link, names, events }, carrier)
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
        tasks.spawn(Arc::clone(&self.inbound).run_releases(all.clone()));
        tasks.spawn(forget(Arc::clone(&self.outbound), all.clone()));
        let mut pumps =
            Pumps { running: HashMap::new(), stopped: HashSet::new(), inbound: Arc::clone(&self.inbound) };
        let mut names = self.names.watch();
        let mut result = Ok(());
        loop {
            if !all.is_cancelled() {
                let now = names.borrow_and_update().clone();
                pumps.adjust(&now, &mut tasks, &all);
            }
            let ended = tokio::select! {
                ended = tasks.join_next_with_id() => ended,
                changed = names.changed(), if !all.is_cancelled() => {
                    // The sender lives in `self`, so there is a change.
                    let _ = changed;
                    continue;
                }
            };
            match ended {
                None => return result,
                // A pump whose agent has left or changed.
                Some(Ok((id, ()))) if pumps.was_stopped(id) => continue,
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    tracing::error!(%error, "bridge_task_failed");
                    result = Err(error);
                }
            }
            all.cancel();
        }
    }
}

/// The inbound pumps, one for each agent that has an address.
struct Pumps {
    running: HashMap<AgentName, Pump>,
    /// Those that were told to stop and have not ended yet.
    stopped: HashSet<Id>,
    inbound: Arc<Inbound>,
}

struct Pump {
    task: Id,
    agent: MappedAgent,
    stop: CancellationToken,
}

impl Pumps {
    /// Stops the pumps of agents that have left or changed, and starts those that are missing.
    fn adjust(&mut self, names: &Names, tasks: &mut JoinSet<()>, all: &CancellationToken) {
        self.running.retain(|name, pump| {
            let stays = names.agent(name).is_some_and(|agent| *agent == pump.agent);
            if !stays {
                pump.stop.cancel();
                self.stopped.insert(pump.task);
            }
            stays
        });
        for (name, agent) in names.agents() {
            if !self.running.contains_key(name) {
                let stop = all.child_token();
                let pump = Arc::clone(&self.inbound).run(name.clone(), agent.clone(), stop.clone());
                let task = tasks.spawn(pump).id();
                self.running.insert(name.clone(), Pump { task, agent: agent.clone(), stop });
            }
        }
    }

    /// Whether the task was a pump that had been told to stop.
    fn was_stopped(&mut self, task: Id) -> bool {
        self.stopped.remove(&task)
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
