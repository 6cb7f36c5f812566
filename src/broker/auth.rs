//! Who is calling: rate limit, signature, clock and lock, in the order in which the reference looks at them.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

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

enum Secrets {
    Shared(Secret),
    /// Each agent has its own; the shared one opens nothing. `None`: the agent has keys of another scheme only.
    Isolated(HashMap<AgentName, Option<Secret>>),
}

pub struct Auth {
    secrets: Secrets,
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
    pub fn new(config: &Config, shared: Secret, clock: SharedClock) -> Self {
        let secrets = if config.agents.are_isolated() {
            let own = config.agents.0.iter().map(|(name, agent)| (name.clone(), agent.secret.clone()));
            Secrets::Isolated(own.collect())
        } else {
            Secrets::Shared(shared)
        };
        Self {
            secrets,
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
        let given = given.ok_or_else(|| ApiError::unauthenticated("missing authentication headers"))?;
        let agent =
            AgentName::parse(given.agent).ok_or_else(|| ApiError::unauthenticated("invalid agent name"))?;
        let secret = self.secret_of(&agent)?;
        let now = self.clock.now();
        if locked(&self.lockout).is_locked(&agent, now) {
            return Err(ApiError::new(Code::Locked, "agent temporarily locked after repeated auth failures"));
        }
        if !signing::is_recent(given.timestamp, now.secs()) {
            return Err(self.failure(&agent, "timestamp skew"));
        }
        let parts = signing::signed(signed.method, signed.target, given.timestamp, signed.body);
        if !hmac::verify_hex(secret.expose().as_bytes(), &parts, given.signature) {
            return Err(self.failure(&agent, "invalid signature"));
        }
        locked(&self.lockout).succeeded(&agent);
        Ok(agent)
    }

    fn secret_of(&self, agent: &AgentName) -> Result<&Secret, ApiError> {
        match &self.secrets {
            Secrets::Shared(secret) => Ok(secret),
            Secrets::Isolated(own) => own
                .get(agent)
                .and_then(Option::as_ref)
                .ok_or_else(|| ApiError::new(Code::UnknownAgent, "agent is not configured")),
        }
    }

    fn failure(&self, agent: &AgentName, why: &'static str) -> ApiError {
        tracing::warn!(%agent, why, "authentication_failed");
        if locked(&self.lockout).failed(agent, self.clock.now()) {
            tracing::warn!(%agent, "agent_locked");
        }
        ApiError::unauthenticated(why)
    }
}

/// The table stays consistent whatever panics while it is held, so a poisoned lock is as good as another.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
