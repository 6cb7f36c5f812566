//! The envelope as it is sent to a relay and as a relay delivers it (spec, «El sobre»). Parsing only: whether
//! a signature holds is `signed`'s to say.

use serde_json::{Map, Value};

use super::address::AddressedAgent;
use super::body::{Body, BodyError};
use super::ids::{FILES_LIMIT, Kind, MessageId};
use crate::crypto::base64url;

/// Why an envelope is refused. The text is for whoever sent it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    #[error("v must be 1")]
    Version,
    #[error("{0}")]
    Shape(String),
    #[error("{0}")]
    TooLarge(String),
}

impl From<BodyError> for EnvelopeError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge => Self::TooLarge(error.to_string()),
            other => Self::Shape(other.to_string()),
        }
    }
}

fn shape(text: impl Into<String>) -> EnvelopeError {
    EnvelopeError::Shape(text.into())
}

/// An envelope as it arrives at `POST /messages`. `to` stays as written: the signature covers it so (A16).
#[derive(Clone, Debug)]
pub struct SentEnvelope {
    pub id: Option<MessageId>,
    pub kind: Kind,
    pub from: AddressedAgent,
    pub to: Option<String>,
    pub thread: Option<String>,
    pub reply_to: Option<MessageId>,
    /// Unix seconds.
    pub ts: Option<i64>,
    /// Seconds.
    pub ttl: Option<u64>,
    pub body: Body,
    pub refs: Vec<Value>,
    /// The bytes of `files.zip`; sealed when the body is.
    pub zip: Option<Vec<u8>>,
    pub error: bool,
    /// `sig` as it arrived, unchecked.
    pub sig: Option<Value>,
    raw: Map<String, Value>,
}

impl SentEnvelope {
    /// # Errors
    /// The first thing wrong with the shape, in words for the sender.
    pub fn parse(value: Value) -> Result<Self, EnvelopeError> {
        let Value::Object(raw) = value else { return Err(shape("the body must be a JSON object")) };
        check_version(&raw)?;
        let kind = kind(&raw)?;
        let body = Body::parse(raw.get("body").cloned().unwrap_or(Value::Null))?;
        body.check_size()?;
        let reply_to = optional_id(&raw, "reply_to")?;
        let to = optional_text(&raw, "to")?;
        if kind.is_answer() && reply_to.is_none() {
            return Err(shape(format!("a {kind} needs reply_to")));
        }
        if !kind.is_answer() && to.is_none() {
            return Err(shape(format!("a {kind} needs to")));
        }
        Ok(Self {
            id: optional_id(&raw, "id")?,
            kind,
            from: from(&raw)?,
            to,
            thread: optional_text(&raw, "thread")?,
            reply_to,
            ts: optional_int(&raw, "ts")?,
            ttl: ttl(&raw)?,
            body,
            refs: refs(&raw)?,
            zip: zip(&raw)?,
            error: error_flag(&raw)?,
            sig: raw.get("sig").filter(|sig| !sig.is_null()).cloned(),
            raw,
        })
    }

    /// The JSON that arrived, for the signature check.
    pub fn raw(&self) -> &Map<String, Value> {
        &self.raw
    }
}

/// The files of a delivered envelope: how many bytes, and the hex SHA-256 of the zip as it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesInfo {
    pub bytes: u64,
    pub sha256: String,
}

/// An envelope as a relay delivers it. Nothing in it is proven yet.
#[derive(Clone, Debug)]
pub struct DeliveredEnvelope {
    pub id: MessageId,
    pub kind: Kind,
    pub from: AddressedAgent,
    pub to: String,
    pub thread: Option<String>,
    pub reply_to: Option<MessageId>,
    /// Unix seconds.
    pub ts: i64,
    pub body: Body,
    pub refs: Vec<Value>,
    pub files: Option<FilesInfo>,
    pub error: bool,
    /// Unix seconds, by the relay's clock.
    pub expires: Option<i64>,
    pub attempts: u64,
    pub topic: Option<String>,
    /// The relay's word, not ours.
    pub signed: bool,
    raw: Map<String, Value>,
}

