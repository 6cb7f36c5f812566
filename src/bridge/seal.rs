//! Builds what leaves: sealed when there is a key, signed always, anew at each try.

use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::keys::NodeKeys;
use crate::crypto::base64url;
use crate::crypto::enc_key::EncKey;
use crate::crypto::seal::{self, SealSecrets, Sealed};
use crate::crypto::sealed_content::SealedContent;
use crate::domain::clock::Timestamp;
use crate::domain::random::Random;
use crate::proto::redsyn::signed;
use crate::store::bridge::OutboxEntry;

/// How often new secrets are drawn before giving up; one draw fails with a chance of 2^-32.
const DRAWS: usize = 8;

/// The signed envelope of an outbox entry, sealed for `recipient` when there is one.
///
/// # Errors
/// In words, when the entry cannot be sealed or signed: our own defect, since its body has been checked.
pub(super) fn envelope(
    entry: &OutboxEntry,
    zip: Option<&[u8]>,
    recipient: Option<&EncKey>,
    keys: &NodeKeys,
    now: Timestamp,
    relay_now: Timestamp,
    random: &dyn Random,
) -> Result<Map<String, Value>, String> {
    let mut envelope = Map::new();
    envelope.insert("v".into(), json!(1));
    envelope.insert("id".into(), json!(entry.id));
    envelope.insert("kind".into(), json!(entry.kind));
    envelope.insert("from".into(), json!(entry.from.to_string()));
    if !entry.kind.is_answer() {
        envelope.insert("to".into(), json!(entry.remote.to_string()));
    }
    if let Some(thread) = &entry.thread {
        envelope.insert("thread".into(), json!(thread));
    }
    if let Some(reply_to) = &entry.reply_to {
        envelope.insert("reply_to".into(), json!(reply_to));
    }
    envelope.insert("ts".into(), json!(relay_now.secs()));
    if entry.ttl.is_some() {
        // What is left of the time that the sender gave: some of it may have passed in the outbox.
        let left = entry.expires_at.since(now).as_millis().div_ceil(1000).max(1);
        envelope.insert("ttl".into(), json!(u64::try_from(left).unwrap_or(u64::MAX)));
    }
    let sealed = recipient.map(|recipient| sealed(entry, zip, recipient, keys, random)).transpose()?;
    let (body, refs, zip) = match &sealed {
        Some(sealed) => (sealed.enc.to_body(), Vec::new(), sealed.zip.as_deref()),
        None => (entry.content.body.as_value().clone(), entry.content.refs.clone(), zip),
    };
    if let Some(zip) = zip {
        envelope.insert("files".into(), json!({"zip": base64url::zip_encode(zip)}));
    }
    envelope.insert("body".into(), body);
    envelope.insert("refs".into(), Value::Array(refs));
    if entry.error {
        envelope.insert("error".into(), json!(true));
    }
    signed::sign(&mut envelope, &keys.signing).map_err(|error| error.to_string())?;
    Ok(envelope)
}

fn sealed(
    entry: &OutboxEntry,
    zip: Option<&[u8]>,
    recipient: &EncKey,
    keys: &NodeKeys,
    random: &dyn Random,
) -> Result<Sealed, String> {
    let content = SealedContent {
        body: entry.content.body.as_value().clone(),
        refs: entry.content.refs.clone(),
        reply_key: keys.enc.enc_key().to_string(),
    };
    let plaintext = Zeroizing::new(content.to_bytes().map_err(|error| error.to_string())?);
    let mut last = String::new();
    for _ in 0..DRAWS {
        let secrets =
            SealSecrets { ephemeral: random.bytes(), nonce: random.bytes(), files_nonce: random.bytes() };
        match seal::seal(recipient, &secrets, entry.id.as_str(), entry.kind.as_str(), &plaintext, zip) {
            Ok(sealed) => return Ok(sealed),
            Err(error) => last = error.to_string(),
        }
    }
    Err(last)
}
