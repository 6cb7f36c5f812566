//! The remote agents that `GET /peers` lists: contacts and those seen lately, with the presence that the relay's
//! directory tells.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::sync::Mutex;

use super::carrier::BridgeCarrier;
use super::lacks::Call;
use crate::domain::clock::Timestamp;
use crate::proto::dsh::names::Party;
use crate::proto::redsyn::address::AgentAddress;
use crate::redsyn_client::Presence;
use crate::store::local::Peer;

/// How long an answer of the relay is good for.
const FRESH: Duration = Duration::from_secs(30);
/// How long `GET /peers` waits for the relay: local agents must not notice that it is away.
const PATIENCE: Duration = Duration::from_secs(2);
/// Who has sent nothing for this long is not listed any more.
const LATELY: Duration = Duration::from_secs(7 * 86_400);

/// What the relay last said.
#[derive(Debug, Default)]
pub struct Directory {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// When the relay was last asked, whatever came of it.
    asked: Option<Timestamp>,
    /// Whether it answered then.
    is_current: bool,
    agents: HashMap<AgentAddress, Presence>,
}

impl BridgeCarrier {
    pub(super) async fn remote_peers(&self) -> Vec<Peer> {
        let names = self.names.get();
        let mut addresses: BTreeSet<AgentAddress> =
            names.contacts().map(|(_, address)| address.clone()).collect();
        let now = self.clock.now();
        let seen: HashMap<AgentAddress, Timestamp> = match self.store.remotes(now.minus(LATELY)).await {
            Ok(seen) => seen.into_iter().collect(),
            Err(error) => {
                tracing::error!(%error, "remotes_unreadable");
                HashMap::new()
            }
        };
        addresses.extend(seen.keys().cloned());
        let mut known = self.directory.known.lock().await;
        self.refresh(&mut known, now).await;
        let never = Timestamp::from_millis(0);
        let peer = |address: AgentAddress| {
            let presence = known.agents.get(&address);
            let last = presence.and_then(|presence| presence.last_seen);
            Peer {
                agent: Party::new(names.local_name(&address)),
                online: known.is_current && presence.is_some_and(|presence| presence.online),
                last_seen: last.max(seen.get(&address).copied()).unwrap_or(never),
            }
        };
        addresses.into_iter().filter(|address| !names.is_own(address)).map(peer).collect()
    }

    /// Asks the relay, unless it has been asked within the last 30 seconds.
    async fn refresh(&self, known: &mut Known, now: Timestamp) {
        let Some(client) = &self.client else { return };
        if known.asked.is_some_and(|asked| now.since(asked) < FRESH) {
            return;
        }
        known.asked = Some(now);
        let answer = tokio::select! {
            answer = client.directory() => match answer {
                Ok(agents) => {
                    self.lacks.has(Call::Directory);
                    Some(agents)
                }
                Err(error) => {
                    if error.is_not_offered() {
                        self.lacks.note(Call::Directory, &error);
                    }
                    None
                }
            },
            () = self.clock.sleep(PATIENCE) => None,
        };
        known.is_current = answer.is_some();
        if let Some(agents) = answer {
            known.agents = agents.into_iter().collect();
        }
    }
}
