//! Takes local messages from the broker: resolves who is meant, checks that the message can travel, and keeps it
//! with its outbox row.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::Notify;

use super::bells::Bells;
use super::directory::Directory;
use super::lacks::Lacks;
use super::mapping::{self, CannotLeave};
use super::names::{CurrentNames, Meant, Names};
use super::options::Options;
use super::outbound::InFlight;
use super::presence::Presence;
use super::spill;
use crate::broker::busy;
use crate::broker::carrier::{Carrier, Parcels, Route, Taker};
use crate::broker::metrics::Carried;
use crate::config::redsyn::{Encrypt, Receipts, RedsynConfig};
use crate::domain::clock::SharedClock;
use crate::domain::crossing::LocalKind;
use crate::domain::wakeups::Wakeups;
use crate::proto::dsh::error::{ApiError, Code};
use crate::proto::dsh::json::JsonText;
use crate::proto::dsh::names::{AgentName, DshId};
use crate::proto::dsh::v2::name::Name;
use crate::proto::redsyn::address::{AgentAddress, Destination};
use crate::redsyn_client::RelayClient;
use crate::store::StoreError;
use crate::store::bridge::generation::{Generation, Outgoing};
use crate::store::bridge::{Content, Departure, Depths, Parcel};
use crate::store::local::{NewMessage, Peer, Sent};
use crate::store::sqlite::bridge::BridgeStore;
use crate::store::v2;

/// The bridge as the broker sees it.
#[derive(Debug)]
pub struct BridgeCarrier {
    pub store: BridgeStore,
    pub names: Arc<CurrentNames>,
    pub presence: Arc<Presence>,
    /// None when `redsyn.relay` is `off`.
    pub client: Option<RelayClient>,
    pub encrypt: Encrypt,
    pub receipts: Receipts,
    pub clock: SharedClock,
    /// Rings the outbound pump.
    pub wake: Arc<Notify>,
    /// What is being sent.
    pub in_flight: InFlight,
    /// Rings local agents.
    pub bells: Bells,
    pub directory: Directory,
    pub lacks: Arc<Lacks>,
    /// The generation of each agent's last take, as far as this process has seen.
    pub taking: Mutex<HashMap<AgentName, Generation>>,
}

/// A message of either generation that is about to leave.
struct Leaving {
    message: Outgoing,
    kind: LocalKind,
    parent_id: Option<String>,
    reply_to: Option<String>,
    root_id: Option<String>,
    agent: AgentName,
    address: AgentAddress,
    remote: Destination,
    content: Content,
    files: Option<Vec<u8>>,
    options: Options,
    receipts_travel: bool,
}

/// The files that a message names.
enum Files {
    Are(Option<Vec<u8>>),
    Gone,
}

impl BridgeCarrier {
    /// For `redsyn.relay: off`: own addresses work, and what would leave is refused.
    pub fn without_relay(config: &RedsynConfig, store: BridgeStore, clock: SharedClock) -> Self {
        Self {
            store,
            names: Arc::new(CurrentNames::new(Names::new(config))),
            // Nobody's mailbox is looked into, so nobody waits for it.
            presence: Arc::new(Presence::new([], Arc::clone(&clock))),
            client: None,
            encrypt: config.encrypt,
            receipts: config.receipts,
            clock,
            wake: Arc::new(Notify::new()),
            in_flight: InFlight::default(),
            bells: Bells::default(),
            directory: Directory::default(),
            lacks: Arc::default(),
            taking: Mutex::default(),
        }
    }

    async fn depart(&self, message: NewMessage) -> Result<Sent, ApiError> {
        let agent = message.from.agent().ok_or_else(|| ApiError::bad_request("from is no agent name"))?;
        let names = self.names.get();
        let remote =
            self.remote(agent.as_str(), message.to.as_str(), names.meant(&agent, message.to.as_str()))?;
        let address = names.agent(&agent).ok_or_else(|| unlisted(agent.as_str()))?.address.clone();
        let options = Options::parse(message.redsyn.as_ref()).map_err(refused)?;
        let files = match self.named_files(&agent, &options).await? {
            Files::Are(files) => files,
            Files::Gone if self.has_departed(&agent, &message.id).await? => {
                return Ok(Sent { id: message.id, duplicate: true });
            }
            Files::Gone => return Err(no_such_upload()),
        };
        let content = mapping::content(&message, &options).map_err(refused)?;
        let text = |field: &Option<JsonText>| field.as_ref().and_then(JsonText::as_text);
        let kept = self.keep(Leaving {
            kind: mapping::local_kind(&message),
            parent_id: text(&message.parent_id),
            reply_to: text(&message.reply_to),
            root_id: text(&message.root_id),
            agent,
            address,
            remote,
            content,
            files,
            options,
            receipts_travel: self.receipts == Receipts::Progress,
            message: Outgoing::V1(message),
        });
        let v2::Created { id, duplicate, .. } = kept.await?;
        Ok(Sent { id, duplicate })
    }

