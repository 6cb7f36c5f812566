//! A message of the first generation in the Node broker's files: the envelope, and one mark that answers hide.
//! Older versions wrote fewer fields; what is missing has the value that the Node broker gives it.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Messages, lines};
use crate::domain::clock::Timestamp;
use crate::domain::delivery::{Delivery, Lease, LeaseId, State, Status};
use crate::proto::dsh::json::{JsonText, Members};
use crate::proto::dsh::names::{AgentName, DshId, Party};
use crate::proto::dsh::v1::envelope::{Kind, MessageType};
use crate::proto::dsh::v1::iso::{iso, parse_iso};
use crate::store::StoreError;
use crate::store::local::{KeptMessage, NewMessage, Stages, StoredMessage};

/// The token of a lease that was given before leases had tokens: nobody can name it, so it only runs out.
pub(super) const NO_TOKEN: &str = "a lease without a token";

/// The messages of a `messages.jsonl`; `None` when there is no such file. `undated` is the time of messages that
/// tell none which can be read.
///
/// # Errors
/// When the file cannot be read to its end; `Stopped` once `stop` is cancelled.
pub fn read_lines(
    path: &Path,
    undated: Timestamp,
    stop: &CancellationToken,
) -> Result<Option<Messages<KeptMessage>>, StoreError> {
    lines::read(path, stop, true, move |line| {
        let line = Members::parse(line).ok().flatten().ok_or("no JSON object")?;
        let (seq, message) =
            (seq(&line)?, parse(line.get("message").ok_or("no message")?.as_json(), undated)?);
        Ok((seq, kept(StoredMessage { seq, ..message })))
    })
}

/// The sequence number of a line.
///
/// # Errors
/// When it has none.
pub fn seq(line: &Members) -> Result<i64, &'static str> {
    let seq = line.get("seq").and_then(|seq| seq.as_json().parse().ok());
    seq.filter(|seq| *seq > 0).ok_or("no sequence number")
}

/// A message of which nothing else is known.
pub fn kept(stored: StoredMessage) -> KeptMessage {
    KeptMessage { stored, polled: None, stages: Stages::default() }
}

/// The message of a payload. Its `seq` is 0.
///
/// # Errors
/// What is wrong with it, without showing any of it.
pub fn parse(json: &str, undated: Timestamp) -> Result<StoredMessage, &'static str> {
    parse_in(json, undated, AgentName::parse)
}

/// The same where somebody knows better than the recipient's name in whose inbox it lies.
///
/// # Errors
/// What is wrong with it, without showing any of it.
pub(in crate::store) fn parse_in(
    json: &str,
    undated: Timestamp,
    inbox: impl FnOnce(&str) -> Option<AgentName>,
) -> Result<StoredMessage, &'static str> {
    let fields = Members::parse(json).ok().flatten().ok_or("the message is no JSON object")?;
    let text = |name: &str| fields.get(name).and_then(JsonText::as_text);
    let to = text("to").ok_or("no recipient")?;
    let inbox = inbox(&to);
    let delivery = delivery(&fields, inbox.is_some())?;
    let message = NewMessage {
        id: DshId::new(text("id").ok_or("no id")?),
        from: Party::new(text("from").ok_or("no sender")?),
        to: Party::new(to),
        ts: text("ts").as_deref().and_then(parse_iso).map_or(undated, Timestamp::from_millis),
        message_type: word(&fields, "type", MessageType::parse).ok_or("unknown type")?,
        kind: word(&fields, "kind", Kind::parse).ok_or("unknown kind")?,
        body: fields.get("body").cloned().unwrap_or_else(JsonText::empty_object),
        reply_to: fields.given("replyTo").cloned(),
        root_id: fields.given("rootId").cloned(),
        parent_id: fields.given("parentId").cloned(),
        ack: flag(&fields, "ack"),
        redsyn: fields.given("redsyn").and_then(JsonText::to_value),
        expires_at: None,
        status: delivery.state.status(),
    };
    Ok(StoredMessage { seq: 0, inbox, message, delivery, error: fields.get("error").cloned() })
}

