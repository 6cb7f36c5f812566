//! A message of the second generation in the Node broker's files: a row of `relay_v2_messages`, or a line
//! `{"message"}` with the same fields. Times are Unix seconds with a fraction.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use serde::de::{Deserializer as _, Visitor};
use serde::{Deserialize, Serialize};

use super::{Read, lines};
use crate::proto::dsh::json::{JsonText, Members};
use crate::store::StoreError;

/// The field names are those of the wire, of the columns and of the lines.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct V2Message {
    pub message_id: String,
    pub root_id: String,
    pub parent_id: Option<String>,
    pub origin: String,
    pub target: String,
    pub kind: String,
    pub body: String,
    pub session_ref: String,
    pub execution_mode: String,
    pub allow_shared_write: bool,
    pub context: String,
    pub topic: String,
    /// Unique among the messages of its origin.
    pub idempotency_key: String,
    pub created_at: f64,
    pub expires_at: f64,
    pub status: V2Status,
    pub attempts: u32,
    pub lease_until: Option<f64>,
    pub lease_token: Option<String>,
    pub last_error: Option<String>,
    pub completed_at: Option<f64>,
    pub notified_at: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum V2Status {
    Queued,
    Leased,
    Completed,
    Failed,
    Expired,
}

impl V2Status {
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Queued, Self::Leased, Self::Completed, Self::Failed, Self::Expired]
            .into_iter()
            .find(|known| known.as_str() == word)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Leased => "leased",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Expired => "expired",
        }
    }
}

/// The messages of a `relay-v2.jsonl`, in the order in which they were first written; `None` when there is no such
/// file.
///
/// # Errors
/// When the file cannot be read to its end.
pub fn read_lines(path: &Path) -> Result<Option<Read<V2Message>>, StoreError> {
    let read = lines::read(path, |line| {
        let line = Members::parse(line).ok().flatten().ok_or("no JSON object")?;
        parse(line.get("message").ok_or("no message")?.as_json())
    })?;
    Ok(read.map(|Read { found: lines, broken }| {
        let mut found: Vec<V2Message> = Vec::with_capacity(lines.len());
        let mut places: HashMap<String, usize> = HashMap::new();
        for message in lines {
            let place = *places.entry(message.message_id.clone()).or_insert(found.len());
            match found.get_mut(place) {
                Some(earlier) => *earlier = message,
                None => found.push(message),
            }
        }
        Read { found, broken }
    }))
}

/// The message of a line.
///
/// # Errors
/// What is wrong with it, without showing any of it.
pub fn parse(json: &str) -> Result<V2Message, &'static str> {
    let fields = Members::parse(json).ok().flatten().ok_or("the message is no JSON object")?;
    let optional = |name: &str| fields.given(name).and_then(text);
    let or_blank = |name: &str| optional(name).unwrap_or_default();
    // A database has no truth but numbers.
    let flag = |name: &str| fields.get(name).is_some_and(|flag| matches!(flag.as_json(), "true" | "1"));
    let number = |name: &str| fields.given(name).and_then(|number| number.as_json().parse::<f64>().ok());
    let message_id = optional("message_id").filter(|id| !id.is_empty()).ok_or("no message_id")?;
    Ok(V2Message {
        root_id: or_blank("root_id"),
        parent_id: optional("parent_id"),
        origin: optional("origin").ok_or("no origin")?,
        target: optional("target").ok_or("no target")?,
        kind: optional("kind").ok_or("no kind")?,
        body: or_blank("body"),
        session_ref: or_blank("session_ref"),
        execution_mode: optional("execution_mode").unwrap_or_else(|| "read".into()),
        allow_shared_write: flag("allow_shared_write"),
        context: or_blank("context"),
        topic: or_blank("topic"),
        // Without a key nothing can be sent twice: the message's own id is one that nobody else has.
        idempotency_key: optional("idempotency_key").unwrap_or_else(|| message_id.clone()),
        created_at: number("created_at").ok_or("no created_at")?,
        expires_at: number("expires_at").ok_or("no expires_at")?,
        status: optional("status").as_deref().and_then(V2Status::parse).ok_or("unknown status")?,
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "fractions and signs mean nothing here, and the cast saturates"
        )]
        attempts: number("attempts").unwrap_or_default() as u32,
        lease_until: number("lease_until"),
        lease_token: optional("lease_token"),
        last_error: optional("last_error"),
        completed_at: number("completed_at"),
        notified_at: number("notified_at"),
        message_id,
    })
}