impl DeliveredEnvelope {
    /// # Errors
    /// When the relay delivered something that is no envelope.
    pub fn parse(value: Value) -> Result<Self, EnvelopeError> {
        let Value::Object(raw) = value else { return Err(shape("the envelope is not a JSON object")) };
        check_version(&raw)?;
        Ok(Self {
            id: optional_id(&raw, "id")?.ok_or_else(|| shape("id is missing"))?,
            kind: kind(&raw)?,
            from: from(&raw)?,
            to: optional_text(&raw, "to")?.unwrap_or_default(),
            thread: optional_text(&raw, "thread")?,
            reply_to: optional_id(&raw, "reply_to")?,
            ts: optional_int(&raw, "ts")?.unwrap_or_default(),
            body: Body::parse(raw.get("body").cloned().unwrap_or(Value::Null))?,
            refs: refs(&raw)?,
            files: files_info(&raw)?,
            error: error_flag(&raw)?,
            // Some relays write the expiry as ISO text; without a number it is simply not known.
            expires: raw.get("expires").and_then(whole),
            attempts: raw.get("attempts").and_then(Value::as_u64).unwrap_or(1),
            topic: optional_text(&raw, "topic")?,
            signed: raw.get("signed").and_then(Value::as_bool).unwrap_or(false),
            raw,
        })
    }

    /// The JSON that was delivered, for the signature check.
    pub fn raw(&self) -> &Map<String, Value> {
        &self.raw
    }

    pub fn has_signature(&self) -> bool {
        self.raw.get("sig").is_some_and(|sig| !sig.is_null())
    }
}

fn check_version(raw: &Map<String, Value>) -> Result<(), EnvelopeError> {
    match raw.get("v") {
        Some(v) if v.as_f64() == Some(1.0) => Ok(()),
        _ => Err(EnvelopeError::Version),
    }
}

fn kind(raw: &Map<String, Value>) -> Result<Kind, EnvelopeError> {
    let text = raw.get("kind").and_then(Value::as_str).unwrap_or_default();
    text.parse().map_err(|error: super::ids::KindError| shape(error.to_string()))
}

fn from(raw: &Map<String, Value>) -> Result<AddressedAgent, EnvelopeError> {
    let text = raw.get("from").and_then(Value::as_str).unwrap_or_default();
    text.parse().map_err(|_| shape("from must be the full address of one of your agents"))
}

/// A text field; null and the empty text count as missing (A5).
fn optional_text(raw: &Map<String, Value>, name: &str) -> Result<Option<String>, EnvelopeError> {
    match raw.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(shape(format!("{name} must be a text"))),
    }
}

fn optional_id(raw: &Map<String, Value>, name: &str) -> Result<Option<MessageId>, EnvelopeError> {
    optional_text(raw, name)?
        .map(|text| {
            MessageId::try_from(text).map_err(|_| shape(format!("{name} must have 1 to 200 characters")))
        })
        .transpose()
}

/// A whole number, also when written as `1790000000.0`: JSON knows no integers.
fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let float = value.as_f64()?;
        // 2^53: every whole double below it is an exact i64.
        (float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0).then_some(float as i64)
    })
}

fn optional_int(raw: &Map<String, Value>, name: &str) -> Result<Option<i64>, EnvelopeError> {
    match raw.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => whole(value).map(Some).ok_or_else(|| shape(format!("{name} must be whole seconds"))),
    }
}

fn ttl(raw: &Map<String, Value>) -> Result<Option<u64>, EnvelopeError> {
    match optional_int(raw, "ttl")? {
        None => Ok(None),
        Some(secs) => match u64::try_from(secs) {
            Ok(secs) if secs > 0 => Ok(Some(secs)),
            _ => Err(shape("ttl must be positive")),
        },
    }
}

