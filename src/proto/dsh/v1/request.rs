//! The bodies of v1 requests, checked in the order in which the reference checks them: the first thing wrong is the
//! one that the client is told.

use serde_json::Value;

use super::envelope::{Kind, MessageType};
use crate::proto::dsh::error::ApiError;
use crate::proto::dsh::js;
use crate::proto::dsh::json::{JsonText, Members};
use crate::proto::dsh::names::{AgentName, DshId};

/// The longest lease that a client may ask for, and the shortest.
const LEASE_SECONDS: std::ops::RangeInclusive<f64> = 1.0..=86_400.0;
/// The most ids that one `/v1/status` looks up; the reference drops the rest.
const MOST_STATUSES: usize = 200;

/// `POST /messages`.
#[derive(Clone, Debug)]
pub struct Send {
    pub id: Option<DshId>,
    pub to: String,
    pub message_type: MessageType,
    pub kind: Kind,
    pub body: JsonText,
    pub reply_to: Option<JsonText>,
    pub root_id: Option<JsonText>,
    pub parent_id: Option<JsonText>,
    pub ack: bool,
    pub redsyn: Option<Value>,
}

impl Send {
    /// # Errors
    /// `bad_request` for the first field that the protocol refuses.
    pub fn parse(body: &str, from: &AgentName) -> Result<Self, ApiError> {
        let members = Members::parse(body).map_err(|_| invalid_json())?.ok_or_else(no_object)?;
        let id = match members.get("id") {
            Some(id) => Some(
                id.as_text().map(DshId::new).ok_or_else(|| ApiError::bad_request("id must be a string"))?,
            ),
            None => None,
        };
        if members.given("from").is_some_and(|given| given.as_text().as_deref() != Some(from.as_str())) {
            return Err(ApiError::bad_request("envelope.from must match X-Relay-Agent header"));
        }
        let to = text(&members, "to").ok_or_else(|| ApiError::bad_request("to is required"))?;
        if to == from.as_str() {
            return Err(ApiError::bad_request("cannot send a message to yourself"));
        }
        let message_type = match members.get("type") {
            Some(word) => {
                word.as_text().and_then(|word| MessageType::parse(&word)).ok_or_else(unknown_type)?
            }
            None => MessageType::default(),
        };
        let kind = match members.given("kind") {
            Some(word) => word.as_text().and_then(|word| Kind::parse(&word)).ok_or_else(unknown_kind)?,
            None => Kind::default(),
        };
        let given = |name| members.given(name).cloned();
        Ok(Self {
            id,
            to,
            message_type,
            kind,
            body: given("body").unwrap_or_else(JsonText::empty_object),
            reply_to: given("replyTo"),
            root_id: given("rootId"),
            parent_id: given("parentId"),
            ack: members.get("ack").is_some_and(js::truthy),
            redsyn: redsyn(&members)?,
        })
    }
}

fn unknown_type() -> ApiError {
    ApiError::bad_request("type must be \"message\" or \"ack\"")
}

fn unknown_kind() -> ApiError {
    ApiError::bad_request("kind must be \"message\", \"request\" or \"reply\"")
}

/// The additive field is kept when it is an object; anything else was always dropped.
pub(in crate::proto::dsh) fn redsyn(members: &Members) -> Result<Option<Value>, ApiError> {
    let Some(text) = members.get("redsyn").filter(|value| value.as_json().starts_with('{')) else {
        return Ok(None);
    };
    text.to_value().map(Some).ok_or_else(|| {
        ApiError::bad_request("redsyn is nested too deeply or holds a text that is no Unicode")
    })
}

/// `POST /register`: nothing to keep, only a name to compare. No body, and JSON without members, are fine.
///
/// # Errors
/// `bad_request` for a body that is not JSON or is `null`, or for another agent's name.
pub fn register(body: &str, agent: &AgentName) -> Result<(), ApiError> {
    lenient(body)?.map_or(Ok(()), |members| same_agent(&members, agent))
}

