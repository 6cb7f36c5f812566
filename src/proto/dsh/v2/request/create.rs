//! `POST /v1/messages`.

use serde_json::Value;

use super::members::Body;
use super::{clamped, says_something};
use crate::proto::dsh::error::{ApiError, Code};
use crate::proto::dsh::js;
use crate::proto::dsh::names::DshId;
use crate::proto::dsh::v2::message::{Kind, Mode};
use crate::proto::dsh::v2::name::Name;

/// The longest body and context, in code points.
const LONGEST_BODY: usize = 48_000;
/// The longest idempotency key, in UTF-16 units.
const LONGEST_KEY: usize = 120;
/// In code points.
const LONGEST_SESSION: usize = 300;
const LONGEST_TOPIC: usize = 200;
/// How long a message may wait, in seconds.
const TTL_SECONDS: std::ops::RangeInclusive<u32> = 60..=3600;

/// A message that a client asks to have stored. Who sends it is who signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    pub target: Name,
    pub body: String,
    pub context: String,
    pub idempotency_key: String,
    pub ttl_seconds: u32,
    pub content: Content,
    /// What the sender says for a journey beyond the machine. Ours.
    pub redsyn: Option<Value>,
}

/// What differs between the kinds of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Request {
        mode: Mode,
        session_ref: String,
        topic: String,
        allow_shared_write: bool,
        /// The conversation, when the client has one.
        root_id: Option<String>,
        parent_id: Option<String>,
    },
    /// The rest is that of the message which it answers.
    Reply { parent_id: DshId },
}

impl Create {
    /// # Errors
    /// `bad_request` for the first field that the protocol refuses, `forbidden` for another agent's name.
    pub fn parse(body: &str, agent: &Name) -> Result<Self, ApiError> {
        let body = Body::object(body)?;
        let allow_shared_write = match body.value("allow_shared_write") {
            None => false,
            Some(flag) => {
                flag.as_bool().ok_or_else(|| ApiError::bad_request("allow_shared_write must be a boolean"))?
            }
        };
        if Name::of(&body.text("origin")) != *agent {
            return Err(ApiError::new(Code::Forbidden, "origin does not match authenticated agent"));
        }
        let kind = match Kind::parse(&body.word("kind")) {
            Some(kind @ (Kind::Request | Kind::Reply)) => kind,
            _ => return Err(ApiError::bad_request("invalid message kind")),
        };
        let text = body.trimmed("body");
        let key = js::cut(&body.trimmed("idempotency_key"), LONGEST_KEY).to_owned();
        if text.is_empty() || key.is_empty() || js::first(&text, LONGEST_BODY) != text {
            return Err(ApiError::bad_request("message body or idempotency key is invalid"));
        }
        let content = match kind {
            Kind::Reply => reply(&body)?,
            _ => request(&body, allow_shared_write)?,
        };
        let ttl = body.number("ttl_seconds").filter(says_something);
        Ok(Self {
            target: Name::of(&body.text("target")),
            body: text,
            context: js::first(&body.given("context"), LONGEST_BODY).to_owned(),
            idempotency_key: key,
            ttl_seconds: ttl.map_or(*TTL_SECONDS.end(), |seconds| clamped(seconds, TTL_SECONDS)),
            content,
            redsyn: body.redsyn()?,
        })
    }
}

fn request(body: &Body, allow_shared_write: bool) -> Result<Content, ApiError> {
    let mode = match body.word("execution_mode").as_str() {
        "" => Mode::default(),
        word => Mode::parse(word).ok_or_else(unknown_mode)?,
    };
    let id = |text: String| (!text.is_empty()).then_some(text);
    Ok(Content::Request {
        mode,
        session_ref: js::first(&body.given("session_ref"), LONGEST_SESSION).to_owned(),
        topic: js::first(&body.given("topic"), LONGEST_TOPIC).to_owned(),
        allow_shared_write,
        root_id: id(body.text("root_id")),
        parent_id: id(body.text("parent_id")),
    })
}

fn unknown_mode() -> ApiError {
    ApiError::bad_request("execution_mode must be read, continue, or write")
}

fn reply(body: &Body) -> Result<Content, ApiError> {
    let parent_id = body.trimmed("parent_id");
    if parent_id.is_empty() {
        return Err(ApiError::bad_request("reply requires parent_id"));
    }
    Ok(Content::Reply { parent_id: DshId::new(parent_id) })
}
