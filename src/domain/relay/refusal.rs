//! Why a relay does not do what it was asked, in words for whoever asked. What somebody may not see reads
//! exactly like what is not there.

use super::link::RuleBroken;
use crate::proto::redsyn::address::{AgentAddress, Name, TopicAddress};
use crate::proto::redsyn::ids::MessageId;
use crate::proto::redsyn::policy::Refused;

/// A limit of the plan that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Quota {
    #[error("the plan's messages of the day are used up; the count starts again at 00:00 UTC")]
    Messages,
    #[error("the plan's space for waiting files is used up")]
    Files,
    #[error("the plan allows no more agents")]
    Agents,
    #[error("the plan allows no more links")]
    Links,
    #[error("the plan allows no more webhooks")]
    Webhooks,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("there is no agent {0}")]
    NoAgent(AgentAddress),
    #[error("there is no agent {0}: announce it before it sends")]
    NotAnnounced(AgentAddress),
    #[error("{0} belongs to somebody else")]
    NotYours(AgentAddress),
    #[error("{0} has no key")]
    NoKey(AgentAddress),
    #[error("there is no organization {0}")]
    NoOrg(Name),
    #[error("there is no team {team} in {org}")]
    NoTeam { org: Name, team: Name },
    #[error("you are not in the team {0}")]
    NotInTeam(Name),
    #[error("nobody in {org} is called {who}")]
    NoMember { org: Name, who: Name },
    #[error("only an admin of {0} may do that")]
    NotAdmin(Name),
    #[error("{0} is taken")]
    Taken(String),
    #[error("there is no person {0}")]
    NoPerson(String),
    #[error("there is no node {0}")]
    NoNode(String),
    #[error("they created {0}, whose plan is theirs; remove their nodes instead")]
    Creator(String),
    #[error("already in {0}")]
    MemberAlready(Name),
    #[error("this node has registered another key; send rotate: true to replace it")]
    OtherKey,
    #[error("that id belongs to somebody else's message")]
    IdTaken,
    #[error("{0}")]
    Signature(String),
    #[error("{agent} {why}")]
    Policy { agent: AgentAddress, why: Refused },
    #[error("{agent} has no session {session}")]
    NoSession { agent: AgentAddress, session: String },
    #[error("the session {session} of {agent} is closed")]
    SessionClosed { agent: AgentAddress, session: String },
    #[error("there is no request {0}")]
    NoRequest(MessageId),
    #[error("the request {id} is already {state}")]
    RequestClosed { id: MessageId, state: &'static str },
    #[error("{from} and {to} have no active link")]
    NoActiveLink { from: Name, to: Name },
    #[error("{org} {why}")]
    LinkRules { org: Name, why: RuleBroken },
    #[error("there is no link between {0} and {1}")]
    NoLink(Name, Name),
    #[error("{0}")]
    Quota(Quota),
    #[error("there is no message {0}")]
    NoMessage(MessageId),
    #[error("only a request can be cancelled")]
    NotARequest,
    #[error("{0} was taken already")]
    TakenAlready(MessageId),
    #[error("no files of {0} are waiting")]
    NoFiles(MessageId),
    #[error("there is no {0}")]
    NoTopic(TopicAddress),
    #[error("there is no thread {0}")]
    NoThread(String),
}
