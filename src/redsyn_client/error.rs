//! What can come of a call, in the three ways the bridge decides on: try again, give up, or fix and try again.

use std::time::Duration;

use crate::proto::redsyn::error::ErrorBody;

/// Why a call did not succeed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// No whole answer came: whether the relay acted is not known. Same id, try again.
    #[error("no answer from the relay: {0}")]
    NoAnswer(String),
    /// An answer came that is not what the protocol says; try again.
    #[error("the relay's answer makes no sense: {0}")]
    Malformed(String),
    /// The relay said no.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// An error answer of the relay.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} ({})", .body.error, .body.status)]
pub struct Refusal {
    pub body: ErrorBody,
    /// `Retry-After`, when the answer had one in seconds.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    pub const fn status(&self) -> u16 {
        self.body.status
    }
}

impl CallError {
    /// A 5xx, a 429 without `quota`, a 408, or no sensible answer (spec, «Límites»). A redirection is none either:
    /// it speaks of the address that was configured, not of the message.
    pub fn is_worth_retrying(&self) -> bool {
        match self {
            Self::NoAnswer(_) | Self::Malformed(_) => true,
            Self::Refused(refusal) => match refusal.status() {
                ..400 | 408 | 500.. => true,
                429 => !refusal.body.quota,
                _ => false,
            },
        }
    }

    /// The relay has no such call, or nothing of that name: for a call without a name in its path that is one.
    pub fn is_not_offered(&self) -> bool {
        matches!(self.status(), Some(404 | 405 | 501))
    }

    /// The API dates that the relay knows, when it did not know ours.
    pub(super) fn known_dates(&self) -> Option<&[String]> {
        match self {
            Self::Refused(refusal) if refusal.status() == 400 => refusal.body.versions.as_deref(),
            _ => None,
        }
    }

    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(refusal) => refusal.retry_after,
            _ => None,
        }
    }

    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused(refusal) => Some(refusal.status()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, quota: bool) -> CallError {
        let body = ErrorBody { quota, ..ErrorBody::new(status, "no") };
        CallError::Refused(Refusal { body, retry_after: None })
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        for status in [301, 307, 500, 502, 503, 429, 408] {
            assert!(refused(status, false).is_worth_retrying(), "{status}");
        }
        for status in [400, 401, 403, 404, 409, 413, 422] {
            assert!(!refused(status, false).is_worth_retrying(), "{status}");
        }
        assert!(!refused(429, true).is_worth_retrying());
        assert!(CallError::NoAnswer("reset".into()).is_worth_retrying());
    }
}
