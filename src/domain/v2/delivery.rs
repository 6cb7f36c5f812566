//! The life of a message of the second generation. Pure: time and tokens come in as values.
//!
//! A pull counts as an attempt. A lease that is over still holds against an acknowledgement without a token, until
//! somebody tidies up (a pull, anybody's, or the sweep). The last permitted hand-out is failed by the next tidying,
//! whether its lease is over or not: so does the reference, and its clients acknowledge before they pull again.

use subtle::ConstantTimeEq;

use crate::domain::clock::Timestamp;
use crate::domain::delivery::{Lease, LeaseId};

const EXHAUSTED: &str = "attempts exhausted without acknowledgement";
const RETRY_EXHAUSTED: &str = "retry exhausted";
const REQUEUED: &str = "requeued by operator";
const CANCELLED: &str = "cancelled by operator";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Queued,
    Leased(Lease),
    /// Taken by somebody beyond the machine, under a lease that is not ours to end.
    LeasedElsewhere,
    Completed,
    Failed,
    Expired,
}

/// The name of a state, without what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Queued,
    Leased,
    Completed,
    Failed,
    Expired,
}

impl Status {
    pub const ALL: [Self; 5] = [Self::Queued, Self::Leased, Self::Completed, Self::Failed, Self::Expired];

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == word)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Leased => "leased",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Expired => "expired",
        }
    }
}

/// A state and what stays with a message from one state to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub state: State,
    /// How often it was handed out since it was last requeued.
    pub attempts: u32,
    pub expires_at: Timestamp,
    /// Empty when all is well.
    pub last_error: String,
    /// When it was last completed or failed; a requeue leaves it.
    pub completed_at: Option<Timestamp>,
}

/// Why an acknowledgement or a renewal is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseRefused {
    /// Without a token: nobody has the message.
    #[error("message is not currently leased")]
    NotLeased,
    /// With a token: it is not that of the lease, or the lease is over.
    #[error("lease is no longer active")]
    Mismatch,
}

/// The state of the message has no such way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message is in another state")]
pub struct OtherState;

/// A broker with `maxAttempts: 0` hands a message out once all the same.
pub const fn permitted(max_attempts: u32) -> u32 {
    if max_attempts == 0 { 1 } else { max_attempts }
}

impl Delivery {
    pub const fn new(expires_at: Timestamp) -> Self {
        Self { state: State::Queued, attempts: 0, expires_at, last_error: String::new(), completed_at: None }
    }

    pub const fn status(&self) -> Status {
        match self.state {
            State::Queued => Status::Queued,
            State::Leased(_) | State::LeasedElsewhere => Status::Leased,
            State::Completed => Status::Completed,
            State::Failed => Status::Failed,
            State::Expired => Status::Expired,
        }
    }

    /// Hands the message out.
    ///
    /// # Errors
    /// When it is not queued.
    pub fn lease(self, lease: Lease) -> Result<Self, OtherState> {
        match self.state {
            State::Queued => {
                Ok(Self { state: State::Leased(lease), attempts: self.attempts.saturating_add(1), ..self })
            }
            _ => Err(OtherState),
        }
    }

    /// Whether whoever holds `token`, or holds none, may acknowledge now.
    ///
    /// # Errors
    /// With a token, unless it is that of a lease that is not over; without one, unless somebody has the message.
    pub fn check(&self, token: Option<&LeaseId>, now: Timestamp) -> Result<(), LeaseRefused> {
        match (&self.state, token) {
            (State::Leased(_), None) => Ok(()),
            (State::Leased(lease), Some(token)) if is_same(&lease.id, token) && now < lease.until => Ok(()),
            (_, None) => Err(LeaseRefused::NotLeased),
            (_, Some(_)) => Err(LeaseRefused::Mismatch),
        }
    }

    /// The work is done.
    ///
    /// # Errors
    /// See [`Self::check`].
    pub fn complete(self, token: Option<&LeaseId>, now: Timestamp) -> Result<Self, LeaseRefused> {
        self.check(token, now)?;
        Ok(Self { state: State::Completed, completed_at: Some(now), last_error: String::new(), ..self })
    }

    /// The work is given back; on the last permitted attempt the message fails.
    ///
    /// # Errors
    /// See [`Self::check`].
    pub fn retry(
        self,
        token: Option<&LeaseId>,
        error: String,
        max_attempts: u32,
        now: Timestamp,
    ) -> Result<Self, LeaseRefused> {
        self.check(token, now)?;
        if self.attempts < permitted(max_attempts) {
            return Ok(Self { state: State::Queued, last_error: error, ..self });
        }
        let last_error = or(error, RETRY_EXHAUSTED);
        Ok(Self { state: State::Failed, completed_at: Some(now), last_error, ..self })
    }

    /// The holder needs more time.
    ///
    /// # Errors
    /// Unless the token is that of a lease that is not over.
    pub fn renew(self, token: &LeaseId, until: Timestamp, now: Timestamp) -> Result<Self, LeaseRefused> {
        self.check(Some(token), now)?;
        Ok(Self { state: State::Leased(Lease { id: token.clone(), until }), ..self })
    }

    /// What the message is once somebody has tidied up: what is past its time expires, what was handed out often
    /// enough fails, a lease that is over goes back to the queue.
    #[must_use]
    pub fn tidied(self, max_attempts: u32, now: Timestamp) -> Self {
        match &self.state {
            State::Queued | State::Leased(_) if self.expires_at <= now => {
                Self { state: State::Expired, ..self }
            }
            State::Queued | State::Leased(_) if self.attempts >= permitted(max_attempts) => Self {
                state: State::Failed,
                completed_at: self.completed_at.or(Some(now)),
                last_error: or(self.last_error, EXHAUSTED),
                ..self
            },
            State::Leased(lease) if lease.until <= now => Self { state: State::Queued, ..self },
            _ => self,
        }
    }

