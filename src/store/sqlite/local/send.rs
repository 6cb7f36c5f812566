//! What enters the store: registrations and messages.

use rusqlite::{Connection, OptionalExtension, params};

use super::sql;
use crate::domain::clock::Timestamp;
use crate::proto::dsh::json::JsonText;
use crate::proto::dsh::names::AgentName;
use crate::proto::dsh::v1::envelope::Kind;
use crate::store::StoreError;
use crate::store::local::{NewMessage, Sent};

pub(super) fn register(conn: &Connection, agent: &AgentName, now: Timestamp) -> Result<(), StoreError> {
    conn.prepare_cached(sql::REGISTER)?.execute(params![agent.as_str(), now.millis()])?;
    Ok(())
}

pub(super) fn send(
    conn: &Connection,
    message: &NewMessage,
    to: &AgentName,
) -> Result<Option<Sent>, StoreError> {
    let registered =
        conn.prepare_cached(sql::IS_REGISTERED)?.query_row([to.as_str()], |_| Ok(())).optional()?.is_some();
    if !registered {
        return Ok(None);
    }
    let sent = insert_message(conn, message, Some(to))?;
    if message.kind == Kind::Reply && !sent.duplicate {
        answered(conn, message)?;
    }
    Ok(Some(sent))
}

/// A reply is a stage of the message that it answers, if that one came from its recipient.
fn answered(conn: &Connection, reply: &NewMessage) -> Result<(), StoreError> {
    let parent = [&reply.parent_id, &reply.reply_to].into_iter().flatten().find_map(JsonText::as_text);
    if let Some(parent) = parent {
        let row = params![parent, reply.from.as_str(), reply.to.as_str(), reply.ts.millis()];
        conn.prepare_cached(sql::ANSWERED)?.execute(row)?;
    }
    Ok(())
}

/// Stores a message unless its id is known, whoever sent that one and to whom. `inbox` is the agent of this machine
/// that may take it; `None` for mail that leaves the machine. Part of the caller's transaction.
pub(crate) fn insert_message(
    conn: &Connection,
    message: &NewMessage,
    inbox: Option<&AgentName>,
) -> Result<Sent, StoreError> {
    let json = |text: &Option<JsonText>| text.as_ref().map(|text| text.as_json().to_owned());
    let stored = conn.prepare_cached(sql::INSERT)?.execute(params![
        message.id.as_str(),
        inbox.map(AgentName::as_str),
        message.from.as_str(),
        message.to.as_str(),
        message.ts.millis(),
        message.message_type.as_str(),
        message.kind.as_str(),
        message.body.as_json(),
        json(&message.reply_to),
        json(&message.root_id),
        json(&message.parent_id),
        message.ack,
        message.redsyn.as_ref().map(ToString::to_string),
        message.expires_at.map(Timestamp::millis),
        message.status.as_str(),
    ])?;
    Ok(Sent { id: message.id.clone(), duplicate: stored == 0 })
}