    async fn depart_v2(
        &self,
        mut message: v2::NewMessage,
        redsyn: Option<Value>,
    ) -> Result<v2::Created, ApiError> {
        let names = self.names.get();
        let (origin, target) = (message.origin.as_str(), message.target.as_str());
        let remote = self.remote(origin, target, names.meant_v2(&message.origin, &message.target))?;
        let agent = names.agent_of(&message.origin).ok_or_else(|| unlisted(origin))?.clone();
        let address = names.agent(&agent).ok_or_else(|| unlisted(origin))?.address.clone();
        let mut options = Options::parse(redsyn.as_ref()).map_err(refused)?;
        match options.ttl {
            Some(ttl) => message.expires_at = message.created_at.plus(Duration::from_secs(ttl)),
            None => options.ttl = Some(message.expires_at.since(message.created_at).as_secs().max(1)),
        }
        let files = match self.named_files(&agent, &options).await? {
            Files::Are(files) => files,
            Files::Gone => {
                let known = self.store.sent_before(message).await.map_err(busy)?;
                return known.ok_or_else(no_such_upload);
            }
        };
        let content = mapping::content_v2(&message, &options).map_err(refused)?;
        self.keep(Leaving {
            kind: mapping::local_kind_v2(message.kind),
            parent_id: message.parent_id.clone(),
            reply_to: None,
            root_id: Some(message.root_id.clone()),
            agent,
            address,
            remote,
            content,
            files,
            options,
            receipts_travel: false,
            message: Outgoing::V2(message),
        })
        .await
    }

    /// From now on the mail of `agent` comes in `generation`. What is kept in memory only spares the store.
    async fn takes_in(&self, agent: &AgentName, generation: Generation) {
        if self.names.get().agent(agent).is_none() {
            return;
        }
        let taking = || self.taking.lock().unwrap_or_else(PoisonError::into_inner);
        if taking().get(agent) == Some(&generation) {
            return;
        }
        match self.store.switch(agent.clone(), generation).await {
            Ok(()) => drop(taking().insert(agent.clone(), generation)),
            // Its mail stays where it is, and goes over with the next take.
            Err(error) => tracing::error!(%agent, %error, "generation_not_kept"),
        }
    }

    /// Makes the message fit, and keeps it. A client that goes away meanwhile does not take the bell with it.
    async fn keep(&self, leaving: Leaving) -> Result<v2::Created, ApiError> {
        let Leaving { message, agent, address, remote, content, files, options, .. } = leaving;
        let id =
            mapping::travel_id(message.id()).ok_or_else(|| ApiError::bad_request("the id cannot travel"))?;
        let sealing = options.sealing(self.encrypt).map_err(refused)?;
        // What answers a sealed request is sealed, whatever the configuration says.
        let answers = leaving.reply_to.is_some() || leaving.parent_id.is_some();
        // Events go to many and are never sealed.
        let may_be_sealed = remote.agent().is_some() && (sealing != Encrypt::Never || answers);
        let spill::Parcel { content, zip } =
            spill::fit(content, files.clone(), may_be_sealed).map_err(refused)?;
        let departure = Departure {
            message,
            id,
            kind: leaving.kind,
            parent_id: leaving.parent_id,
            reply_to: leaving.reply_to,
            root_id: leaving.root_id,
            agent,
            address,
            remote,
            content,
            files,
            parcel: Parcel { encrypt: options.encrypt.map(|wish| wish.as_str().to_owned()), zip },
            ttl: options.ttl,
            receipts_travel: leaving.receipts_travel,
            now: self.clock.now(),
        };
        let wake = Arc::clone(&self.wake);
        self.store.depart(departure, move |_| wake.notify_one()).await.map_err(busy)
    }

    async fn named_files(&self, agent: &AgentName, options: &Options) -> Result<Files, ApiError> {
        let Some(name) = options.files.clone() else { return Ok(Files::Are(None)) };
        let uploaded = self.store.uploaded(agent.clone(), name, self.clock.now()).await.map_err(busy)?;
        Ok(uploaded.map_or(Files::Gone, |zip| Files::Are(Some(zip))))
    }

    async fn has_departed(&self, agent: &AgentName, id: &DshId) -> Result<bool, ApiError> {
        self.store.has_departed(agent.clone(), id.to_string()).await.map_err(busy)
    }

