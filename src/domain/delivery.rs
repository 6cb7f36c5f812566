//! The life of a v1.1 message: queued, leased, done or failed. Pure: time and tokens come in as values.
//!
//! A lease that is over still holds until somebody requeues the message (a pull or the sweep): until then its holder
//! may acknowledge. Only a retry counts as an attempt; a lease that runs out does not.

use super::clock::Timestamp;

/// The opaque token of one hand-out of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseId(Box<str>);

impl LeaseId {
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub id: LeaseId,
    pub until: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Waiting. `redeliver`: its lease ran out, so a v1.0 poll shows it once more even behind the cursor.
    Queued {
        redeliver: bool,
    },
    Leased(Lease),
    /// Taken by somebody beyond the machine, under a lease that is not ours to end.
    LeasedElsewhere,
    Done,
    Failed,
}

impl State {
    pub const fn status(&self) -> Status {
        match self {
            Self::Queued { .. } => Status::Queued,
            Self::Leased(_) | Self::LeasedElsewhere => Status::Leased,
            Self::Done => Status::Done,
            Self::Failed => Status::Failed,
        }
    }
}

/// The name of a state, without what it carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    #[default]
    Queued,
    Leased,
    Done,
    Failed,
}

impl Status {
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Queued, Self::Leased, Self::Done, Self::Failed]
            .into_iter()
            .find(|known| known.as_str() == word)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Leased => "leased",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }

    /// Whether nothing will happen to the message any more.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Failed)
    }
}

/// A state and how often the work was given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub state: State,
    pub attempts: u32,
}

/// Why an acknowledgement is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AckRefused {
    #[error("message is not currently leased")]
    NotLeased,
    #[error("leaseId does not match the current lease")]
    LeaseMismatch,
}

/// Only a queued message can be leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("message is not queued")]
pub struct NotQueued;

impl Delivery {
    pub const fn new() -> Self {
        Self { state: State::Queued { redeliver: false }, attempts: 0 }
    }

    /// Hands the message out.
    ///
    /// # Errors
    /// When it is not queued.
    pub fn lease(self, lease: Lease) -> Result<Self, NotQueued> {
        match self.state {
            State::Queued { .. } => Ok(Self { state: State::Leased(lease), attempts: self.attempts }),
            State::Leased(_) | State::LeasedElsewhere | State::Done | State::Failed => Err(NotQueued),
        }
    }

    /// The holder has finished.
    ///
    /// # Errors
    /// When the message is not leased, or leased under another token.
    pub fn complete(self, token: &LeaseId) -> Result<Self, AckRefused> {
        self.held_by(token)?;
        Ok(Self { state: State::Done, attempts: self.attempts })
    }

    /// The holder gives the work back; above `max_attempts` the message fails.
    ///
    /// # Errors
    /// When the message is not leased, or leased under another token.
    pub fn retry(self, token: &LeaseId, max_attempts: u32) -> Result<Self, AckRefused> {
        self.held_by(token)?;
        let attempts = self.attempts.saturating_add(1);
        let state = if attempts > max_attempts { State::Failed } else { State::Queued { redeliver: false } };
        Ok(Self { state, attempts })
    }

    /// What the message is once somebody has looked at `now`: a lease that is over goes back to the queue.
    #[must_use]
    pub fn swept(self, now: Timestamp) -> Self {
        match &self.state {
            State::Leased(lease) if lease.until <= now => {
                Self { state: State::Queued { redeliver: true }, attempts: self.attempts }
            }
            _ => self,
        }
    }

    fn held_by(&self, token: &LeaseId) -> Result<(), AckRefused> {
        match &self.state {
            State::Leased(lease) if lease.id == *token => Ok(()),
            State::Leased(_) => Err(AckRefused::LeaseMismatch),
            State::Queued { .. } | State::LeasedElsewhere | State::Done | State::Failed => {
                Err(AckRefused::NotLeased)
            }
        }
    }
}

impl Default for Delivery {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1000);

    fn lease(id: &str) -> Lease {
        Lease { id: LeaseId::new(id), until: NOW }
    }

    #[test]
    fn a_lease_ends_with_its_own_token_only() {
        let leased = Delivery::new().lease(lease("a")).unwrap();
        assert_eq!(leased.clone().lease(lease("b")), Err(NotQueued));
        assert_eq!(leased.clone().complete(&LeaseId::new("b")), Err(AckRefused::LeaseMismatch));
        let done = leased.complete(&LeaseId::new("a")).unwrap();
        assert_eq!(done, Delivery { state: State::Done, attempts: 0 });
        assert_eq!(done.clone().complete(&LeaseId::new("a")), Err(AckRefused::NotLeased));
        assert_eq!(done.retry(&LeaseId::new("a"), 3), Err(AckRefused::NotLeased));
    }

    #[test]
    fn the_retry_above_the_limit_fails_the_message() {
        let mut delivery = Delivery::new();
        for attempts in 1..=3 {
            delivery = delivery.lease(lease("a")).unwrap().retry(&LeaseId::new("a"), 2).unwrap();
            let state = if attempts > 2 { State::Failed } else { State::Queued { redeliver: false } };
            assert_eq!(delivery, Delivery { state, attempts });
        }
    }

    #[test]
    fn a_lease_that_is_over_holds_until_somebody_looks() {
        let leased = Delivery::new().lease(lease("a")).unwrap();
        assert_eq!(leased.clone().swept(Timestamp::from_millis(999_999)), leased);
        assert!(leased.clone().complete(&LeaseId::new("a")).is_ok());
        let requeued = leased.swept(NOW);
        assert_eq!(requeued, Delivery { state: State::Queued { redeliver: true }, attempts: 0 });
        assert_eq!(requeued.complete(&LeaseId::new("a")), Err(AckRefused::NotLeased));
    }
}
