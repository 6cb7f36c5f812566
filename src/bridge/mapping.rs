//! The mapping of messages, both ways. Pure: values in, values out.

use serde_json::{Map, Value, json};

use super::names::Names;
use super::options::Options;
use crate::config::redsyn::{Grant, MappedAgent};
use crate::crypto::sign::VerifyingKey;
use crate::crypto::{jcs, json as ijson, sha256};
use crate::domain::acl;
use crate::domain::clock::Timestamp;
use crate::domain::crossing::LocalKind;
use crate::proto::dsh::json::JsonText;
use crate::proto::dsh::names::{AgentName, DshId};
use crate::proto::dsh::v1::envelope::{Kind as DshKind, MessageType};
use crate::proto::dsh::v2::message::{Kind as V2Kind, Mode};
use crate::proto::redsyn::address::{AgentAddress, SessionId};
use crate::proto::redsyn::body::{Body, BodyView};
use crate::proto::redsyn::envelope::DeliveredEnvelope;
use crate::proto::redsyn::ids::{Kind, MessageId};
use crate::store::bridge::generation;
use crate::store::bridge::{Arrival, Content, OutboxEntry};
use crate::store::local::NewMessage;
use crate::store::v2;

/// Marks the reference in which what dsh has and REDSYN has not travels.
const EXTRAS_URN: &str = "urn:dsh-agent-relay:envelope:1";
/// The longest dsh id that is also the REDSYN id.
const PLAIN_ID_MAX: usize = 128;
/// The deepest nesting that travels. JSON readers stop at 128 levels; an envelope, a seal, an answer of the relay and
/// the local message at the other end each add some.
const DEEPEST: usize = 100;

/// Why a local message cannot leave.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CannotLeave {
    #[error("the message is too large: {0}")]
    TooLarge(&'static str),
    #[error("redsyn.files: {0}")]
    Files(String),
    #[error("the body cannot travel: {0}")]
    NotJson(String),
    #[error("redsyn.{0}")]
    Options(&'static str),
}

/// The REDSYN id of a local message: the same where the alphabet allows, else `x` and the SHA-256 of it in hex.
pub fn travel_id(id: &DshId) -> Option<MessageId> {
    let text = id.as_str();
    let plain =
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-'));
    if plain && !text.is_empty() && text.len() <= PLAIN_ID_MAX {
        return text.parse().ok();
    }
    format!("x{}", sha256::hex(text.as_bytes())).parse().ok()
}

/// How the message calls itself.
pub fn local_kind(message: &NewMessage) -> LocalKind {
    match (message.message_type, message.kind) {
        (MessageType::Ack, _) => match message.body.to_value() {
            Some(body) if body.get("status").and_then(Value::as_str) == Some("error") => {
                LocalKind::ReceiptError
            }
            _ => LocalKind::ReceiptOk,
        },
        (MessageType::Message, DshKind::Message) => LocalKind::Message,
        (MessageType::Message, DshKind::Request) => LocalKind::Request,
        (MessageType::Message, DshKind::Reply) => LocalKind::Reply,
    }
}

/// The REDSYN body and references of a local message, however long.
///
/// # Errors
/// When it is JSON that cannot be signed.
pub fn content(message: &NewMessage, options: &Options) -> Result<Content, CannotLeave> {
    let value = ijson::parse(message.body.as_json().as_bytes())
        .map_err(|error| CannotLeave::NotJson(error.to_string()))?;
    are_shallow([&value])?;
    are_shallow(&options.refs)?;
    let body = match local_kind(message) {
        LocalKind::ReceiptOk => Body::json(json!({"receipt": "ok"})),
        LocalKind::ReceiptError => receipt_error(&value),
        LocalKind::Message | LocalKind::Request | LocalKind::Reply => outbound(value),
    };
    let mut refs = options.refs.clone();
    if message.ack {
        refs.push(extras_ref(&json!({"ack": true}))?);
    }
    Ok(Content { body, refs })
}

/// The same for the second generation, whose bodies are texts.
///
/// # Errors
/// When what it has beside the text cannot be signed.
pub fn content_v2(message: &v2::NewMessage, options: &Options) -> Result<Content, CannotLeave> {
    are_shallow(&options.refs)?;
    let extras = generation::envelope_of(message);
    let mut refs = options.refs.clone();
    if !extras.is_empty() {
        refs.push(extras_ref(&Value::Object(extras))?);
    }
    Ok(Content { body: Body::text(message.body.as_str()), refs })
}

/// The reference in which what REDSYN has no field for travels.
fn extras_ref(extras: &Value) -> Result<Value, CannotLeave> {
    let note = jcs::canonical(extras).map_err(|error| CannotLeave::NotJson(error.to_string()))?;
    Ok(json!({"url": EXTRAS_URN, "note": String::from_utf8_lossy(&note)}))
}

/// How a message of the second generation calls itself.
pub const fn local_kind_v2(kind: V2Kind) -> LocalKind {
    match kind {
        V2Kind::Request => LocalKind::Request,
        V2Kind::Reply => LocalKind::Reply,
        V2Kind::Message | V2Kind::Event => LocalKind::Message,
    }
}

fn are_shallow<'a>(values: impl IntoIterator<Item = &'a Value>) -> Result<(), CannotLeave> {
    if values.into_iter().all(|value| is_shallow(value, DEEPEST)) {
        return Ok(());
    }
    Err(CannotLeave::NotJson(format!("it is nested more than {DEEPEST} levels deep")))
}