    /// Back to the queue with all attempts before it. Its time is not renewed.
    ///
    /// # Errors
    /// When it is queued already or taken beyond the machine.
    pub fn requeue(self) -> Result<Self, OtherState> {
        match self.state {
            State::Leased(_) | State::Completed | State::Failed | State::Expired => Ok(Self {
                state: State::Queued,
                attempts: 0,
                last_error: or(self.last_error, REQUEUED),
                ..self
            }),
            State::Queued | State::LeasedElsewhere => Err(OtherState),
        }
    }

    /// Nobody needs to do anything any more.
    ///
    /// # Errors
    /// When it is completed or taken beyond the machine.
    pub fn cancel(self, now: Timestamp) -> Result<Self, OtherState> {
        match self.state {
            State::Queued | State::Leased(_) | State::Failed | State::Expired => Ok(Self {
                state: State::Completed,
                completed_at: Some(now),
                last_error: or(self.last_error, CANCELLED),
                ..self
            }),
            State::Completed | State::LeasedElsewhere => Err(OtherState),
        }
    }
}

fn is_same(a: &LeaseId, b: &LeaseId) -> bool {
    a.as_str().as_bytes().ct_eq(b.as_str().as_bytes()).into()
}

fn or(text: String, otherwise: &str) -> String {
    if text.is_empty() { otherwise.to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1000);
    const LATER: Timestamp = Timestamp::from_secs(1060);
    const END: Timestamp = Timestamp::from_secs(2000);

    fn token(text: &str) -> LeaseId {
        LeaseId::new(text)
    }

    fn queued() -> Delivery {
        Delivery::new(END)
    }

    fn leased() -> Delivery {
        queued().lease(Lease { id: token("a"), until: LATER }).unwrap()
    }

    #[test]
    fn a_token_counts_as_long_as_its_lease_and_none_until_somebody_tidies() {
        let lease = leased();
        assert_eq!(
            (lease.attempts, lease.clone().lease(Lease { id: token("b"), until: END })),
            (1, Err(OtherState))
        );
        assert_eq!(lease.check(Some(&token("b")), NOW), Err(LeaseRefused::Mismatch));
        assert_eq!(lease.check(Some(&token("a")), LATER), Err(LeaseRefused::Mismatch));
        assert!(lease.clone().complete(Some(&token("a")), NOW).is_ok());
        let done = lease.clone().complete(None, LATER).unwrap();
        assert_eq!((done.status(), done.completed_at), (Status::Completed, Some(LATER)));
        assert_eq!(done.check(None, NOW), Err(LeaseRefused::NotLeased));
        assert_eq!(done.check(Some(&token("a")), NOW), Err(LeaseRefused::Mismatch));
        let back = lease.tidied(3, LATER);
        assert_eq!((back.status(), back.attempts), (Status::Queued, 1));
        assert_eq!(back.check(None, LATER), Err(LeaseRefused::NotLeased));
    }

    #[test]
    fn the_last_permitted_attempt_fails_by_a_retry_or_by_the_next_tidying() {
        for max in [0, 1] {
            let failed = leased().retry(None, String::new(), max, NOW).unwrap();
            assert_eq!((failed.status(), failed.last_error.as_str()), (Status::Failed, "retry exhausted"));
            let failed = leased().tidied(max, NOW);
            assert_eq!((failed.status(), failed.last_error.as_str()), (Status::Failed, EXHAUSTED));
            assert_eq!(failed.completed_at, Some(NOW));
        }
        let again = leased().retry(Some(&token("a")), "why".into(), 2, NOW).unwrap();
        assert_eq!(
            (again.status(), again.last_error.as_str(), again.completed_at),
            (Status::Queued, "why", None)
        );
        assert_eq!(leased().tidied(2, NOW), leased());
    }

    #[test]
    fn what_is_past_its_time_expires_in_the_queue_and_under_a_lease() {
        for delivery in [queued(), leased()] {
            let expired = delivery.tidied(1, END);
            assert_eq!((expired.status(), expired.completed_at), (Status::Expired, None));
            assert_eq!(expired.clone().tidied(1, END), expired);
            let revived = expired.requeue().unwrap();
            assert_eq!((revived.attempts, revived.last_error.as_str()), (0, REQUEUED));
            assert_eq!(revived.tidied(1, END).status(), Status::Expired);
        }
    }

    #[test]
    fn a_renewal_needs_the_lease() {
        let renewed = leased().renew(&token("a"), END, NOW).unwrap();
        assert_eq!(renewed.state, State::Leased(Lease { id: token("a"), until: END }));
        assert_eq!(leased().renew(&token("a"), END, LATER), Err(LeaseRefused::Mismatch));
        assert_eq!(queued().renew(&token("a"), END, NOW), Err(LeaseRefused::Mismatch));
    }

    #[test]
    fn operators_revive_and_cancel_but_not_what_is_beyond_the_machine() {
        let cancelled = queued().cancel(NOW).unwrap();
        assert_eq!((cancelled.status(), cancelled.last_error.as_str()), (Status::Completed, CANCELLED));
        assert_eq!(cancelled.clone().cancel(NOW), Err(OtherState));
        let revived = cancelled.requeue().unwrap();
        assert_eq!((revived.completed_at, revived.last_error.as_str()), (Some(NOW), CANCELLED));
        assert_eq!(revived.requeue(), Err(OtherState));
        let away = Delivery { state: State::LeasedElsewhere, ..queued() };
        assert_eq!((away.clone().requeue(), away.clone().cancel(NOW)), (Err(OtherState), Err(OtherState)));
        assert_eq!(away.clone().tidied(1, END), away);
    }
}
