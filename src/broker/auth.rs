//! Who is calling: rate limit, signature, clock and lock, in the order in which the reference looks at them.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::access::{Access, CurrentAccess};
use crate::config::Config;
use crate::crypto::hmac;
use crate::crypto::secret::Secret;
use crate::domain::clock::SharedClock;
use crate::domain::lockout::Lockout;
use crate::domain::rate::RateLimit;
use crate::proto::dsh::error::{ApiError, Code};
use crate::proto::dsh::names::AgentName;
use crate::proto::dsh::v1::signing;

/// The three headers of a v1 request.
#[derive(Clone, Copy, Debug)]
pub struct Credentials<'a> {
    pub agent: &'a str,
    pub timestamp: &'a str,
    pub signature: &'a str,
}

/// What of a request is signed.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    pub method: &'a str,
    /// The target of the request line, as it was sent.
    pub target: &'a str,
    pub body: &'a [u8],
}

/// Why a request is refused, whatever its body and its signature are.
#[derive(Debug)]
pub enum Refusal {
    /// It says nothing about a secret.
    Plain(ApiError),
    /// It counts towards the lock of this agent.
    Failure(AgentName, &'static str),
}

pub struct Auth {
    access: Arc<CurrentAccess>,
    lockout: Mutex<Lockout>,
    rate: RateLimit,
    clock: SharedClock,
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").finish_non_exhaustive()
    }
}

impl Auth {
    pub fn new(config: &Config, access: Arc<CurrentAccess>, clock: SharedClock) -> Self {
        Self {
            access,
            lockout: Mutex::new(Lockout::new(config.security.lock_after_failures, config.security.lock_for)),
            rate: RateLimit::new(config.broker.rate, &clock),
            clock,
        }
    }

    /// # Errors
    /// `rate_limited` when the address has used up its minute.
    pub fn admit(&self, address: IpAddr) -> Result<(), ApiError> {
        if self.rate.admits(address) {
            return Ok(());
        }
        tracing::warn!(%address, "rate_limited");
        Err(ApiError::new(Code::RateLimited, "too many requests"))
    }

    /// The agent that signed the request. Missing headers, bad names and unknown agents say nothing about a secret
    /// and so do not count towards the lock; a wrong clock does.
    ///
    /// # Errors
    /// `unauthenticated`, `unknown_agent` or `locked`.
    pub fn authenticate(
        &self,
        given: Option<Credentials<'_>>,
        signed: Signed<'_>,
    ) -> Result<AgentName, ApiError> {
        let access = self.access.get();
        let (given, agent, secret) = self.known(&access, given).map_err(|refusal| self.refuse(refusal))?;
        let parts = signing::signed(signed.method, signed.target, given.timestamp, signed.body);
        if !hmac::verify_hex(secret.expose().as_bytes(), &parts, given.signature) {
            return Err(self.refuse(Refusal::Failure(agent, "invalid signature")));
        }
        locked(&self.lockout).succeeded(&agent);
        Ok(agent)
    }

    /// What [`Auth::authenticate`] would refuse whatever the body is. Nothing is counted yet.
    ///
    /// # Errors
    /// What [`Auth::refuse`] makes an answer of.
    pub fn expects(&self, given: Option<Credentials<'_>>) -> Result<(), Refusal> {
        self.known(&self.access.get(), given).map(drop)
    }

    fn known<'a, 'b>(
        &self,
        access: &'b Access,
        given: Option<Credentials<'a>>,
    ) -> Result<(Credentials<'a>, AgentName, &'b Secret), Refusal> {
        let unauthenticated = |why: &str| Refusal::Plain(ApiError::unauthenticated(why));
        let given = given.ok_or_else(|| unauthenticated("missing authentication headers"))?;
        let agent = AgentName::parse(given.agent).ok_or_else(|| unauthenticated("invalid agent name"))?;
        let unknown = || Refusal::Plain(ApiError::new(Code::UnknownAgent, "agent is not configured"));
        let secret = access.secret_of(&agent).ok_or_else(unknown)?;
        let now = self.clock.now();
        if locked(&self.lockout).is_locked(&agent, now) {
            let why = "agent temporarily locked after repeated auth failures";
            return Err(Refusal::Plain(ApiError::new(Code::Locked, why)));
        }
        if !signing::is_recent(given.timestamp, now.secs()) {
            return Err(Refusal::Failure(agent, "timestamp skew"));
        }
        Ok((given, agent, secret))
    }

    /// The answer to a refused request, which counts where it has to.
    pub fn refuse(&self, refusal: Refusal) -> ApiError {
        let (agent, why) = match refusal {
            Refusal::Plain(error) => return error,
            Refusal::Failure(agent, why) => (agent, why),
        };
        tracing::warn!(%agent, why, "authentication_failed");
        if locked(&self.lockout).failed(&agent, self.clock.now()) {
            tracing::warn!(%agent, "agent_locked");
        }
        ApiError::unauthenticated(why)
    }
}

/// The table stays consistent whatever panics while it is held, so a poisoned lock is as good as another.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