fn is_shallow(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return false };
    match value {
        Value::Array(items) => items.iter().all(|item| is_shallow(item, below)),
        Value::Object(members) => members.values().all(|item| is_shallow(item, below)),
        _ => true,
    }
}

/// `{"text": s}` and nothing else is text; any other JSON is data.
fn outbound(value: Value) -> Body {
    match &value {
        Value::Object(fields) if fields.len() == 1 => match fields.get("text") {
            Some(Value::String(text)) => Body::text(text.clone()),
            _ => Body::json(value),
        },
        _ => Body::json(value),
    }
}

fn receipt_error(value: &Value) -> Body {
    let why = value.get("error").and_then(Value::as_str).unwrap_or("unknown");
    Body::text(format!("the agent reported an error: {why}"))
}

/// Text arrives as `{"text"}`, an object as itself, any other data as `{"data"}`.
fn inbound(body: &Body) -> Value {
    match body.view() {
        BodyView::Text(text) => json!({"text": text}),
        BodyView::Json(Value::Object(fields)) => Value::Object(fields.clone()),
        BodyView::Json(data) => json!({"data": data}),
        // Opened before it comes here; shown as it is rather than lost.
        BodyView::Encrypted(_) => json!({"data": body.as_value()}),
    }
}

/// An inbound message in the clear.
#[derive(Clone, Debug)]
pub struct Opened {
    pub body: Body,
    pub refs: Vec<Value>,
    /// Where progress and the reply are sealed to.
    pub reply_key: Option<String>,
    pub encrypted: bool,
    pub zip: Option<Vec<u8>>,
}

/// What [`arrival`] needs to know.
#[derive(Debug)]
pub struct Delivery<'a> {
    pub agent: &'a AgentName,
    pub mapped: &'a MappedAgent,
    pub envelope: &'a DeliveredEnvelope,
    pub session: Option<SessionId>,
    /// The verified key, and whether a person has confirmed its fingerprint.
    pub signer: Option<(VerifyingKey, bool)>,
    pub opened: Opened,
    /// By our clock.
    pub expires_at: Option<Timestamp>,
    pub names: &'a Names,
    pub now: Timestamp,
}