    fn remote(&self, agent: &str, to: &str, meant: Meant) -> Result<Destination, ApiError> {
        if self.client.is_none() {
            return Err(ApiError::new(Code::NoSuchAgent, "redsyn.relay is off: nothing leaves this machine"));
        }
        match meant {
            Meant::Remote(remote) => Ok(remote.into()),
            Meant::SenderUnlisted => Err(unlisted(agent)),
            Meant::Malformed(why) => Err(ApiError::bad_request(format!("{to:?} is no address: {why}"))),
            Meant::Topic(topic) => Ok(Destination::Topic(topic)),
            Meant::Local | Meant::Own(_) => Err(ApiError::no_such_agent()),
        }
    }
}

fn no_such_upload() -> ApiError {
    let why = "redsyn.files names no upload, or one that has expired: PUT /bridge/v1/files gives the name";
    ApiError::bad_request(why)
}

pub(super) fn unlisted(agent: &str) -> ApiError {
    let why = format!("{agent} has no REDSYN address: list it under redsyn.agents in the configuration");
    ApiError::new(Code::Forbidden, why)
}

fn refused(why: CannotLeave) -> ApiError {
    match why {
        CannotLeave::TooLarge(_) => ApiError::new(Code::TooLarge, why.to_string()),
        CannotLeave::NotJson(_) | CannotLeave::Options(_) | CannotLeave::Files(_) => {
            ApiError::bad_request(why.to_string())
        }
    }
}

impl Carrier for BridgeCarrier {
    fn route(&self, from: &AgentName, to: &str) -> Route {
        match self.names.get().meant(from, to) {
            Meant::Local => Route::Local,
            Meant::Own(agent) => Route::LocalAs(agent),
            Meant::Remote(_) | Meant::Topic(_) | Meant::Malformed(_) | Meant::SenderUnlisted => Route::Away,
        }
    }

    fn send(&self, message: NewMessage) -> BoxFuture<'_, Result<Sent, ApiError>> {
        Box::pin(self.depart(message))
    }

    fn route_v2(&self, from: &Name, to: &Name) -> Route {
        match self.names.get().meant_v2(from, to) {
            Meant::Local => Route::Local,
            Meant::Own(agent) => Route::LocalAs(agent),
            Meant::Remote(_) | Meant::Topic(_) | Meant::Malformed(_) | Meant::SenderUnlisted => Route::Away,
        }
    }

    fn send_v2(
        &self,
        message: v2::NewMessage,
        redsyn: Option<Value>,
    ) -> BoxFuture<'_, Result<v2::Created, ApiError>> {
        Box::pin(self.depart_v2(message, redsyn))
    }

    fn withdraw_v2(&self, agent: Name, id: DshId) -> BoxFuture<'_, Result<(), ApiError>> {
        Box::pin(async move {
            let agent = self.names.get().agent_of(&agent).ok_or_else(ApiError::no_such_message)?.clone();
            self.withdraw_in(agent, id, Generation::V2).await
        })
    }

    fn wakeups_v2(&self) -> Wakeups<Name> {
        self.bells.v2.clone()
    }

    fn takes<'a>(&'a self, taker: Taker<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let names = self.names.get();
            let (agent, generation) = match taker {
                Taker::V1(agent) => (agent, Generation::V1),
                Taker::V2(name) => match names.agent_of(name) {
                    Some(agent) => (agent, Generation::V2),
                    None => return,
                },
            };
            // Before the look into the mailbox: what it finds must come where it is looked for.
            self.takes_in(agent, generation).await;
            self.presence.touched(agent).await;
        })
    }

    fn parcels(&self) -> Option<&dyn Parcels> {
        Some(self)
    }

    fn carried(&self) -> BoxFuture<'_, Result<Option<Carried>, StoreError>> {
        Box::pin(async {
            let Depths { outbox, held_out, held_in } = self.store.depths().await?;
            Ok(Some(Carried { outbox, held_out, held_in }))
        })
    }

    fn peers(&self) -> BoxFuture<'_, Vec<Peer>> {
        Box::pin(self.remote_peers())
    }

    fn known_as(&self, from: &AgentName, to: &str) -> Vec<String> {
        let names = self.names.get();
        names.known_as(&names.meant(from, to))
    }

    fn known_as_v2(&self, from: &Name, to: &Name) -> Vec<String> {
        let names = self.names.get();
        names.known_as(&names.meant_v2(from, to))
    }

    fn ended(&self) {
        self.wake.notify_one();
    }

    fn touched<'a>(&'a self, agent: &'a AgentName) -> BoxFuture<'a, ()> {
        Box::pin(self.presence.touched(agent))
    }
}