/// A word of a few; the default when the field is missing or `null`.
fn word<T: Default>(fields: &Members, name: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
    fields.given(name).map_or_else(|| Some(T::default()), |word| parse(&word.as_text()?))
}

fn flag(fields: &Members, name: &str) -> bool {
    fields.get(name).is_some_and(|flag| flag.as_json() == "true")
}

fn number<T: TryFrom<i64>>(fields: &Members, name: &str) -> Option<T> {
    let number: f64 = fields.given(name)?.as_json().parse().ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "fractions mean nothing here, and the cast saturates"
    )]
    T::try_from(number as i64).ok()
}

fn delivery(fields: &Members, is_local: bool) -> Result<Delivery, &'static str> {
    let status = word(fields, "status", Status::parse).ok_or("unknown status")?;
    let state = match status {
        Status::Queued => State::Queued { redeliver: flag(fields, "legacyRedelivery") },
        Status::Leased if !is_local => State::LeasedElsewhere,
        Status::Leased => State::Leased(Lease {
            id: LeaseId::new(
                fields
                    .given("leaseId")
                    .and_then(JsonText::as_text)
                    .filter(|id| !id.is_empty())
                    .unwrap_or_else(|| NO_TOKEN.to_owned()),
            ),
            // A lease without an end is over: better twice than never.
            until: Timestamp::from_millis(number(fields, "leaseUntil").unwrap_or_default()),
        }),
        Status::Done => State::Done,
        Status::Failed => State::Failed,
    };
    Ok(Delivery { state, attempts: number(fields, "attempts").unwrap_or_default() })
}

/// A message as the Node broker writes it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Payload<'a> {
    id: &'a DshId,
    from: &'a Party,
    to: &'a Party,
    ts: String,
    #[serde(rename = "type")]
    message_type: MessageType,
    body: &'a JsonText,
    reply_to: Option<&'a JsonText>,
    ack: bool,
    kind: Kind,
    root_id: Option<&'a JsonText>,
    parent_id: Option<&'a JsonText>,
    status: &'static str,
    attempts: u32,
    lease_until: Option<i64>,
    lease_id: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    legacy_redelivery: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a JsonText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    redsyn: Option<&'a Value>,
}

impl<'a> Payload<'a> {
    pub fn of(stored: &'a StoredMessage) -> Self {
        let StoredMessage { message, delivery, error, .. } = stored;
        let lease = match &delivery.state {
            State::Leased(lease) => Some(lease),
            State::Queued { .. } | State::LeasedElsewhere | State::Done | State::Failed => None,
        };
        Self {
            id: &message.id,
            from: &message.from,
            to: &message.to,
            ts: iso(message.ts.millis()),
            message_type: message.message_type,
            body: &message.body,
            reply_to: message.reply_to.as_ref(),
            ack: message.ack,
            kind: message.kind,
            root_id: message.root_id.as_ref(),
            parent_id: message.parent_id.as_ref(),
            status: delivery.state.status().as_str(),
            attempts: delivery.attempts,
            lease_until: lease.map(|lease| lease.until.millis()),
            lease_id: lease.map(|lease| lease.id.as_str()),
            legacy_redelivery: matches!(delivery.state, State::Queued { redeliver: true }),
            error: error.as_ref(),
            redsyn: message.redsyn.as_ref(),
        }
    }

    /// # Errors
    /// Never in practice: every part of it is JSON already, or text.
    pub fn to_json(&self) -> Result<String, StoreError> {
        serde_json::to_string(self).map_err(|error| StoreError::Other(error.to_string()))
    }
}

/// A line of `messages.jsonl` as the Node broker writes it, without its end.
#[derive(Debug, Serialize)]
pub struct PlainLine<'a> {
    pub seq: i64,
    pub message: Payload<'a>,
}

#[cfg(test)]
mod tests;
