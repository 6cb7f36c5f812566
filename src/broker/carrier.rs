//! What the broker asks of whoever carries messages beyond this machine. The broker knows nothing of REDSYN;
//! the bridge implements this, and a broker without one uses [`NoCarrier`].

use std::fmt;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::metrics::Carried;
use crate::domain::wakeups::Wakeups;
use crate::proto::dsh::error::ApiError;
use crate::proto::dsh::names::{AgentName, DshId};
use crate::proto::dsh::v2::name::Name;
use crate::store::StoreError;
use crate::store::local::{NewMessage, Peer, Sent};
use crate::store::v2;

/// Where a recipient lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// On this machine, under the name as written.
    Local,
    /// On this machine, under another name: an address of its own was written.
    LocalAs(AgentName),
    /// Beyond this machine, or meant to be: [`Carrier::send`] says what is wrong with it.
    Away,
}

/// What a carrier does beside carrying messages.
pub trait Parcels: Send + Sync {
    /// The most bytes of a zip.
    fn largest(&self) -> usize;

    /// Who an agent of the second generation is; an error when they can have no files.
    fn agent_of(&self, name: &Name) -> Result<AgentName, ApiError>;

    /// Keeps a zip for a message to come. Gives the name by which that message calls it.
    fn upload(&self, agent: AgentName, zip: Vec<u8>) -> BoxFuture<'_, Result<String, ApiError>>;

    /// The zip of a message, for whoever sent or received it.
    fn files(&self, agent: AgentName, id: DshId) -> BoxFuture<'_, Result<Vec<u8>, ApiError>>;

    /// Takes back a request, of either generation, that nobody has taken.
    fn withdraw(&self, agent: AgentName, id: DshId) -> BoxFuture<'_, Result<(), ApiError>>;
}

/// Who takes its mail, and in which generation.
#[derive(Clone, Copy, Debug)]
pub enum Taker<'a> {
    V1(&'a AgentName),
    V2(&'a Name),
}

/// Carries messages whose recipient is not an agent of this machine.
pub trait Carrier: Send + Sync + fmt::Debug + 'static {
    /// Where `to` lies, seen from `from`. A bare name that is no contact is always of this machine.
    fn route(&self, from: &AgentName, to: &str) -> Route;

    /// Stores the message together with the promise to carry it, in one transaction. Resolves after the commit.
    fn send(&self, message: NewMessage) -> BoxFuture<'_, Result<Sent, ApiError>>;

    /// Where `to` lies for the second generation.
    fn route_v2(&self, _from: &Name, _to: &Name) -> Route {
        Route::Local
    }

    /// [`Carrier::send`] for the second generation. `redsyn` is what the sender says for the journey.
    fn send_v2(
        &self,
        _message: v2::NewMessage,
        _redsyn: Option<Value>,
    ) -> BoxFuture<'_, Result<v2::Created, ApiError>> {
        Box::pin(async { Err(ApiError::no_such_agent()) })
    }

    /// Takes back a request of the second generation that nobody has taken.
    fn withdraw_v2(&self, _agent: Name, _id: DshId) -> BoxFuture<'_, Result<(), ApiError>> {
        Box::pin(async { Err(ApiError::no_such_message()) })
    }

    /// What rings for agents of the second generation when the carrier has put mail into their inbox.
    fn wakeups_v2(&self) -> Wakeups<Name> {
        Wakeups::default()
    }

    /// An agent is about to take its mail: [`Carrier::touched`], and from now on its mail comes in this generation.
    fn takes<'a>(&'a self, taker: Taker<'a>) -> BoxFuture<'a, ()> {
        match taker {
            Taker::V1(agent) => self.touched(agent),
            Taker::V2(_) => Box::pin(async {}),
        }
    }

    /// Files and withdrawals; without, there are no such routes.
    fn parcels(&self) -> Option<&dyn Parcels> {
        None
    }

    /// What is in hand; `None` when nothing is ever carried.
    fn carried(&self) -> BoxFuture<'_, Result<Option<Carried>, StoreError>> {
        Box::pin(async { Ok(None) })
    }

    /// The remote agents that `GET /peers` lists beside the local ones.
    fn peers(&self) -> BoxFuture<'_, Vec<Peer>>;

    /// The names that `to` has beyond this machine, as `from` writes it: lists may name it by any of them.
    fn known_as(&self, _from: &AgentName, _to: &str) -> Vec<String> {
        Vec::new()
    }

    /// The same for the second generation.
    fn known_as_v2(&self, _from: &Name, _to: &Name) -> Vec<String> {
        Vec::new()
    }

    /// Messages have failed or expired here: what their remote senders are told is kept and can be carried.
    fn ended(&self);

    /// `agent` has just registered, pulled or polled. Resolves at once, or, when this call brought the agent to
    /// life, after one look into its remote mailbox (at most a second).
    fn touched<'a>(&'a self, agent: &'a AgentName) -> BoxFuture<'a, ()>;
}

/// A broker that reaches nobody beyond this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCarrier;

impl Carrier for NoCarrier {
    fn route(&self, _from: &AgentName, _to: &str) -> Route {
        Route::Local
    }

    fn send(&self, _message: NewMessage) -> BoxFuture<'_, Result<Sent, ApiError>> {
        Box::pin(async { Err(ApiError::no_such_agent()) })
    }

    fn peers(&self) -> BoxFuture<'_, Vec<Peer>> {
        Box::pin(async { Vec::new() })
    }

    fn ended(&self) {}

    fn touched<'a>(&'a self, _agent: &'a AgentName) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}
