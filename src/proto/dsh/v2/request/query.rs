//! `POST /v1/messages/query`.

use super::lenient_limit;
use super::members::Body;
use crate::proto::dsh::error::ApiError;
use crate::proto::dsh::v2::name::Name;

/// What is `None` filters nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub limit: u32,
    pub message_id: Option<String>,
    pub root_id: Option<String>,
    pub origin: Option<String>,
    pub target: Option<String>,
    pub kind: Option<String>,
    pub status: Option<String>,
    /// Part of the topic.
    pub topic: Option<String>,
    /// Seconds since the epoch.
    pub since: Option<f64>,
}

impl Query {
    /// # Errors
    /// `bad_request` for no object or a time that is no number, `forbidden` for another agent's name.
    pub fn parse(body: &str, agent: &Name) -> Result<Self, ApiError> {
        let body = Body::by(body, agent)?;
        let since = body.number("since");
        if since.is_some_and(f64::is_nan) {
            return Err(ApiError::bad_request("since must be a number"));
        }
        let text = |name| Some(body.text(name)).filter(|text| !text.is_empty());
        // Lower-cased like what they are compared with, but not trimmed: so does the reference.
        let lower = |name| text(name).map(|text| text.to_lowercase());
        Ok(Self {
            limit: lenient_limit(&body, 100, 50),
            message_id: text("message_id"),
            root_id: text("root_id"),
            origin: lower("origin"),
            target: lower("target"),
            kind: lower("kind"),
            status: lower("status"),
            topic: text("topic"),
            since,
        })
    }
}