/// `POST /messages/<id>/ack`: how the work on a message ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Receipt {
    Ok,
    Error(String),
}

impl Receipt {
    /// # Errors
    /// `bad_request` for a body that is not JSON or is `null`.
    pub fn parse(body: &str) -> Result<Self, ApiError> {
        let Some(members) = lenient(body)? else { return Ok(Self::Ok) };
        if text(&members, "status").as_deref() != Some("error") {
            return Ok(Self::Ok);
        }
        let told = members.given("error").and_then(JsonText::to_value).map(|error| js::string_of(&error));
        Ok(Self::Error(told.unwrap_or_else(|| "unknown".into())))
    }
}

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
    /// `bad_request` for no object, another agent's name, or a lease out of range.
    pub fn parse(body: &str, agent: &AgentName) -> Result<Self, ApiError> {
        let members = object_of(body, agent)?;
        let lease_seconds = match members.get("leaseSeconds") {
            Some(seconds) => Some(lease_seconds(seconds)?),
            None => None,
        };
        let wait_seconds = members.given("waitSeconds").map_or(Ok(0), wait_seconds)?;
        Ok(Self { limit: limit(&members), lease_seconds, wait_seconds })
    }
}

/// Longer waits are cut, as the relay cuts them.
fn wait_seconds(seconds: &JsonText) -> Result<u32, ApiError> {
    let seconds = number(seconds);
    if seconds.is_nan() || seconds < 0.0 {
        return Err(ApiError::bad_request("waitSeconds must be a number from 0 to 25"));
    }
    Ok(seconds.min(f64::from(WAIT_MAX)) as u32)
}

/// The longest a pull is held, in seconds.
const WAIT_MAX: u32 = 25;

fn lease_seconds(seconds: &JsonText) -> Result<u32, ApiError> {
    let seconds = number(seconds);
    if !LEASE_SECONDS.contains(&seconds) || seconds.fract() != 0.0 {
        return Err(ApiError::bad_request("leaseSeconds must be an integer from 1 to 86400"));
    }
    Ok(seconds as u32)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Completed,
    Retry,
}

/// `POST /v1/ack`.
#[derive(Clone, Debug)]
pub struct Ack {
    pub id: DshId,
    pub lease_id: String,
    pub outcome: Outcome,
    /// A text or `null`.
    pub error: JsonText,
}

impl Ack {
    /// # Errors
    /// `bad_request` without both ids, or for an outcome that is none.
    pub fn parse(body: &str) -> Result<Self, ApiError> {
        let members = Members::parse(body).ok().flatten().unwrap_or_default();
        let (Some(id), Some(lease_id)) = (text(&members, "messageId"), text(&members, "leaseId")) else {
            return Err(ApiError::bad_request("messageId and leaseId are required"));
        };
        let outcome = match text(&members, "outcome").as_deref() {
            Some("completed") => Outcome::Completed,
            Some("retry") => Outcome::Retry,
            _ => return Err(ApiError::bad_request("outcome must be \"completed\" or \"retry\"")),
        };
        let error = members.get("error").filter(|error| error.as_json().starts_with('"')).cloned();
        Ok(Self { id: DshId::new(id), lease_id, outcome, error: error.unwrap_or_else(JsonText::null) })
    }
}

/// `POST /v1/status`: the ids as `String()` makes them.
///
/// # Errors
/// `bad_request` without a list.
pub fn status(body: &str) -> Result<Vec<String>, ApiError> {
    let members = Members::parse(body).ok().flatten().unwrap_or_default();
    let ids: Option<Vec<Value>> =
        members.get("messageIds").and_then(|ids| serde_json::from_str(ids.as_json()).ok());
    let ids = ids.ok_or_else(|| ApiError::bad_request("messageIds array is required"))?;
    Ok(ids.iter().take(MOST_STATUSES).map(js::string_of).collect())
}

/// `POST /v1/recent`: how many.
///
/// # Errors
/// `bad_request` for no object or another agent's name.
pub fn recent(body: &str, agent: &AgentName) -> Result<u32, ApiError> {
    object_of(body, agent).map(|members| limit(&members))
}

