//! What a relay keeps, as operations of the domain: announce, send, take, confirm … Whoever implements
//! [`RelayStore`] decides and writes in one transaction, so that several relays may share one store.
//!
//! A refused operation leaves nothing behind. An operation that answers has been committed. No operation's cost
//! grows with the number of stored messages or agents it is not about.

use std::fmt;

use futures_util::future::BoxFuture;

use super::StoreError;
use crate::domain::clock::Timestamp;
use crate::domain::relay::link::{Exposure, LinkRules};
use crate::domain::relay::refusal::Refusal;
use crate::proto::redsyn::address::{AgentAddress, Name, TopicAddress};
use crate::proto::redsyn::email::Email;
use crate::proto::redsyn::ids::MessageId;
use crate::proto::redsyn::keys::{KeyAnswer, KeyRegistration};

mod agents;
mod messages;
mod orgs;
mod people;
mod topics;
mod webhooks;

pub use agents::{
    AgentState, AgentView, Announced, Announcement, DirectoryQuery, SessionContent, SessionPage, SessionView,
};
pub use messages::{
    Changed, Delivered, Draft, Files, Forgotten, Receipt, Route, Sender, Sent, Signed, StoredMessage, Swept,
    Take, TakeWhat,
};
pub use orgs::{AuditRow, Invite, LinkSide, LinkState, LinkView, OrgView, Usage};
pub use people::{Caller, Home, NodeId, NodeSummary, Person, PersonId, PersonSummary};
pub use topics::TopicView;
pub use webhooks::{Push, PushId, Pushed, Webhook};

