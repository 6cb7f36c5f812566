//! A line of `messages.jsonl`: what the Node broker reads of it, and beside that what only we keep. The Node broker
//! knows no deleted messages; it reads one as a message of 1970 under the same id and number, and drops that at its
//! start.

use serde::Serialize;

use super::Mark;
use crate::domain::clock::Timestamp;
use crate::proto::dsh::json::{JsonText, Members};
use crate::proto::dsh::names::AgentName;
use crate::store::StoreError;
use crate::store::local::{KeptMessage, Stages};
use crate::store::node::v1::{self, Payload};

/// What a line says of its message.
#[derive(Debug)]
pub(in crate::store) enum Change {
    /// It is this now.
    Kept(Box<KeptMessage>),
    /// It is no more.
    Gone { seq: i64 },
}

#[derive(Debug)]
pub(in crate::store) struct MailLine {
    pub(in crate::store) change: Change,
    pub(in crate::store) mark: Option<Mark>,
}

/// # Errors
/// What is wrong with it, without showing any of it.
pub(in crate::store) fn parse(text: &str, undated: Timestamp) -> Result<MailLine, &'static str> {
    let line = Members::parse(text).ok().flatten().ok_or("no JSON object")?;
    let seq = v1::seq(&line)?;
    let mark = Mark::of(&line);
    if line.get("gone").is_some() {
        return Ok(MailLine { change: Change::Gone { seq }, mark });
    }
    let message = line.get("message").ok_or("no message")?.as_json();
    let state = match line.given("state") {
        Some(state) => Some(Members::parse(state.as_json()).ok().flatten().ok_or("the state is no object")?),
        None => None,
    };
    let mut stored = match &state {
        Some(state) => v1::parse_in(message, undated, |_| {
            state.given("inbox").and_then(JsonText::as_text).as_deref().and_then(AgentName::parse)
        })?,
        None => v1::parse(message, undated)?,
    };
    stored.seq = seq;
    let mut kept = v1::kept(stored);
    if let Some(state) = &state {
        let at = |name: &str| state.given(name)?.as_json().parse().ok().map(Timestamp::from_millis);
        kept.stored.message.expires_at = at("expires");
        kept.polled = at("polled");
        kept.stages = Stages {
            accepted: at("accepted"),
            leased: at("leased"),
            acked: at("acked"),
            answered: at("answered"),
            held: at("held"),
            failed: at("failed"),
        };
    }
    Ok(MailLine { change: Change::Kept(Box::new(kept)), mark })
}

/// What the envelope does not tell. Times are Unix milliseconds.
#[derive(Serialize)]
struct State<'a> {
    inbox: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    polled: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leased: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    acked: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answered: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<Timestamp>,
}

/// The line of a message as it is now, without its end.
pub(in crate::store) fn kept(message: &KeptMessage, mark: Option<Mark>) -> Result<String, StoreError> {
    #[derive(Serialize)]
    struct Line<'a> {
        seq: i64,
        message: Payload<'a>,
        state: State<'a>,
        #[serde(flatten)]
        mark: Option<Mark>,
    }
    let KeptMessage { stored, polled, stages } = message;
    to_json(&Line {
        seq: stored.seq,
        message: Payload::of(stored),
        state: State {
            inbox: stored.inbox.as_ref().map(AgentName::as_str),
            expires: stored.message.expires_at,
            polled: *polled,
            accepted: stages.accepted,
            leased: stages.leased,
            acked: stages.acked,
            answered: stages.answered,
            held: stages.held,
            failed: stages.failed,
        },
        mark,
    })
}

/// The line of a message that is no more, without its end.
pub(in crate::store) fn gone(seq: i64, id: &str, mark: Option<Mark>) -> Result<String, StoreError> {
    #[derive(Serialize)]
    struct Line<'a> {
        seq: i64,
        gone: bool,
        message: Outdated<'a>,
        #[serde(flatten)]
        mark: Option<Mark>,
    }
    #[derive(Serialize)]
    struct Outdated<'a> {
        id: &'a str,
        ts: &'static str,
    }
    to_json(&Line { seq, gone: true, message: Outdated { id, ts: "1970-01-01T00:00:00.000Z" }, mark })
}

fn to_json(line: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(line).map_err(|error| StoreError::Other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::delivery::{Delivery, State, Status};
    use crate::proto::dsh::names::{DshId, Party};
    use crate::store::local::{NewMessage, StoredMessage};

    const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

    fn message() -> KeptMessage {
        let agent = |name: &str| AgentName::parse(name).unwrap();
        let new = NewMessage {
            body: JsonText::parse(r#"{"cut":"\ud83e","deep":[[[1.0]]]}"#).unwrap(),
            expires_at: Some(NOW),
            ..NewMessage::new(DshId::new("id\0\n"), agent("alpha"), Party::new("bob-billing"), NOW)
        };
        let delivery = Delivery { state: State::LeasedElsewhere, attempts: 0 };
        let message = NewMessage { status: Status::Leased, ..new };
        let stored = StoredMessage { seq: 7, inbox: None, message, delivery, error: None };
        let stages = Stages { accepted: Some(NOW), failed: Some(NOW), ..Stages::default() };
        KeptMessage { stored, polled: Some(NOW), stages }
    }

    #[test]
    fn a_line_holds_all_that_is_kept() {
        let mark = Some(Mark { batch: 3, left: 1, rows: true });
        let text = kept(&message(), mark).unwrap();
        assert!(!text.contains('\n'));
        let line = parse(&text, Timestamp::default()).unwrap();
        let Change::Kept(read) = line.change else { panic!("gone") };
        assert_eq!((*read, line.mark), (message(), mark));
    }

    #[test]
    fn a_deleted_message_is_one_that_the_node_broker_drops_at_its_start() {
        let text = gone(7, "m", None).unwrap();
        assert_eq!(text, r#"{"seq":7,"gone":true,"message":{"id":"m","ts":"1970-01-01T00:00:00.000Z"}}"#);
        assert!(matches!(parse(&text, NOW).unwrap().change, Change::Gone { seq: 7 }));
    }

    #[test]
    fn a_line_of_the_node_broker_is_one_too() {
        let text = r#"{"seq":3,"message":{"id":"m","from":"alpha","to":"beta","body":{}}}"#;
        let line = parse(text, NOW).unwrap();
        let Change::Kept(read) = line.change else { panic!("gone") };
        assert_eq!((read.stored.seq, read.stored.inbox, line.mark), (3, AgentName::parse("beta"), None));
    }
}
