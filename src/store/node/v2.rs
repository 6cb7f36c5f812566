//! A message of the second generation in the Node broker's files: a row of `relay_v2_messages`, or a line
//! `{"message"}` with the same fields. Times are Unix seconds with a fraction.

use std::path::Path;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::v1::NO_TOKEN;
use super::{Messages, lines};
use crate::domain::clock::Timestamp;
use crate::domain::delivery::{Lease, LeaseId};
use crate::domain::v2::delivery::{Delivery, State, Status};
use crate::proto::dsh::json::{JsonText, Members, mended};
use crate::proto::dsh::names::DshId;
use crate::proto::dsh::v2::message::{Kind, Mode};
use crate::proto::dsh::v2::name::Name;
use crate::store::StoreError;
use crate::store::local::Stages;
use crate::store::v2::{NewMessage, StoredMessage};

/// The messages of a `relay-v2.jsonl`, in the order in which they were first written; `None` when there is no such
/// file.
///
/// # Errors
/// When the file cannot be read to its end; `Stopped` once `stop` is cancelled.
pub fn read_lines(
    path: &Path,
    stop: &CancellationToken,
) -> Result<Option<Messages<StoredMessage>>, StoreError> {
    lines::read(path, stop, false, |line| {
        let line = Members::parse(line).ok().flatten().ok_or("no JSON object")?;
        let message = parse(line.get("message").ok_or("no message")?.as_json())?;
        Ok((message.message.id.as_str().to_owned(), message))
    })
}

/// The message of a line, or of a row as a JSON object. Its `seq` is 0.
///
/// # Errors
/// What is wrong with it, without showing any of it.
pub fn parse(json: &str) -> Result<StoredMessage, &'static str> {
    let fields = Members::parse(json).ok().flatten().ok_or("the message is no JSON object")?;
    let optional = |name: &str| fields.given(name).and_then(text);
    let or_blank = |name: &str| optional(name).unwrap_or_default();
    // A database has no truth but numbers.
    let flag = |name: &str| fields.get(name).is_some_and(|flag| matches!(flag.as_json(), "true" | "1"));
    let id = optional("message_id").filter(|id| !id.is_empty()).ok_or("no message_id")?;
    let target = Name::of(&optional("target").ok_or("no target")?);
    let expires_at = time(&fields, "expires_at").ok_or("no expires_at")?;
    let message = NewMessage {
        id: DshId::new(id.clone()),
        root_id: or_blank("root_id"),
        parent_id: optional("parent_id"),
        origin: Name::of(&optional("origin").ok_or("no origin")?),
        target: target.clone(),
        kind: Kind::parse(&optional("kind").ok_or("no kind")?).ok_or("unknown kind")?,
        body: or_blank("body"),
        session_ref: or_blank("session_ref"),
        mode: Mode::parse(&or_blank("execution_mode")).unwrap_or_default(),
        context: or_blank("context"),
        topic: or_blank("topic"),
        allow_shared_write: flag("allow_shared_write"),
        // Without a key nothing can be sent twice: the message's own id is one that nobody else has.
        idempotency_key: optional("idempotency_key").unwrap_or(id),
        created_at: time(&fields, "created_at").ok_or("no created_at")?,
        expires_at,
    };
    Ok(StoredMessage {
        seq: 0,
        inbox: Some(target),
        message,
        delivery: delivery(&fields, expires_at)?,
        is_notified: time(&fields, "notified_at").is_some(),
        stages: Stages::default(),
        redsyn: None,
    })
}

fn delivery(fields: &Members, expires_at: Timestamp) -> Result<Delivery, &'static str> {
    let text = |name: &str| fields.given(name).and_then(text);
    let state = match text("status").as_deref().and_then(Status::parse).ok_or("unknown status")? {
        Status::Queued => State::Queued,
        Status::Leased => State::Leased(Lease {
            // Version 2 gave none, and asks for none.
            id: LeaseId::new(text("lease_token").unwrap_or_else(|| NO_TOKEN.to_owned())),
            // A lease without an end is over: better twice than never.
            until: time(fields, "lease_until").unwrap_or_default(),
        }),
        Status::Completed => State::Completed,
        Status::Failed => State::Failed,
        Status::Expired => State::Expired,
    };
    let attempts = fields.given("attempts").and_then(|attempts| attempts.as_json().parse().ok());
    Ok(Delivery {
        state,
        attempts: attempts.unwrap_or_default(),
        expires_at,
        last_error: text("last_error").unwrap_or_default(),
        completed_at: time(fields, "completed_at"),
    })
}

/// A text; half an emoji is replaced, as the Node broker's own database does.
fn text(json: &JsonText) -> Option<String> {
    json.as_text().or_else(|| serde_json::from_str(&mended(json.as_json())).ok())
}

