//! Why a call was refused or failed, and the one place that says with which status and words.

use std::time::Duration;

use crate::domain::relay::refusal::{Quota, Refusal};
use crate::proto::redsyn::error::ErrorBody;
use crate::store::StoreError;
use crate::store::relay::RelayStoreError;

use super::versions;

#[derive(Clone, Debug, thiserror::Error)]
pub enum RelayError {
    /// A rule of the protocol.
    #[error(transparent)]
    Refused(#[from] Box<Refusal>),
    /// The call's shape.
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    NotJson(String),
    #[error("{0}")]
    TooLarge(String),
    #[error("the body took too long to arrive")]
    TooSlow,
    #[error("a Bearer token is required")]
    NoToken,
    #[error("that token is not known")]
    UnknownToken,
    #[error("unknown Redsyn-Version {0:?}; known: {known}", known = versions::KNOWN.join(", "))]
    UnknownVersion(String),
    /// Not the plan's limit: worth trying again.
    #[error("too many calls; try again in {} s", .0.as_secs().max(1))]
    TooMany(Duration),
    /// Of memory, for the body.
    #[error("too much is being sent at the same time; try again")]
    NoRoom,
    #[error("there is no such call")]
    NoSuchCall,
    #[error("that method is not for this call")]
    WrongMethod,
    /// What the log has in detail and the caller need not know.
    #[error("{}", told(.0))]
    Store(#[from] StoreError),
}

const fn told(error: &StoreError) -> &'static str {
    match error {
        StoreError::Full => "the relay's disk is full: it keeps nothing until there is room",
        _ => "the relay cannot do that now; try again",
    }
}

impl From<Refusal> for RelayError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

impl From<RelayStoreError> for RelayError {
    fn from(error: RelayStoreError) -> Self {
        match error {
            RelayStoreError::Refused(refusal) => Self::Refused(refusal),
            RelayStoreError::Store(error) => Self::Store(error),
        }
    }
}

impl RelayError {
    pub(super) fn invalid(text: impl Into<String>) -> Self {
        Self::Invalid(text.into())
    }

    pub fn body(&self) -> ErrorBody {
        let body = ErrorBody::new(self.status(), self.to_string());
        match self {
            Self::Refused(refusal) if matches!(**refusal, Refusal::Quota(_)) => body.quota(),
            Self::UnknownVersion(_) => {
                let versions = versions::KNOWN.iter().map(|date| (*date).to_owned()).collect();
                ErrorBody { versions: Some(versions), ..body }
            }
            _ => body,
        }
    }

    pub fn status(&self) -> u16 {
        match self {
            Self::Refused(refusal) => refusal_status(refusal),
            Self::NotJson(_) | Self::UnknownVersion(_) => 400,
            Self::NoToken | Self::UnknownToken => 401,
            Self::NoSuchCall => 404,
            Self::WrongMethod => 405,
            Self::TooSlow => 408,
            Self::TooLarge(_) => 413,
            Self::Invalid(_) => 422,
            Self::TooMany(_) => 429,
            Self::Store(StoreError::Full) => 507,
            Self::NoRoom | Self::Store(StoreError::Stopped | StoreError::Locked) => 503,
            Self::Store(StoreError::ReadOnly(_) | StoreError::Damaged(_) | StoreError::Other(_)) => 500,
        }
    }
}

fn refusal_status(refusal: &Refusal) -> u16 {
    match refusal {
        Refusal::Signature(_) => 401,
        Refusal::NotYours(_)
        | Refusal::NotInTeam(_)
        | Refusal::NotAdmin(_)
        | Refusal::Policy { .. }
        | Refusal::NoActiveLink { .. }
        | Refusal::LinkRules { .. }
        | Refusal::Quota(Quota::Files | Quota::Agents | Quota::Links | Quota::Webhooks) => 403,
        Refusal::NoAgent(_)
        | Refusal::NotAnnounced(_)
        | Refusal::NoKey(_)
        | Refusal::NoOrg(_)
        | Refusal::NoTeam { .. }
        | Refusal::NoMember { .. }
        | Refusal::NoPerson(_)
        | Refusal::NoNode(_)
        | Refusal::NoSession { .. }
        | Refusal::NoRequest(_)
        | Refusal::NoLink(..)
        | Refusal::NoMessage(_)
        | Refusal::NoFiles(_)
        | Refusal::NoTopic(_)
        | Refusal::NoThread(_) => 404,
        Refusal::Taken(_)
        | Refusal::Creator(_)
        | Refusal::MemberAlready(_)
        | Refusal::OtherKey
        | Refusal::IdTaken
        | Refusal::SessionClosed { .. }
        | Refusal::RequestClosed { .. }
        | Refusal::NotARequest
        | Refusal::TakenAlready(_) => 409,
        Refusal::Quota(Quota::Messages) => 429,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_say_so_and_nothing_else_does() {
        let day = RelayError::from(Refusal::Quota(Quota::Messages)).body();
        assert_eq!((day.status, day.quota), (429, true));
        let space = RelayError::from(Refusal::Quota(Quota::Files)).body();
        assert_eq!((space.status, space.quota), (403, true));
        assert!(!RelayError::from(Refusal::OtherKey).body().quota);
    }

    #[test]
    fn a_failing_store_keeps_its_detail_to_itself() {
        let body = RelayError::from(StoreError::Other("/srv/relay.db: disk I/O error".into())).body();
        assert_eq!(body.status, 500);
        assert!(!body.error.contains("disk"));
    }
}