/// The local message of a delivered envelope. Its `parentId` is filled in by the store, which knows the local id.
pub fn arrival(delivery: Delivery<'_>) -> Arrival {
    let envelope = delivery.envelope;
    let (mut extras, refs) = take_extras(delivery.opened.refs);
    let ack = extras.remove("ack").and_then(|ack| ack.as_bool()).unwrap_or(false);
    let is_verified = delivery.signer.as_ref().is_some_and(|(_, verified)| *verified);
    permit(&mut extras, &delivery.mapped.grant, &envelope.from.agent, is_verified);
    let from = delivery.names.local_name(&envelope.from.agent);
    let mut message = NewMessage::new(
        DshId::new(envelope.id.as_str()),
        crate::proto::dsh::names::Party::new(from),
        delivery.agent,
        delivery.now,
    );
    message.kind = match envelope.kind {
        Kind::Request => DshKind::Request,
        Kind::Reply => DshKind::Reply,
        Kind::Progress | Kind::Event => DshKind::Message,
    };
    message.body = JsonText::from(&inbound(&delivery.opened.body));
    message.root_id = envelope.thread.as_ref().map(|thread| JsonText::from(&json!(thread)));
    message.ack = ack;
    message.expires_at = delivery.expires_at;
    let mut told = metadata(
        &delivery.session,
        &delivery.signer,
        envelope,
        &refs,
        delivery.opened.zip.as_deref(),
        delivery.opened.encrypted,
    );
    if let Value::Object(fields) = &mut told {
        if matches!(delivery.opened.body.view(), BodyView::Json(_)) {
            fields.insert("type".into(), json!("application/json"));
        }
        if !extras.is_empty() {
            fields.insert("envelope".into(), Value::Object(extras));
        }
    }
    message.redsyn = Some(told);
    Arrival {
        agent: delivery.agent.clone(),
        address: delivery.mapped.address.clone(),
        id: envelope.id.clone(),
        kind: envelope.kind,
        from: envelope.from.clone(),
        session: delivery.session,
        thread: envelope.thread.clone(),
        reply_to: envelope.reply_to.clone(),
        reply_key: delivery.opened.reply_key,
        error: envelope.error,
        message,
        zip: delivery.opened.zip,
        signer: delivery.signer.map(|(key, _)| key.to_string()),
        expires_at: delivery.expires_at,
        now: delivery.now,
    }
}

/// Remote text is data: from outside nobody does more than read, unless the configuration grants it to that address
/// and a person has confirmed the key. Nothing but the known fields comes in.
fn permit(extras: &mut Map<String, Value>, grant: &Grant, from: &AgentAddress, is_verified: bool) {
    let named = |patterns: &[String]| patterns.iter().any(|pattern| acl::matches(pattern, &from.to_string()));
    let wanted = extras.get("execution_mode").and_then(Value::as_str).and_then(Mode::parse);
    let is_granted = match wanted.unwrap_or_default() {
        Mode::Read => true,
        Mode::Continue => is_verified && (named(&grant.continues) || named(&grant.write)),
        Mode::Write => is_verified && named(&grant.write),
    };
    extras.retain(|name, value| match name.as_str() {
        "context" | "topic" | "session_ref" => value.is_string(),
        "execution_mode" => is_granted && wanted.is_some_and(|mode| mode != Mode::Read),
        "allow_shared_write" => is_granted && wanted == Some(Mode::Write) && value.as_bool() == Some(true),
        _ => false,
    });
}

/// Splits our own reference from the sender's.
fn take_extras(refs: Vec<Value>) -> (Map<String, Value>, Vec<Value>) {
    let is_ours = |reference: &Value| reference.get("url").and_then(Value::as_str) == Some(EXTRAS_URN);
    let (ours, theirs): (Vec<_>, Vec<_>) = refs.into_iter().partition(is_ours);
    let note = ours.first().and_then(|reference| reference.get("note")).and_then(Value::as_str);
    let extras = note.and_then(|note| serde_json::from_str(note).ok()).unwrap_or_default();
    (extras, theirs)
}

/// The additive field `redsyn` of an inbound message. `signed` is the relay's word, `verified` ours.
fn metadata(
    session: &Option<SessionId>,
    signer: &Option<(VerifyingKey, bool)>,
    envelope: &DeliveredEnvelope,
    refs: &[Value],
    zip: Option<&[u8]>,
    encrypted: bool,
) -> Value {
    // Of the bytes that the recipient can fetch: opened, and without a body that was put back.
    let files = zip.map(|zip| json!({"bytes": zip.len(), "sha256": sha256::hex(zip)}));
    json!({
        "address": envelope.from.to_string(),
        "kind": envelope.kind,
        "thread": envelope.thread,
        "session": session.as_ref().map(ToString::to_string),
        "ts": envelope.ts,
        "expires": envelope.expires,
        "attempts": envelope.attempts,
        "topic": envelope.topic,
        "refs": refs,
        "files": files,
        "error": envelope.error,
        "signed": envelope.signed,
        "verified": signer.is_some(),
        "encrypted": encrypted,
        "fingerprint": signer.as_ref().map(|(key, _)| key.fingerprint()),
    })
}

