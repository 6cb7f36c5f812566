//! The bodies of requests of the second generation. Values are read as JavaScript coerces them, in the order in which
//! the reference looks at them: the first thing wrong is the one that the client is told.

mod create;
mod members;
mod query;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;

pub use create::{Content, Create};
pub use query::Query;

use members::Body;

use super::name::Name;
use crate::proto::dsh::error::ApiError;
use crate::proto::dsh::js;
use crate::proto::dsh::names::DshId;

/// How many messages one pull leases.
const PULL_LIMIT: RangeInclusive<u32> = 1..=8;
/// The shortest lease, whoever asks, and the longest that a client may ask for.
pub const SHORTEST_LEASE: u32 = 15;
const LEASE_SECONDS: RangeInclusive<u32> = SHORTEST_LEASE..=3600;
/// The longest that a pull is held, in seconds.
const WAIT_MAX: u32 = 25;
/// The most ids that one `/v1/status` looks up; the rest is dropped.
const MOST_STATUSES: usize = 100;
/// The longest text of an acknowledgement, in UTF-16 units.
const LONGEST_ERROR: usize = 300;

/// `POST /v1/pull`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pull {
    pub limit: u32,
    pub lease_seconds: Option<u32>,
    /// How long the call may be held until mail comes; ours, not the reference's.
    pub wait_seconds: u32,
}

impl Pull {
    /// # Errors
    /// `bad_request` for no object or a number that is none, `forbidden` for another agent's name.
    pub fn parse(body: &str, agent: &Name) -> Result<Self, ApiError> {
        let body = Body::by(body, agent)?;
        let whole = |name: &str, range: RangeInclusive<u32>| match body.number(name) {
            None => Ok(None),
            Some(number) if number.is_finite() => Ok(Some(clamped(number, range))),
            Some(_) => Err(ApiError::bad_request(format!("{name} must be an integer"))),
        };
        Ok(Self {
            limit: whole("limit", PULL_LIMIT)?.unwrap_or(*PULL_LIMIT.end()),
            lease_seconds: whole("lease_seconds", LEASE_SECONDS)?,
            wait_seconds: whole("wait_seconds", 0..=WAIT_MAX)?.unwrap_or(0),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Completed,
    Retry,
}

/// `POST /v1/ack`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    pub id: DshId,
    /// `None` for a word that is no outcome: whether the message is leased is looked at before.
    pub outcome: Option<Outcome>,
    /// Empty when nothing was said.
    pub error: String,
    pub lease_token: Option<String>,
}

impl Ack {
    /// # Errors
    /// `bad_request` for no object or no id, `forbidden` for another agent's name.
    pub fn parse(body: &str, agent: &Name) -> Result<Self, ApiError> {
        let body = Body::by(body, agent)?;
        let id = body.trimmed("message_id");
        if id.is_empty() {
            return Err(no_message_id());
        }
        let outcome = match body.word("outcome").as_str() {
            "completed" => Some(Outcome::Completed),
            "retry" => Some(Outcome::Retry),
            _ => None,
        };
        let token = body.trimmed("lease_token");
        Ok(Self {
            id: DshId::new(id),
            outcome,
            error: js::cut(&body.text("error"), LONGEST_ERROR).to_owned(),
            lease_token: (!token.is_empty()).then_some(token),
        })
    }
}

/// `POST /v1/lease/renew`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renew {
    pub id: DshId,
    pub lease_token: String,
    pub lease_seconds: Option<u32>,
}

impl Renew {
    /// # Errors
    /// `bad_request` for no object, no id or no token, `forbidden` for another agent's name.
    pub fn parse(body: &str, agent: &Name) -> Result<Self, ApiError> {
        let body = Body::by(body, agent)?;
        let (id, lease_token) = (body.trimmed("message_id"), body.trimmed("lease_token"));
        if id.is_empty() || lease_token.is_empty() {
            return Err(ApiError::bad_request("message_id and lease_token are required"));
        }
        let lease_seconds = body.number("lease_seconds").filter(says_something);
        let lease_seconds = lease_seconds.map(|seconds| clamped(seconds, LEASE_SECONDS));
        Ok(Self { id: DshId::new(id), lease_token, lease_seconds })
    }
}

/// `POST /v1/status`: the ids as `String()` makes them; empty ones are dropped.
///
/// # Errors
/// `bad_request` without a list, `forbidden` for another agent's name.
pub fn status(body: &str, agent: &Name) -> Result<Vec<String>, ApiError> {
    let no_list = || ApiError::bad_request("message_ids array is required");
    let body = Body::parse(body).ok_or_else(no_list)?;
    body.check_agent(agent)?;
    let ids = body.value("message_ids").and_then(|ids| ids.as_array().cloned()).ok_or_else(no_list)?;
    let ids = ids.iter().map(js::string_of).filter(|id| !id.is_empty());
    Ok(ids.take(MOST_STATUSES).collect())
}

/// `POST /v1/recent`: how many.
///
/// # Errors
/// `bad_request` for no object, `forbidden` for another agent's name.
pub fn recent(body: &str, agent: &Name) -> Result<u32, ApiError> {
    Ok(lenient_limit(&Body::by(body, agent)?, 50, 20))
}

/// `POST /v1/admin/status`: how many. Unlike elsewhere a 0 is a number here.
///
/// # Errors
/// `bad_request` for no object, `forbidden` for another agent's name.
pub fn unfinished(body: &str, agent: &Name) -> Result<u32, ApiError> {
    let limit = Body::by(body, agent)?.number("limit").filter(|limit| !limit.is_nan());
    Ok(limit.map_or(50, |limit| clamped(limit, 1..=100)))
}

/// `POST /v1/admin/requeue` and `/v1/admin/cancel`: which message.
///
/// # Errors
/// `bad_request` without an id.
pub fn managed(body: &str) -> Result<DshId, ApiError> {
    let id = Body::parse(body).map(|body| body.trimmed("message_id")).unwrap_or_default();
    if id.is_empty() { Err(no_message_id()) } else { Ok(DshId::new(id)) }
}

fn no_message_id() -> ApiError {
    ApiError::bad_request("message_id is required")
}

/// A limit of which 0 and what is no number mean the default.
fn lenient_limit(body: &Body, most: u32, default: u32) -> u32 {
    body.number("limit").filter(says_something).map_or(default, |limit| clamped(limit, 1..=most))
}

/// Neither 0 nor NaN, which JavaScript takes for nothing.
fn says_something(number: &f64) -> bool {
    *number != 0.0 && !number.is_nan()
}

fn clamped(number: f64, range: RangeInclusive<u32>) -> u32 {
    number.trunc().clamp(f64::from(*range.start()), f64::from(*range.end())) as u32
}
