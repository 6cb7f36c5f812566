//! Takes local messages from the broker: resolves who is meant, checks that the message can travel, and keeps it
//! with its outbox row (mapping §1, §6).

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use super::mapping::{self, CannotLeave, Options};
use super::names::{Meant, Names};
use super::presence::Presence;
use crate::broker::carrier::{Carrier, Route};
use crate::config::redsyn::{Encrypt, Receipts, RedsynConfig, RelayMode};
use crate::domain::clock::SharedClock;
use crate::proto::dsh::error::{ApiError, Code};
use crate::proto::dsh::json::JsonText;
use crate::proto::dsh::names::{AgentName, Party};
use crate::proto::redsyn::address::AddressedAgent;
use crate::store::StoreError;
use crate::store::bridge::Departure;
use crate::store::local::{NewMessage, Peer, Sent};
use crate::store::sqlite::bridge::BridgeStore;

/// The bridge as the broker sees it.
#[derive(Debug)]
pub struct BridgeCarrier {
    pub store: BridgeStore,
    pub names: Arc<Names>,
    pub presence: Arc<Presence>,
    pub relay: RelayMode,
    pub encrypt: Encrypt,
    pub receipts: Receipts,
    pub clock: SharedClock,
    /// Rings the outbound pump.
    pub wake: Arc<Notify>,
}

impl BridgeCarrier {
    /// For `redsyn.relay: off`: own addresses work, and what would leave is refused.
    pub fn without_relay(config: &RedsynConfig, store: BridgeStore, clock: SharedClock) -> Self {
        Self {
            store,
            names: Arc::new(Names::new(config)),
            // Nobody's mailbox is looked into, so nobody waits for it.
            presence: Arc::new(Presence::new([], Arc::clone(&clock))),
            relay: RelayMode::Off,
            encrypt: config.encrypt,
            receipts: config.receipts,
            clock,
            wake: Arc::new(Notify::new()),
        }
    }

    async fn depart(&self, message: NewMessage) -> Result<Sent, ApiError> {
        let agent = message.from.agent().ok_or_else(|| ApiError::bad_request("from is no agent name"))?;
        let remote = self.remote(&agent, message.to.as_str())?;
        let mapped = self.names.agent(&agent).ok_or_else(|| unlisted(&agent))?;
        let id =
            mapping::travel_id(&message.id).ok_or_else(|| ApiError::bad_request("the id cannot travel"))?;
        let options = Options::parse(message.redsyn.as_ref()).map_err(refused)?;
        let content =
            mapping::content(&message, &options, self.encrypt != Encrypt::Never).map_err(refused)?;
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

    fn remote(&self, agent: &AgentName, to: &str) -> Result<AddressedAgent, ApiError> {
        if self.relay == RelayMode::Off {
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

fn unlisted(agent: &AgentName) -> ApiError {
    let why = format!("{agent} has no REDSYN address: list it under redsyn.agents in the configuration");
    ApiError::new(Code::Forbidden, why)
}

fn refused(why: CannotLeave) -> ApiError {
    match why {
        CannotLeave::TooLarge(_) => ApiError::new(Code::TooLarge, why.to_string()),
        CannotLeave::NotJson(_) | CannotLeave::Options(_) => ApiError::bad_request(why.to_string()),
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
