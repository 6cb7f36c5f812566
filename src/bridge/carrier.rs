//! Takes local messages from the broker: resolves who is meant, checks that the message can travel, and keeps it
//! with its outbox row (mapping §1, §6).

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use super::mapping::{self, CannotLeave};
use super::names::{Meant, Names};
use super::options::Options;
use super::outbound::InFlight;
use super::presence::Presence;
use super::spill;
use crate::broker::carrier::{Carrier, Parcels, Route};
use crate::config::redsyn::{Encrypt, Receipts, RedsynConfig};
use crate::domain::clock::SharedClock;
use crate::proto::dsh::error::{ApiError, Code};
use crate::proto::dsh::json::JsonText;
use crate::proto::dsh::names::{AgentName, DshId, Party};
use crate::proto::redsyn::address::AddressedAgent;
use crate::redsyn_client::RelayClient;
use crate::store::StoreError;
use crate::store::bridge::{Departure, Parcel};
use crate::store::local::{NewMessage, Peer, Sent};
use crate::store::sqlite::bridge::BridgeStore;

/// The bridge as the broker sees it.
#[derive(Debug)]
pub struct BridgeCarrier {
    pub store: BridgeStore,
    pub names: Arc<Names>,
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
            names: Arc::new(Names::new(config)),
            // Nobody's mailbox is looked into, so nobody waits for it.
            presence: Arc::new(Presence::new([], Arc::clone(&clock))),
            client: None,
            encrypt: config.encrypt,
            receipts: config.receipts,
            clock,
            wake: Arc::new(Notify::new()),
            in_flight: InFlight::default(),
        }
    }

    async fn depart(&self, message: NewMessage) -> Result<Sent, ApiError> {
        let agent = message.from.agent().ok_or_else(|| ApiError::bad_request("from is no agent name"))?;
        let remote = self.remote(&agent, message.to.as_str())?;
        let mapped = self.names.agent(&agent).ok_or_else(|| unlisted(&agent))?;
        let id =
            mapping::travel_id(&message.id).ok_or_else(|| ApiError::bad_request("the id cannot travel"))?;
        let options = Options::parse(message.redsyn.as_ref()).map_err(refused)?;
        let sealing = options.sealing(self.encrypt).map_err(refused)?;
        let files = match self.named_files(&agent, &options).await? {
            Files::Are(files) => files,
            Files::Gone if self.has_departed(&agent, &message.id).await? => {
                return Ok(Sent { id: message.id, duplicate: true });
            }
            Files::Gone => {
                let why = "redsyn.files names no upload, or one that has expired: PUT /bridge/v1/files gives the name";
                return Err(ApiError::bad_request(why));
            }
        };
        let content = mapping::content(&message, &options).map_err(refused)?;
        // What answers a sealed request is sealed, whatever the configuration says.
        let answers = message.reply_to.is_some() || message.parent_id.is_some();
        let fitting = spill::fit(content, files.clone(), sealing != Encrypt::Never || answers);
        let spill::Parcel { content, zip } = fitting.map_err(refused)?;
        let text = |field: &Option<JsonText>| field.as_ref().and_then(JsonText::as_text);
        let departure = Departure {
            id,
            kind: mapping::local_kind(&message),
            parent_id: text(&message.parent_id),
            reply_to: text(&message.reply_to),
            root_id: text(&message.root_id),
            address: mapped.address.clone(),
            agent,
            remote,
            content,
            files,
            parcel: Parcel { encrypt: options.encrypt.map(|wish| wish.as_str().to_owned()), zip },
            ttl: options.ttl,
            receipts_travel: self.receipts == Receipts::Progress,
            now: self.clock.now(),
            message,
        };
        self.keep(departure).await.map_err(|error| {
            tracing::error!(%error, "outbound_not_kept");
            ApiError::busy()
        })
    }

    /// Detached from the caller: a client that goes away after the commit must not take the bell with it.
    async fn keep(&self, departure: Departure) -> Result<Sent, StoreError> {
        let (store, wake) = (self.store.clone(), Arc::clone(&self.wake));
        let kept = tokio::spawn(async move {
            let sent = store.depart(departure).await?;
            wake.notify_one();
            Ok(sent)
        });
        kept.await.map_err(|error| StoreError::Other(error.to_string()))?
    }

    async fn named_files(&self, agent: &AgentName, options: &Options) -> Result<Files, ApiError> {
        let Some(name) = options.files.clone() else { return Ok(Files::Are(None)) };
        let uploaded = self.store.uploaded(agent.clone(), name, self.clock.now()).await.map_err(busy)?;
        Ok(uploaded.map_or(Files::Gone, |zip| Files::Are(Some(zip))))
    }

    async fn has_departed(&self, agent: &AgentName, id: &DshId) -> Result<bool, ApiError> {
        self.store.has_departed(agent.clone(), id.to_string()).await.map_err(busy)
    }

    fn remote(&self, agent: &AgentName, to: &str) -> Result<AddressedAgent, ApiError> {
        if self.client.is_none() {
            return Err(ApiError::new(Code::NoSuchAgent, "redsyn.relay is off: nothing leaves this machine"));
        }
        match self.names.meant(agent, to) {
            Meant::Remote(remote) => Ok(remote),
            Meant::SenderUnlisted => Err(unlisted(agent)),
            Meant::Malformed(why) => Err(ApiError::bad_request(format!("{to:?} is no address: {why}"))),
            Meant::Topic(_) => Err(ApiError::bad_request("topics cannot be published to yet")),
            Meant::Local | Meant::Own(_) => Err(ApiError::no_such_agent()),
        }
    }
}

pub(super) fn busy(error: StoreError) -> ApiError {
    tracing::error!(%error, "bridge_store_failed");
    ApiError::busy()
}

fn unlisted(agent: &AgentName) -> ApiError {
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
        match self.names.meant(from, to) {
            Meant::Local => Route::Local,
            Meant::Own(agent) => Route::LocalAs(agent),
            Meant::Remote(_) | Meant::Topic(_) | Meant::Malformed(_) | Meant::SenderUnlisted => Route::Away,
        }
    }

    fn send(&self, message: NewMessage) -> BoxFuture<'_, Result<Sent, ApiError>> {
        Box::pin(self.depart(message))
    }

    fn parcels(&self) -> Option<&dyn Parcels> {
        Some(self)
    }

    fn peers(&self) -> Vec<Peer> {
        // Presence from the relay's directory comes with the whole of mapping §1; until then a contact is listed
        // as never seen, which is what we know.
        let never = crate::domain::clock::Timestamp::from_millis(0);
        let peer =
            |alias: &String| Peer { agent: Party::new(alias.as_str()), online: false, last_seen: never };
        self.names.contacts().map(|(alias, _)| peer(alias)).collect()
    }

    fn ended(&self) {
        self.wake.notify_one();
    }

    fn touched<'a>(&'a self, agent: &'a AgentName) -> BoxFuture<'a, ()> {
        Box::pin(self.presence.touched(agent))
    }
}
