//! What the signature of an envelope covers (section Firmas), signing it, and the relay's check on arrival.
//! Works on the envelope as JSON, because a signature covers what was sent and not what somebody understood of it.
//! The receiver's check is in `delivered`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::crypto::base64url::{self, Base64Error};
use crate::crypto::jcs::{self, JcsError};
use crate::crypto::key_text::KeyError;
use crate::crypto::sha256;
use crate::crypto::sign::{Signature, SigningKey, VerifyingKey};

pub use super::delivered::{DeliveredError, Signer, check_delivered};

/// How far `ts` may be from the relay's clock, in seconds; exactly this far still counts.
pub const WINDOW_SECS: u32 = 600;
pub const ALGORITHM: &str = "ed25519";

/// The text fields that a signature covers; missing or null ones are `""`.
const TEXT_FIELDS: [&str; 6] = ["id", "kind", "from", "to", "thread", "reply_to"];

/// Why an envelope has no payload to sign.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    #[error("a signed envelope needs {0}")]
    Missing(&'static str),
    #[error("{0} has another type than it should")]
    Type(&'static str),
    #[error("files.zip: {0}")]
    Zip(#[from] Base64Error),
    #[error(transparent)]
    Canonical(#[from] JcsError),
}

/// Why the relay answers 401 to a signed envelope.
#[derive(Debug, thiserror::Error)]
pub enum ArrivalError {
    #[error("sig is missing or not an object")]
    NoSignature,
    #[error("sig.alg is not ed25519")]
    UnknownAlgorithm,
    #[error("this node has registered no key")]
    NoRegisteredKey,
    #[error("sig.key: {0}")]
    Key(KeyError),
    #[error("sig.value: {0}")]
    Value(KeyError),
    #[error("sig.key is not the key that this node registered")]
    OtherKey,
    #[error("ts is more than ten minutes away from the relay's clock")]
    TooFar,
    #[error(transparent)]
    Sign(#[from] SignError),
    #[error("the signature does not cover what arrived")]
    DoesNotCover,
}

/// The exact text that was signed, as it goes into `sig.payload`. Does not print: it holds the body.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload(String);

impl Payload {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Payload({} bytes)", self.0.len())
    }
}

/// Whether the envelope carries a `sig` to check.
pub fn is_signed(envelope: &Map<String, Value>) -> bool {
    given(envelope, "sig").is_some()
}

/// The canonical JSON (UTF-8) that the signature of `envelope` covers. `ts` and `body` are required; `refs`,
/// `error` and `v` are always in it; of the files only the hash of the zip as it travels.
pub fn signing_payload(envelope: &Map<String, Value>) -> Result<Vec<u8>, SignError> {
    let required = |name| given(envelope, name).ok_or(SignError::Missing(name));
    let (ts, body) = (required("ts")?, required("body")?);
    let (version, nothing, none) = (json!(1), json!(""), json!([]));
    let (files, error) = (Value::String(files_sha256(envelope)?), Value::Bool(error_flag(envelope)?));
    let mut fields: BTreeMap<_, _> =
        TEXT_FIELDS.into_iter().map(|name| (name, given(envelope, name).unwrap_or(&nothing))).collect();
    fields.extend([
        ("v", envelope.get("v").unwrap_or(&version)),
        ("ts", ts),
        ("body", body),
        ("refs", given(envelope, "refs").unwrap_or(&none)),
        ("files_sha256", &files),
        ("error", &error),
    ]);
    Ok(jcs::canonical(&fields)?)
}

/// Puts `sig` into the envelope, over everything that is in it now; an older `sig` is replaced.
pub fn sign(envelope: &mut Map<String, Value>, key: &SigningKey) -> Result<(), SignError> {
    let value = key.sign(&signing_payload(envelope)?).to_text();
    let sig = json!({"alg": ALGORITHM, "key": key.verifying_key().to_string(), "value": value});
    envelope.insert("sig".to_owned(), sig);
    Ok(())
}

/// What the relay checks of `sig` when an envelope arrives at `now_secs` (Unix seconds) from a node that
/// registered `registered`. Gives the payload to deliver beside the signature.
pub fn check_arrival(
    envelope: &Map<String, Value>,
    registered: Option<&VerifyingKey>,
    now_secs: i64,
) -> Result<Payload, ArrivalError> {
    let sig = envelope.get("sig").and_then(Value::as_object).ok_or(ArrivalError::NoSignature)?;
    if sig.get("alg").and_then(Value::as_str) != Some(ALGORITHM) {
        return Err(ArrivalError::UnknownAlgorithm);
    }
    let registered = registered.ok_or(ArrivalError::NoRegisteredKey)?;
    let key: VerifyingKey = text(sig, "key").parse().map_err(ArrivalError::Key)?;
    let value = Signature::parse(text(sig, "value")).map_err(ArrivalError::Value)?;
    if key != *registered {
        return Err(ArrivalError::OtherKey);
    }
    let ts = given(envelope, "ts").ok_or(SignError::Missing("ts"))?;
    let ts = ts.as_f64().ok_or(SignError::Type("ts"))?;
    // Exact: Unix seconds are far below 2^53.
    if (now_secs as f64 - ts).abs() > f64::from(WINDOW_SECS) {
        return Err(ArrivalError::TooFar);
    }
    let payload = signing_payload(envelope)?;
    if !key.verify(&payload, &value) {
        return Err(ArrivalError::DoesNotCover);
    }
    String::from_utf8(payload).map(Payload).map_err(|_| ArrivalError::DoesNotCover)
}

/// Lower-case hex of the zip's bytes as they travel (sealed, if the message is), or `""` without files. A
/// delivered envelope says it itself.
pub(super) fn files_sha256(envelope: &Map<String, Value>) -> Result<String, SignError> {
    let Some(files) = given(envelope, "files") else { return Ok(String::new()) };
    let files = files.as_object().ok_or(SignError::Type("files"))?;
    match (given(files, "zip"), given(files, "sha256")) {
        (Some(zip), _) => {
            let zip = zip.as_str().ok_or(SignError::Type("files.zip"))?;
            Ok(sha256::hex(&base64url::zip_decode(zip)?))
        }
        (None, Some(sha256)) => Ok(sha256.as_str().ok_or(SignError::Type("files.sha256"))?.to_owned()),
        (None, None) => Ok(String::new()),
    }
}

pub(super) fn error_flag(envelope: &Map<String, Value>) -> Result<bool, SignError> {
    match given(envelope, "error") {
        None => Ok(false),
        Some(flag) => flag.as_bool().ok_or(SignError::Type("error")),
    }
}

/// A member that is there and not null.
pub(super) fn given<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    object.get(name).filter(|value| !value.is_null())
}

/// A text member; missing, null and other types are `""`.
pub(super) fn text<'a>(object: &'a Map<String, Value>, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
#[path = "signed_tests.rs"]
mod tests;
