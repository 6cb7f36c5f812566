//! What a receiver checks of a signed envelope, without trusting the relay (section Firmas): that the signature
//! holds over `sig.payload`, and that the payload says the same as the envelope.
//!
//! A relay completes what the sender left open, so three fields are compared modulo that: `thread` (empty, or in
//! answers, where the request's counts), `to` (a short form, `#new` or no session, nothing in answers, the topic
//! of an event), and the session of `from`.

use serde_json::{Map, Value, json};

use super::address::{
    AddressedAgent, AgentAddress, Destination, Person, Session, ShortAddress, TOPIC_PREFIX,
};
use super::signed::{ALGORITHM, error_flag, files_sha256, given, text};
use crate::crypto::jcs;
use crate::crypto::json::{self, JsonError};
use crate::crypto::key_text::KeyError;
use crate::crypto::sign::{Signature, VerifyingKey};

/// Who signed. Whether the key is the person's is another question: `keys::compare_pin`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signer {
    pub key: VerifyingKey,
    /// As the envelope says, session included.
    pub from: AddressedAgent,
}

impl Signer {
    /// Whom the key is pinned for.
    pub fn person(&self) -> Person {
        self.from.agent.person()
    }
}

/// Why a delivered envelope counts as not signed by anybody.
#[derive(Debug, thiserror::Error)]
pub enum DeliveredError {
    #[error("the envelope is not signed")]
    NotSigned,
    #[error("sig.alg is not ed25519")]
    UnknownAlgorithm,
    #[error("sig.payload is missing")]
    NoPayload,
    #[error("sig.key: {0}")]
    Key(KeyError),
    #[error("sig.value: {0}")]
    Value(KeyError),
    #[error("the signature does not hold")]
    DoesNotHold,
    #[error("sig.payload: {0}")]
    Payload(#[from] JsonError),
    #[error("sig.payload is not an object")]
    PayloadShape,
    /// The named field of the envelope is not what was signed.
    #[error("the signed payload says another {0}")]
    Differs(&'static str),
}

use DeliveredError::Differs;

/// Checks an envelope as it was delivered.
pub fn check_delivered(envelope: &Map<String, Value>) -> Result<Signer, DeliveredError> {
    let sig = envelope.get("sig").and_then(Value::as_object).ok_or(DeliveredError::NotSigned)?;
    // The sender had to name it; a relay need not repeat it.
    if sig.get("alg").is_some_and(|alg| alg != ALGORITHM) {
        return Err(DeliveredError::UnknownAlgorithm);
    }
    let payload = sig.get("payload").and_then(Value::as_str).ok_or(DeliveredError::NoPayload)?;
    let key: VerifyingKey = text(sig, "key").parse().map_err(DeliveredError::Key)?;
    let value = Signature::parse(text(sig, "value")).map_err(DeliveredError::Value)?;
    if !key.verify(payload.as_bytes(), &value) {
        return Err(DeliveredError::DoesNotHold);
    }
    let Value::Object(signed) = json::parse(payload.as_bytes())? else {
        return Err(DeliveredError::PayloadShape);
    };
    check_content(&signed, envelope)?;
    check_thread(&signed, envelope)?;
    let from = check_from(&signed, envelope)?;
    match text(envelope, "kind") {
        "request" => check_to(&signed, envelope, &from.agent)?,
        "event" => check_topic(&signed, envelope, &from.agent)?,
        _ => {}
    }
    Ok(Signer { key, from })
}

/// What nobody completes.
fn check_content(signed: &Map<String, Value>, envelope: &Map<String, Value>) -> Result<(), DeliveredError> {
    for name in ["v", "id", "kind", "ts", "body"] {
        if !jcs::same(signed.get(name).unwrap_or(&Value::Null), envelope.get(name).unwrap_or(&Value::Null)) {
            return Err(Differs(name));
        }
    }
    let none = json!([]);
    if !jcs::same(given(signed, "refs").unwrap_or(&none), given(envelope, "refs").unwrap_or(&none)) {
        return Err(Differs("refs"));
    }
    if optional_text(signed, "reply_to")? != optional_text(envelope, "reply_to")? {
        return Err(Differs("reply_to"));
    }
    match (error_flag(signed), error_flag(envelope)) {
        (Ok(signed), Ok(given)) if signed == given => {}
        _ => return Err(Differs("error")),
    }
    match files_sha256(envelope) {
        Ok(sha256) if sha256 == optional_text(signed, "files_sha256")? => Ok(()),
        _ => Err(Differs("files")),
    }
}

fn check_thread(signed: &Map<String, Value>, envelope: &Map<String, Value>) -> Result<(), DeliveredError> {
    let thread = optional_text(signed, "thread")?;
    let opens = matches!(text(envelope, "kind"), "request" | "event");
    if opens && !thread.is_empty() && thread != text(envelope, "thread") {
        return Err(Differs("thread"));
    }
    Ok(())
}

/// The pin is per person, so this one matters most.
fn check_from(
    signed: &Map<String, Value>,
    envelope: &Map<String, Value>,
) -> Result<AddressedAgent, DeliveredError> {
    let parse = |text: &str| text.parse::<AddressedAgent>().map_err(|_| Differs("from"));
    let (said, given) = (parse(text(signed, "from"))?, parse(text(envelope, "from"))?);
    if said.agent != given.agent || (said.session.is_some() && said.session != given.session) {
        return Err(Differs("from"));
    }
    Ok(given)
}

fn check_to(
    signed: &Map<String, Value>,
    envelope: &Map<String, Value>,
    from: &AgentAddress,
) -> Result<(), DeliveredError> {
    let said = text(signed, "to").parse::<ShortAddress>().map_err(|_| Differs("to"))?.resolve(from);
    let given = text(envelope, "to").parse().map_err(|_| Differs("to"))?;
    let (Destination::Agent(said), Destination::Agent(given)) = (said, given) else {
        return Err(Differs("to"));
    };
    let completed = matches!(said.session, None | Some(Session::New));
    if said.agent != given.agent || (!completed && said.session != given.session) {
        return Err(Differs("to"));
    }
    Ok(())
}

/// The envelope says the topic in `topic`, or else in `to`.
fn check_topic(
    signed: &Map<String, Value>,
    envelope: &Map<String, Value>,
    from: &AgentAddress,
) -> Result<(), DeliveredError> {
    let topic = [text(envelope, "topic"), text(envelope, "to")].into_iter().find(|text| !text.is_empty());
    let topic = topic.ok_or(Differs("to"))?;
    let topic = format!("{TOPIC_PREFIX}{}", topic.strip_prefix(TOPIC_PREFIX).unwrap_or(topic));
    let resolved = |text: &str| match text.parse::<ShortAddress>().map(|address| address.resolve(from)) {
        Ok(Destination::Topic(topic)) => Ok(topic),
        _ => Err(Differs("to")),
    };
    if resolved(text(signed, "to"))? != resolved(&topic)? {
        return Err(Differs("to"));
    }
    Ok(())
}

/// Missing and null are `""`; anything else than a text differs from every text.
fn optional_text<'a>(object: &'a Map<String, Value>, name: &'static str) -> Result<&'a str, DeliveredError> {
    match given(object, name) {
        None => Ok(""),
        Some(value) => value.as_str().ok_or(Differs(name)),
    }
}