/// The one local reply that tells a sender that its message did not arrive. None for what the bridge
/// itself had said.
pub fn undelivered(
    entry: &OutboxEntry,
    names: &Names,
    code: &str,
    why: &str,
    now: Timestamp,
) -> Option<NewMessage> {
    let local_id = entry.local_id.as_deref()?;
    let from = crate::proto::dsh::names::Party::new(names.called(&entry.remote));
    let mut notice = NewMessage::new(DshId::new(format!("undelivered:{local_id}")), from, &entry.agent, now);
    let parent = JsonText::from(&json!(local_id));
    notice.kind = DshKind::Reply;
    notice.body = JsonText::from(&json!({"error": format!("not delivered: {why}"), "code": code}));
    notice.reply_to = Some(parent.clone());
    notice.parent_id = Some(parent);
    notice.root_id = entry.thread.as_ref().map(|thread| JsonText::from(&json!(thread)));
    notice.redsyn = Some(json!({"error": true, "address": entry.remote.base().to_string()}));
    Some(notice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body: &str) -> NewMessage {
        let mut message = NewMessage::new(
            DshId::new("m1"),
            crate::proto::dsh::names::Party::new("close"),
            crate::proto::dsh::names::Party::new("bob"),
            Timestamp::from_secs(1),
        );
        message.body = JsonText::parse(body).unwrap();
        message
    }

    fn sent(body: &str) -> Body {
        content(&message(body), &Options::default()).unwrap().body
    }

    #[test]
    fn text_alone_is_text_and_everything_else_is_data() {
        assert_eq!(sent(r#"{"text":"hi"}"#), Body::text("hi"));
        for data in [r#"{"text":"hi","n":1}"#, r#"{"text":1}"#, "{}", "[1]", "\"s\"", "null"] {
            assert_eq!(sent(data), Body::json(serde_json::from_str(data).unwrap()), "{data}");
        }
    }

    #[test]
    fn what_left_as_an_object_comes_back_as_it_was() {
        for body in [r#"{"text":"hi"}"#, r#"{"text":"hi","n":1}"#, r#"{"data":[1,2]}"#, "{}"] {
            assert_eq!(inbound(&sent(body)), serde_json::from_str::<Value>(body).unwrap(), "{body}");
        }
        assert_eq!(inbound(&Body::json(json!([1]))), json!({"data": [1]}));
    }

    #[test]
    fn ids_of_another_alphabet_travel_as_their_hash() {
        assert_eq!(travel_id(&DshId::new("a-B_9.:")).unwrap().as_str(), "a-B_9.:");
        for odd in ["", "with space", "ñ", &"x".repeat(129)] {
            let id = travel_id(&DshId::new(odd)).unwrap();
            assert_eq!(id.as_str().len(), 65, "{odd}");
            assert!(id.as_str().starts_with('x'));
        }
    }

    #[test]
    fn what_no_reader_could_take_apart_again_does_not_leave() {
        let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        assert!(content(&message(&nested(DEEPEST - 1)), &Options::default()).is_ok());
        let refused = content(&message(&nested(DEEPEST)), &Options::default());
        assert!(matches!(refused, Err(CannotLeave::NotJson(_))));
        let deep = json!({"url": serde_json::from_str::<Value>(&nested(DEEPEST)).unwrap()});
        let options = Options { refs: vec![deep], ..Options::default() };
        assert!(matches!(content(&message("{}"), &options), Err(CannotLeave::NotJson(_))));
    }

    #[test]
    fn receipts_travel_in_words_of_their_own() {
        let receipt = |body: &str| {
            let mut receipt = message(body);
            receipt.message_type = MessageType::Ack;
            content(&receipt, &Options::default()).unwrap().body
        };
        assert_eq!(receipt(r#"{"status":"ok"}"#), Body::json(json!({"receipt": "ok"})));
        let error = receipt(r#"{"status":"error","error":"no such file"}"#);
        assert_eq!(error, Body::text("the agent reported an error: no such file"));
    }

    #[test]
    fn a_lone_surrogate_cannot_be_signed() {
        let refused = content(&message(r#"{"text":"\ud83e"}"#), &Options::default());
        assert!(matches!(refused, Err(CannotLeave::NotJson(_))));
    }

    #[test]
    fn the_wish_for_a_receipt_survives_two_bridges() {
        let mut wished = message(r#"{"text":"hi"}"#);
        wished.ack = true;
        let options = Options { refs: vec![json!({"url": "https://git.example"})], ..Options::default() };
        let (extras, refs) = take_extras(content(&wished, &options).unwrap().refs);
        assert_eq!(extras.get("ack"), Some(&json!(true)));
        assert_eq!(refs, options.refs);
    }
}