fn refs(raw: &Map<String, Value>) -> Result<Vec<Value>, EnvelopeError> {
    match raw.get("refs") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) if items.iter().all(Value::is_object) => Ok(items.clone()),
        Some(_) => Err(shape("refs must be a list of objects")),
    }
}

fn error_flag(raw: &Map<String, Value>) -> Result<bool, EnvelopeError> {
    match raw.get("error") {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(shape("error must be true or false")),
    }
}

fn zip(raw: &Map<String, Value>) -> Result<Option<Vec<u8>>, EnvelopeError> {
    let Some(files) = raw.get("files").filter(|files| !files.is_null()) else { return Ok(None) };
    let text =
        files.get("zip").and_then(Value::as_str).ok_or_else(|| shape("files must be {\"zip\": base64}"))?;
    let bytes = base64url::zip_decode(text).map_err(|_| shape("files.zip is not base64"))?;
    if bytes.len() > FILES_LIMIT {
        return Err(EnvelopeError::TooLarge("files are over 5 MB".into()));
    }
    Ok(Some(bytes))
}

fn files_info(raw: &Map<String, Value>) -> Result<Option<FilesInfo>, EnvelopeError> {
    let Some(files) = raw.get("files").filter(|files| !files.is_null()) else { return Ok(None) };
    let bytes = files.get("bytes").and_then(Value::as_u64);
    let sha256 = files.get("sha256").and_then(Value::as_str);
    match (bytes, sha256) {
        (Some(bytes), Some(sha256)) => Ok(Some(FilesInfo { bytes, sha256: sha256.to_owned() })),
        _ => Err(shape("files must say bytes and sha256")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request() -> Value {
        json!({"v": 1, "id": "m1", "kind": "request", "from": "acme/finance/ana/close", "to": "bob/billing",
               "body": {"type": "text/plain", "text": "hi"}})
    }

    fn with(field: &str, value: Value) -> Value {
        let mut envelope = request();
        envelope[field] = value;
        envelope
    }

    #[test]
    fn null_and_missing_text_fields_are_the_same() {
        let envelope = SentEnvelope::parse(with("thread", Value::Null)).unwrap();
        assert_eq!(envelope.thread, None);
        assert_eq!(SentEnvelope::parse(with("thread", json!(""))).unwrap().thread, None);
    }

    #[test]
    fn each_wrong_field_is_named() {
        let wrong = [
            ("kind", json!("Request")),
            ("id", json!("x".repeat(201))),
            ("from", json!("close")),
            ("to", json!(5)),
            ("ts", json!(1.5)),
            ("ttl", json!(0)),
            ("body", json!({"type": "text/plain"})),
            ("refs", json!(["text"])),
            ("files", json!({"zip": "not base64!"})),
            ("error", json!(1)),
        ];
        for (field, value) in wrong {
            let error = SentEnvelope::parse(with(field, value)).unwrap_err();
            assert!(matches!(&error, EnvelopeError::Shape(text) if text.contains(field)), "{field}: {error}");
        }
        assert_eq!(SentEnvelope::parse(with("v", json!(true))).unwrap_err(), EnvelopeError::Version);
        assert_eq!(SentEnvelope::parse(with("v", Value::Null)).unwrap_err(), EnvelopeError::Version);
    }

    #[test]
    fn an_answer_needs_reply_to_and_no_to() {
        let mut reply = with("kind", json!("reply"));
        assert!(SentEnvelope::parse(reply.clone()).is_err());
        reply["reply_to"] = json!("m0");
        reply["to"] = Value::Null;
        assert!(SentEnvelope::parse(reply).is_ok());
    }

    #[test]
    fn five_megabytes_of_zip_pass_and_one_byte_more_does_not() {
        let zip = |bytes: usize| json!({"zip": base64url::zip_encode(&vec![0; bytes])});
        assert!(SentEnvelope::parse(with("files", zip(FILES_LIMIT))).is_ok());
        assert!(matches!(
            SentEnvelope::parse(with("files", zip(FILES_LIMIT + 1))),
            Err(EnvelopeError::TooLarge(_))
        ));
    }
}
