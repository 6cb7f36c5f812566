//! Who is calling: the key, then the clock, then the signature, in the order in which the reference looks at them.
//! There is neither a rate limit nor a lock here.

use super::V2;
use crate::broker::access::Access;
use crate::config::Key;
use crate::crypto::hmac;
use crate::proto::dsh::error::{ApiError, Code};
use crate::proto::dsh::v1::signing::is_recent;
use crate::proto::dsh::v2::LEGACY_KEY;
use crate::proto::dsh::v2::name::Name;
use crate::proto::dsh::v2::signing::Signed;

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

impl V2 {
    /// The agent that signed the request.
    ///
    /// # Errors
    /// `unauthenticated`, `unknown_agent` or `unknown_key`.
    pub fn authenticate(
        &self,
        given: Option<Credentials<'_>>,
        request: Request<'_>,
    ) -> Result<Name, ApiError> {
        let access = self.access.get();
        let (given, agent, key) = self.known(&access, given)?;
        let Request { method, target, body } = request;
        let Credentials { key_id, timestamp, signature, .. } = given;
        let signed = Signed { agent: agent.as_str(), key_id, timestamp, method, target, body };
        if !hmac::verify_hex(key.secret.expose().as_bytes(), &[signed.text().as_bytes()], signature) {
            return Err(failure(&agent, "invalid signature"));
        }
        Ok(agent)
    }

    /// What [`V2::authenticate`] would refuse whatever the body is.
    ///
    /// # Errors
    /// The same.
    pub fn expects(&self, given: Option<Credentials<'_>>) -> Result<(), ApiError> {
        self.known(&self.access.get(), given).map(drop)
    }

    fn known<'a, 'b>(
        &self,
        access: &'b Access,
        given: Option<Credentials<'a>>,
    ) -> Result<(Credentials<'a>, Name, &'b Key), ApiError> {
        let given = given.ok_or_else(|| ApiError::unauthenticated("missing authentication headers"))?;
        let agent = Name::of_caller(given.agent)
            .ok_or_else(|| ApiError::unauthenticated("an agent's name is no address"))?;
        let now = self.clock.now();
        let key = key(access, &agent, given.key_id)?;
        if key.not_after.is_some_and(|end| end * 1000.0 <= now.millis() as f64) {
            return Err(ApiError::new(Code::UnknownKey, "expired relay key"));
        }
        if !is_recent(given.timestamp, now.secs()) {
            return Err(failure(&agent, "timestamp skew"));
        }
        Ok((given, agent, key))
    }
}

fn key<'a>(access: &'a Access, agent: &Name, id: Option<&str>) -> Result<&'a Key, ApiError> {
    let unknown_agent = || ApiError::new(Code::UnknownAgent, "agent is not configured");
    let keyring = access.keyring_of(agent).ok_or_else(unknown_agent)?;
    match id {
        None => keyring.get(LEGACY_KEY).ok_or_else(unknown_agent),
        Some(id) => keyring.get(id).ok_or_else(|| ApiError::new(Code::UnknownKey, "unknown relay key id")),
    }
}

fn failure(agent: &Name, why: &'static str) -> ApiError {
    tracing::warn!(agent = ?crate::proto::dsh::names::brief(agent.as_str()), why, "v2_authentication_failed");
    ApiError::unauthenticated(why)
}