/// Why an operation did not happen.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RelayStoreError {
    /// A rule of the protocol; the text is for the caller.
    #[error(transparent)]
    Refused(#[from] Box<Refusal>),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Refusal> for RelayStoreError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

pub type Answer<'a, T> = BoxFuture<'a, Result<T, RelayStoreError>>;

/// See the module. Every method is one transaction.
pub trait RelayStore: Send + Sync + fmt::Debug + 'static {
    fn create_person(&self, email: Email, plan: String, now: Timestamp) -> Answer<'_, PersonId>;
    fn person_by_email(&self, email: Email) -> Answer<'_, Option<Person>>;
    fn people(&self) -> Answer<'_, Vec<PersonSummary>>;
    fn create_node(
        &self,
        person: PersonId,
        name: String,
        token: TokenHash,
        now: Timestamp,
    ) -> Answer<'_, NodeId>;
    /// Takes away everything the person could act with. Refused for whoever created an organisation.
    fn remove_person(&self, person: PersonId, now: Timestamp) -> Answer<'_, Changed<()>>;
    fn remove_node(&self, node: NodeId, now: Timestamp) -> Answer<'_, ()>;
    /// Makes whatever of the home is missing and gives its node a new token.
    fn ensure_home(&self, home: Home, token: TokenHash, now: Timestamp) -> Answer<'_, NodeId>;
    fn caller(&self, token: TokenHash) -> Answer<'_, Option<Caller>>;
    /// The registration has been checked; refused when the node has another key and does not rotate.
    fn register_key(&self, node: NodeId, key: KeyRegistration, now: Timestamp)
    -> Answer<'_, KeyRegistration>;

    fn orgs_of(&self, person: PersonId) -> Answer<'_, Vec<OrgView>>;
    fn create_org(
        &self,
        creator: PersonId,
        org: Name,
        me: Name,
        version: String,
        now: Timestamp,
    ) -> Answer<'_, ()>;
    fn create_team(&self, admin: PersonId, org: Name, team: Name, now: Timestamp) -> Answer<'_, ()>;
    fn add_team_member(
        &self,
        admin: PersonId,
        org: Name,
        team: Name,
        who: Name,
        now: Timestamp,
    ) -> Answer<'_, ()>;

    fn invite(&self, admin: PersonId, org: Name, email: Email, team: Name, now: Timestamp) -> Answer<'_, ()>;
    /// Gives the team of the invitation.
    fn join(&self, person: PersonId, org: Name, me: Name, now: Timestamp) -> Answer<'_, Name>;
    fn invites(&self) -> Answer<'_, Vec<Invite>>;
    /// Those for the person's e-mail address.
    fn invites_of(&self, person: PersonId) -> Answer<'_, Vec<Invite>>;
    fn usage(&self, member: PersonId, org: Name, now: Timestamp) -> Answer<'_, Usage>;

    fn announce(&self, caller: Caller, announcement: Announcement, now: Timestamp) -> Answer<'_, Announced>;
    fn agent(&self, viewer: PersonId, agent: AgentAddress) -> Answer<'_, AgentView>;
    fn directory(&self, viewer: PersonId, query: DirectoryQuery) -> Answer<'_, Vec<AgentView>>;
    /// The key to seal for, remembered: what this person seals for `agent` next is kept for that node.
    fn serve_key(&self, asker: PersonId, agent: AgentAddress) -> Answer<'_, KeyAnswer>;

    /// The receipt of a message this person sent under `id` before.
    fn sent_before(&self, person: PersonId, id: MessageId) -> Answer<'_, Option<Receipt>>;
    fn send(&self, draft: Draft, now: Timestamp) -> Answer<'_, Changed<Sent>>;
    fn take(&self, take: Take, now: Timestamp) -> Answer<'_, Changed<Vec<Delivered>>>;
    /// Gives the ids that were taken and are now confirmed.
    fn confirm(
        &self,
        person: PersonId,
        agent: AgentAddress,
        ids: Vec<MessageId>,
        now: Timestamp,
    ) -> Answer<'_, Changed<Vec<MessageId>>>;
    fn cancel(&self, person: PersonId, id: MessageId, now: Timestamp) -> Answer<'_, Changed<()>>;
    fn files(&self, viewer: PersonId, id: MessageId) -> Answer<'_, Vec<u8>>;
    fn thread(&self, viewer: PersonId, thread: String) -> Answer<'_, Vec<StoredMessage>>;
    /// Ends what is due: leases go back to the queue, expired and abandoned messages are told to their senders.
    fn sweep(&self, now: Timestamp) -> Answer<'_, Changed<Swept>>;

    /// Deletes a batch of messages that ended until `ended_until`, with the conversations they leave empty. What may
    /// still be taken has not ended. An id stays known for as long as an envelope of its age may wait.
    fn forget(&self, ended_until: Timestamp, now: Timestamp) -> Answer<'_, Forgotten>;

    fn session(&self, viewer: PersonId, agent: AgentAddress, session: String) -> Answer<'_, SessionPage>;
    fn set_session_title(
        &self,
        owner: PersonId,
        agent: AgentAddress,
        session: String,
        title: String,
    ) -> Answer<'_, SessionPage>;
    fn close_session(&self, owner: PersonId, agent: AgentAddress, session: String)
    -> Answer<'_, SessionPage>;

    fn subscribe(
        &self,
        person: PersonId,
        agent: AgentAddress,
        topic: TopicAddress,
        now: Timestamp,
    ) -> Answer<'_, ()>;
    fn unsubscribe(&self, person: PersonId, agent: AgentAddress, topic: TopicAddress) -> Answer<'_, ()>;
    fn topics_of(&self, person: PersonId) -> Answer<'_, Vec<TopicView>>;

    fn set_webhook(
        &self,
        person: PersonId,
        agent: AgentAddress,
        webhook: Webhook,
        now: Timestamp,
    ) -> Answer<'_, Changed<()>>;
    fn remove_webhook(
        &self,
        person: PersonId,
        agent: AgentAddress,
        now: Timestamp,
    ) -> Answer<'_, Changed<()>>;
    fn webhook_agents(&self) -> Answer<'_, Vec<AgentAddress>>;
    /// Holds until `until` what is to be pushed next for an agent: at most one message of each session.
    fn claim_pushes(
        &self,
        agent: AgentAddress,
        most: usize,
        until: Timestamp,
        now: Timestamp,
    ) -> Answer<'_, Changed<Vec<Push>>>;
    fn pushed(&self, delivery: PushId, how: Pushed, now: Timestamp) -> Answer<'_, Changed<()>>;

    /// Proposes a link, or accepts what the other side proposed. The flag says whether it was a new proposal.
    fn link(&self, admin: PersonId, org: Name, other: Name, now: Timestamp) -> Answer<'_, (LinkView, bool)>;
    fn expose(
        &self,
        admin: PersonId,
        org: Name,
        other: Name,
        exposure: Exposure,
        on: bool,
        now: Timestamp,
    ) -> Answer<'_, LinkView>;
    fn set_link_rules(
        &self,
        admin: PersonId,
        org: Name,
        other: Name,
        change: LinkRulesChange,
        now: Timestamp,
    ) -> Answer<'_, LinkView>;
    fn revoke_link(&self, admin: PersonId, org: Name, other: Name, now: Timestamp) -> Answer<'_, LinkView>;
    fn links_of(&self, person: PersonId) -> Answer<'_, Vec<LinkView>>;

    /// Why something failed since anything was last written; `None` when all is well.
    fn trouble(&self) -> Option<StoreError>;

    /// Finishes what is under way and closes.
    fn close(&self) -> Answer<'_, ()>;
}

/// The fields of `PUT …/rules` that were given.
#[derive(Clone, Debug, Default)]
pub struct LinkRulesChange {
    pub signed_only: Option<bool>,
    pub ips: Option<Vec<std::net::IpAddr>>,
}

impl LinkRulesChange {
    pub fn apply(self, rules: &mut LinkRules) {
        if let Some(signed_only) = self.signed_only {
            rules.signed_only = signed_only;
        }
        if let Some(ips) = self.ips {
            rules.ips = ips;
        }
    }
}

/// The SHA-256 of a token: all that is kept of it. Looking it up by hash compares no secret byte by byte.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    pub fn of(token: &str) -> Self {
        Self(crate::crypto::sha256::digest(token.as_bytes()))
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