/// `POST /v1/messages/query`. A filter that is no text, or an empty one, filters nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    pub limit: u32,
    pub kind: Option<String>,
    pub status: Option<String>,
    pub from: Option<String>,
    pub to: Option<String>,
}

impl Query {
    /// # Errors
    /// `bad_request` for no object or another agent's name.
    pub fn parse(body: &str, agent: &AgentName) -> Result<Self, ApiError> {
        let members = object_of(body, agent)?;
        let filter = |name| text(&members, name);
        let (kind, status, from, to) = (filter("kind"), filter("status"), filter("from"), filter("to"));
        Ok(Self { limit: limit(&members), kind, status, from, to })
    }
}

/// A member that is a text with something in it.
fn text(members: &Members, name: &str) -> Option<String> {
    members.get(name).and_then(JsonText::as_text).filter(|text| !text.is_empty())
}

fn limit(members: &Members) -> u32 {
    js::limit(members.get("limit").map(number))
}

/// A value that cannot be read as a tree is no number either.
fn number(value: &JsonText) -> f64 {
    value.to_value().map_or(f64::NAN, |value| js::number_of(&value))
}

fn object_of(body: &str, agent: &AgentName) -> Result<Members, ApiError> {
    let members = Members::parse(body).ok().flatten().ok_or_else(no_object)?;
    same_agent(&members, agent)?;
    Ok(members)
}

fn same_agent(members: &Members, agent: &AgentName) -> Result<(), ApiError> {
    match members.get("agent") {
        Some(given) if given.as_text().as_deref() != Some(agent.as_str()) => {
            Err(ApiError::bad_request("body.agent must match X-Relay-Agent header"))
        }
        _ => Ok(()),
    }
}

/// The members of a body that may be missing and may be no object; only `null` is refused, as by no client's intent.
fn lenient(body: &str) -> Result<Option<Members>, ApiError> {
    if body.is_empty() {
        return Ok(None);
    }
    let members = Members::parse(body).map_err(|_| invalid_json())?;
    if members.is_none() && body.trim() == "null" { Err(no_object()) } else { Ok(members) }
}

fn invalid_json() -> ApiError {
    ApiError::bad_request("invalid JSON body")
}

