//! Organisations and the links between them, as they are shown.

use crate::domain::clock::Timestamp;
use crate::domain::relay::link::{Exposure, LinkRules};
use crate::domain::relay::plan::Plan;
use crate::proto::redsyn::address::Name;

/// An organisation as one of its members sees it.
#[derive(Clone, Debug)]
pub struct OrgView {
    pub org: Name,
    /// The handle of the member who looks.
    pub me: Name,
    pub admin: bool,
    pub version: String,
    /// The teams the member is in.
    pub teams: Vec<Name>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    Proposed,
    Active,
    Revoked,
}

impl LinkState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Proposed => "proposed",
            Self::Active => "active",
            Self::Revoked => "revoked",
        }
    }
}

/// An invitation that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invite {
    pub org: Name,
    pub team: Name,
    pub email: String,
    pub since: Timestamp,
}

/// What an organisation uses, beside what its plan allows.
#[derive(Clone, Debug)]
pub struct Usage {
    pub plan: String,
    /// Today, UTC.
    pub messages: u64,
    pub files_bytes: u64,
    pub agents: u64,
    pub links: u64,
    pub webhooks: u64,
    pub limits: Plan,
}

/// One side of a link.
#[derive(Clone, Debug)]
pub struct LinkSide {
    pub org: Name,
    pub accepted: bool,
    pub rules: LinkRules,
    pub exposes: Vec<Exposure>,
}

/// A change that was recorded.
#[derive(Clone, Debug)]
pub struct AuditRow {
    pub at: Timestamp,
    /// `org/handle` of whoever did it.
    pub by: String,
    pub what: String,
}

/// A link as the members of `org` see it; `sides` has theirs first.
#[derive(Clone, Debug)]
pub struct LinkView {
    pub org: Name,
    pub other: Name,
    pub state: LinkState,
    pub sides: [LinkSide; 2],
    /// The latest changes, oldest first.
    pub log: Vec<AuditRow>,
}