fn time(fields: &Members, name: &str) -> Option<Timestamp> {
    let seconds: f64 = fields.given(name)?.as_json().parse().ok()?;
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
    Some(Timestamp::from_millis((seconds * 1000.0).round() as i64))
}

/// A message as the Node broker writes it. The field names are those of the columns and of the lines.
#[derive(Debug, Serialize)]
pub struct Payload<'a> {
    pub message_id: &'a DshId,
    pub root_id: &'a str,
    pub parent_id: Option<&'a str>,
    pub origin: &'a Name,
    pub target: &'a Name,
    pub kind: &'static str,
    pub body: &'a str,
    pub session_ref: &'a str,
    pub execution_mode: &'static str,
    pub allow_shared_write: bool,
    pub context: &'a str,
    pub topic: &'a str,
    pub idempotency_key: &'a str,
    pub created_at: f64,
    pub expires_at: f64,
    pub status: &'static str,
    pub attempts: u32,
    pub lease_until: Option<f64>,
    pub lease_token: Option<&'a str>,
    pub last_error: Option<&'a str>,
    pub completed_at: Option<f64>,
    pub notified_at: Option<f64>,
}

impl<'a> Payload<'a> {
    pub fn of(stored: &'a StoredMessage) -> Self {
        let StoredMessage { message, delivery, is_notified, .. } = stored;
        let lease = match &delivery.state {
            State::Leased(lease) => Some(lease),
            State::Queued | State::LeasedElsewhere | State::Completed | State::Failed | State::Expired => {
                None
            }
        };
        // When the sender was told is not kept; only that it was means anything.
        let ended = delivery.completed_at.unwrap_or(message.created_at);
        Self {
            message_id: &message.id,
            root_id: &message.root_id,
            parent_id: message.parent_id.as_deref(),
            origin: &message.origin,
            target: &message.target,
            kind: message.kind.as_str(),
            body: &message.body,
            session_ref: &message.session_ref,
            execution_mode: message.mode.as_str(),
            allow_shared_write: message.allow_shared_write,
            context: &message.context,
            topic: &message.topic,
            idempotency_key: &message.idempotency_key,
            created_at: seconds(message.created_at),
            // A message carries its end twice; that of its delivery is the one that counts.
            expires_at: seconds(delivery.expires_at),
            status: delivery.status().as_str(),
            attempts: delivery.attempts,
            lease_until: lease.map(|lease| seconds(lease.until)),
            lease_token: lease.map(|lease| lease.id.as_str()),
            last_error: Some(delivery.last_error.as_str()).filter(|error| !error.is_empty()),
            completed_at: delivery.completed_at.map(seconds),
            notified_at: is_notified.then(|| seconds(ended)),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds of this age fit")]
fn seconds(time: Timestamp) -> f64 {
    time.millis() as f64 / 1000.0
}

/// A line of `relay-v2.jsonl`.
#[derive(Debug, Serialize)]
pub struct Line<'a> {
    pub message: Payload<'a>,
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
            "lease_until": 1_712_346_278.5, "lease_token": "x", "last_error": "again", "completed_at": 1_712_345_700.5,
            "notified_at": 1_712_345_700.5
        })
    }

    #[test]
    fn a_line_is_read_and_written_back_as_it_was() {
        let parsed = parse(&message("m").to_string()).unwrap();
        let line = serde_json::to_value(Line { message: Payload::of(&parsed) }).unwrap();
        assert_eq!(line, json!({"message": message("m")}));
    }

    #[test]
    fn a_line_from_before_version_3_gets_what_it_lacks() {
        let mut old = message("m");
        for field in ["lease_token", "allow_shared_write", "idempotency_key", "context", "execution_mode"] {
            old.as_object_mut().unwrap().remove(field);
        }
        let parsed = parse(&old.to_string()).unwrap();
        let State::Leased(lease) = &parsed.delivery.state else { panic!("not leased") };
        assert_eq!((lease.id.as_str(), parsed.message.allow_shared_write), (NO_TOKEN, false));
        assert_eq!((parsed.message.idempotency_key.as_str(), parsed.message.mode), ("m", Mode::Read));
    }

    #[test]
    fn a_cut_emoji_does_not_lose_the_message() {
        let cut = message("m").to_string().replace("\"ask\"", r#""ask \ud83e""#);
        assert!(parse(&cut).unwrap().message.body == "ask \u{fffd}");
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
        let (found, broken) = read_lines(&file, &CancellationToken::new()).unwrap().unwrap().split();
        let found: Vec<_> =
            found.iter().map(|found| (found.message.id.as_str(), found.delivery.status())).collect();
        assert_eq!(found, [("one", Status::Completed), ("two", Status::Leased)]);
        assert_eq!(broken.len(), 1);
    }
}