fn no_object() -> ApiError {
    ApiError::bad_request("body must be a JSON object")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::dsh::error::Code;

    fn send(body: &str) -> Result<Send, String> {
        Send::parse(body, &alpha()).map_err(|error| error.to_string())
    }

    fn alpha() -> AgentName {
        AgentName::parse("alpha").unwrap()
    }

    #[test]
    fn a_send_is_refused_for_the_first_thing_wrong() {
        for (body, told) in [
            ("", "invalid JSON body"),
            ("[]", "body must be a JSON object"),
            (r#"{"id":5,"to":"","type":"x"}"#, "id must be a string"),
            (r#"{"id":"\ud800","to":"b"}"#, "id must be a string"),
            (r#"{"to":"alpha","from":"gamma"}"#, "envelope.from must match X-Relay-Agent header"),
            (r#"{"to":["beta"],"type":"x"}"#, "to is required"),
            (r#"{"to":"alpha","type":"x"}"#, "cannot send a message to yourself"),
            (r#"{"to":"beta","type":null,"kind":"x"}"#, "type must be \"message\" or \"ack\""),
            (r#"{"to":"beta","kind":""}"#, "kind must be \"message\", \"request\" or \"reply\""),
        ] {
            assert_eq!(send(body).unwrap_err(), told, "{body}");
        }
    }

    #[test]
    fn null_and_absent_take_the_default_and_the_rest_is_kept() {
        let plain =
            send(r#"{"to":"beta","from":null,"body":null,"replyTo":null,"kind":null,"redsyn":5}"#).unwrap();
        assert_eq!((plain.body.as_json(), plain.reply_to, plain.redsyn), ("{}", None, None));
        let odd =
            send(r#"{"to":"b","body":false,"replyTo":{"a":1},"rootId":"","ack":[],"redsyn":{"ttl":1}}"#)
                .unwrap();
        assert_eq!((odd.body.as_json(), odd.ack), ("false", true));
        assert_eq!(odd.reply_to.unwrap().as_json(), r#"{"a":1}"#);
        assert_eq!(odd.root_id.unwrap().as_json(), r#""""#);
        assert_eq!(odd.redsyn, Some(serde_json::json!({"ttl": 1})));
    }

    #[test]
    fn leases_are_whole_seconds_of_at_most_a_day() {
        let lease = |seconds: &str| Pull::parse(&format!(r#"{{"leaseSeconds":{seconds}}}"#), &alpha());
        for (seconds, taken) in
            [("1", 1), ("86400", 86_400), ("\"30\"", 30), ("2.0", 2), ("true", 1), ("[5]", 5)]
        {
            assert_eq!(lease(seconds).unwrap().lease_seconds, Some(taken), "{seconds}");
        }
        for seconds in
            ["0", "-1", "1.5", "86401", "\"abc\"", "null", "\"\"", "{}", "[]", "[1,2]", "false", "1e999"]
        {
            assert!(lease(seconds).is_err(), "{seconds}");
        }
        assert_eq!(
            Pull::parse("{}", &alpha()).unwrap(),
            Pull { limit: 50, lease_seconds: None, wait_seconds: 0 }
        );
    }

    #[test]
    fn a_wait_is_cut_at_the_longest_and_refused_when_it_is_no_time() {
        let wait = |seconds: &str| {
            Pull::parse(&format!(r#"{{"waitSeconds":{seconds}}}"#), &alpha()).map(|pull| pull.wait_seconds)
        };
        for (given, held) in [
            ("0", 0),
            ("-0.0", 0),
            ("0.9", 0),
            ("24.9", 24),
            ("25", 25),
            ("26", 25),
            ("1e300", 25),
            ("null", 0),
            ("\"7\"", 7),
            ("\" 0x10 \"", 16),
            ("\"\"", 0),
            ("true", 1),
            ("[5]", 5),
        ] {
            assert_eq!(wait(given), Ok(held), "{given}");
        }
        for given in ["-1", "1e999", "-1e999", "\"-2\"", "\"soon\"", "\"NaN\"", "{}", "[1,2]"] {
            assert_eq!(wait(given).map_err(|error| error.code()), Err(Code::BadRequest), "{given}");
        }
    }

    #[test]
    fn a_receipt_says_ok_unless_it_says_error() {
        for body in
            ["", "[]", "\"ok\"", "{}", r#"{"status":"weird"}"#, r#"{"status":"ok","error":"ignored"}"#]
        {
            assert_eq!(Receipt::parse(body).unwrap(), Receipt::Ok, "{body}");
        }
        for (error, told) in
            [("7", "7"), ("null", "unknown"), (r#"{"a":1}"#, "[object Object]"), ("\"late\"", "late")]
        {
            let body = format!(r#"{{"status":"error","error":{error}}}"#);
            assert_eq!(Receipt::parse(&body).unwrap(), Receipt::Error(told.into()));
        }
        assert!(Receipt::parse("{").is_err() && Receipt::parse(" null ").is_err());
    }

    #[test]
    fn statuses_take_whatever_string_makes_of_it() {
        let ids = status(r#"{"messageIds":[1,null,true,{"a":1},["s1"],"s1 "]}"#).unwrap();
        assert_eq!(ids, ["1", "null", "true", "[object Object]", "s1", "s1 "]);
        let many = serde_json::json!({ "messageIds": vec!["x"; 205] }).to_string();
        assert_eq!(status(&many).unwrap().len(), 200);
        for body in ["", "{}", r#"{"messageIds":"s1"}"#, r#"{"messageIds":{"0":"s1"}}"#] {
            assert!(status(body).is_err(), "{body}");
        }
    }
}
