//! Who is calling: the key, then the clock, then the signature, in the order in which the reference looks at them.
//! There is neither a rate limit nor a lock here.

use std::collections::HashMap;
use std::fmt;

use crate::config::{Agent, Config, Key};
use crate::crypto::hmac;
use crate::crypto::secret::Secret;
use crate::domain::clock::SharedClock;
use crate::proto::dsh::error::{ApiError, Code};
use crate::proto::dsh::v1::signing::is_recent;
use crate::proto::dsh::v2::LEGACY_KEY;
use crate::proto::dsh::v2::name::Name;
use crate::proto::dsh::v2::signing::Signed;

type Keyring = HashMap<String, Key>;

/// The keys of every agent.
pub struct Keyrings {
    own: HashMap<Name, Keyring>,
    /// That of agents without keys of their own; `None` when there must be none.
    shared: Option<Keyring>,
    clock: SharedClock,
}

impl fmt::Debug for Keyrings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyrings").finish_non_exhaustive()
    }
}

/// The headers of a request.
#[derive(Clone, Copy, Debug)]
pub struct Credentials<'a> {
    pub agent: &'a str,
    pub key_id: Option<&'a str>,
    pub timestamp: &'a str,
    pub signature: &'a str,
}

/// What else of a request is signed.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub method: &'a str,
    pub target: &'a str,
    pub body: &'a [u8],
}

impl Keyrings {
    /// `shared` opens nothing when agents have keys of their own.
    pub fn new(config: &Config, shared: Secret, clock: SharedClock) -> Self {
        let own = config.agents.0.iter().filter_map(|(name, agent)| {
            let keyring = keyring(agent)?;
            Some((Name::of(name.as_str()), keyring))
        });
        let shared = (!config.agents.are_isolated()).then(|| legacy(shared));
        Self { own: own.collect(), shared, clock }
    }

    /// The agent that signed the request.
    ///
    /// # Errors
    /// `unauthenticated`, `unknown_agent` or `unknown_key`.
    pub fn authenticate(
        &self,
        given: Option<Credentials<'_>>,
        request: Request<'_>,
    ) -> Result<Name, ApiError> {
        let (given, agent, key) = self.known(given)?;
        let Request { method, target, body } = request;
        let Credentials { key_id, timestamp, signature, .. } = given;
        let signed = Signed { agent: agent.as_str(), key_id, timestamp, method, target, body };
        if !hmac::verify_hex(key.secret.expose().as_bytes(), &[signed.text().as_bytes()], signature) {
            return Err(failure(&agent, "invalid signature"));
        }
        Ok(agent)
    }

    /// What [`Keyrings::authenticate`] would refuse whatever the body is.
    ///
    /// # Errors
    /// The same.
    pub fn expects(&self, given: Option<Credentials<'_>>) -> Result<(), ApiError> {
        self.known(given).map(drop)
    }

    fn known<'a>(&self, given: Option<Credentials<'a>>) -> Result<(Credentials<'a>, Name, &Key), ApiError> {
        let given = given.ok_or_else(|| ApiError::unauthenticated("missing authentication headers"))?;
        let agent = Name::of_caller(given.agent)
            .ok_or_else(|| ApiError::unauthenticated("an agent's name is no address"))?;
        let now = self.clock.now();
        let key = self.key(&agent, given.key_id)?;
        if key.not_after.is_some_and(|end| end * 1000.0 <= now.millis() as f64) {
            return Err(ApiError::new(Code::UnknownKey, "expired relay key"));
        }
        if !is_recent(given.timestamp, now.secs()) {
            return Err(failure(&agent, "timestamp skew"));
        }
        Ok((given, agent, key))
    }

    fn key(&self, agent: &Name, id: Option<&str>) -> Result<&Key, ApiError> {
        let unknown_agent = || ApiError::new(Code::UnknownAgent, "agent is not configured");
        let keyring = self.own.get(agent).or(self.shared.as_ref()).ok_or_else(unknown_agent)?;
        match id {
            None => keyring.get(LEGACY_KEY).ok_or_else(unknown_agent),
            Some(id) => {
                keyring.get(id).ok_or_else(|| ApiError::new(Code::UnknownKey, "unknown relay key id"))
            }
        }
    }
}

/// The keys of the configuration; a single secret is the legacy key, but only of an agent without a keyring.
fn keyring(agent: &Agent) -> Option<Keyring> {
    if agent.keys.is_empty() {
        agent.secret.clone().map(legacy)
    } else {
        Some(agent.keys.clone().into_iter().collect())
    }
}

fn legacy(secret: Secret) -> Keyring {
    HashMap::from([(LEGACY_KEY.to_owned(), Key { secret, not_after: None })])
}

fn failure(agent: &Name, why: &'static str) -> ApiError {
    tracing::warn!(agent = ?crate::proto::dsh::names::brief(agent.as_str()), why, "v2_authentication_failed");
    ApiError::unauthenticated(why)
}