/// A text; what JavaScript cut inside a letter is replaced, as the Node broker's own database does.
fn text(json: &JsonText) -> Option<String> {
    json.as_text().or_else(|| {
        let mut value = serde_json::Deserializer::from_str(json.as_json());
        value.deserialize_bytes(Lossy).ok()
    })
}

struct Lossy;

impl Visitor<'_> for Lossy {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<String, E> {
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// A line of `relay-v2.jsonl`.
#[derive(Debug, Serialize)]
pub struct Line<'a> {
    pub message: &'a V2Message,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(id: &str) -> serde_json::Value {
        json!({
            "message_id": id, "root_id": "r", "parent_id": null, "origin": "alpha", "target": "beta",
            "kind": "request", "body": "ask", "session_ref": "s", "execution_mode": "write",
            "allow_shared_write": true, "context": "c", "topic": "t", "idempotency_key": "k",
            "created_at": 1_712_345_678.25, "expires_at": 1_712_349_278.25, "status": "leased", "attempts": 2,
            "lease_until": 1_712_346_278.5, "lease_token": "x", "last_error": "again", "completed_at": null,
            "notified_at": null
        })
    }

    #[test]
    fn a_line_is_read_and_written_back_as_it_was() {
        let parsed = parse(&message("m").to_string()).unwrap();
        let line = serde_json::to_value(Line { message: &parsed }).unwrap();
        assert_eq!(line, json!({"message": message("m")}));
    }

    #[test]
    fn a_line_from_before_version_3_gets_what_it_lacks() {
        let mut old = message("m");
        for field in ["lease_token", "allow_shared_write", "idempotency_key", "context", "execution_mode"] {
            old.as_object_mut().unwrap().remove(field);
        }
        let parsed = parse(&old.to_string()).unwrap();
        assert_eq!((parsed.lease_token, parsed.allow_shared_write), (None, false));
        assert_eq!((parsed.idempotency_key.as_str(), parsed.execution_mode.as_str()), ("m", "read"));
    }

    #[test]
    fn a_cut_emoji_does_not_lose_the_message() {
        let cut = message("m").to_string().replace("\"ask\"", r#""ask \ud83e""#);
        assert!(parse(&cut).unwrap().body.starts_with("ask \u{fffd}"));
    }

    #[test]
    fn what_makes_no_message_is_told_apart() {
        for (field, why) in [
            ("message_id", "no message_id"),
            ("origin", "no origin"),
            ("target", "no target"),
            ("kind", "no kind"),
            ("created_at", "no created_at"),
            ("expires_at", "no expires_at"),
            ("status", "unknown status"),
        ] {
            let mut broken = message("m");
            broken.as_object_mut().unwrap().remove(field);
            assert_eq!(parse(&broken.to_string()).unwrap_err(), why);
        }
    }

    #[test]
    fn of_an_id_the_last_line_counts_in_its_first_place() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("relay-v2.jsonl");
        let mut done = message("one");
        done["status"] = json!("completed");
        let lines =
            [message("one"), message("two"), done].map(|message| json!({ "message": message }).to_string());
        std::fs::write(&file, format!("{}\nnonsense\n", lines.join("\n"))).unwrap();
        let read = read_lines(&file).unwrap().unwrap();
        let found: Vec<_> =
            read.found.iter().map(|found| (found.message_id.as_str(), found.status)).collect();
        assert_eq!(found, [("one", V2Status::Completed), ("two", V2Status::Leased)]);
        assert_eq!(read.broken.len(), 1);
    }
}
