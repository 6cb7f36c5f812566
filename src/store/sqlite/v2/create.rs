//! What enters the store.

use rusqlite::{Connection, OptionalExtension, params};

use super::{rows, sql};
use crate::domain::v2::delivery::Status;
use crate::proto::dsh::v2::message::Kind;
use crate::proto::dsh::v2::name::Name;
use crate::store::StoreError;
use crate::store::v2::{Created, NewMessage, StoredMessage};

/// Stores what an agent of this machine sends. A reply is noted at what it answers.
pub(super) fn create(conn: &Connection, message: &NewMessage, inbox: &Name) -> Result<Created, StoreError> {
    let created = insert_message(conn, message, Some(inbox))?;
    if let (false, Kind::Reply, Some(parent)) = (created.duplicate, message.kind, &message.parent_id) {
        conn.prepare_cached(sql::ANSWERED)?.execute(params![parent, message.created_at.millis()])?;
    }
    Ok(created)
}

/// Stores a message unless its origin has used its idempotency key before. `inbox` is the agent of this machine that
/// may take it; `None` for mail that leaves the machine. Part of the caller's transaction.
pub(crate) fn insert_message(
    conn: &Connection,
    message: &NewMessage,
    inbox: Option<&Name>,
) -> Result<Created, StoreError> {
    let stored = conn.prepare_cached(sql::INSERT)?.execute(params![
        message.id.as_str(),
        inbox.map(Name::as_str),
        message.root_id,
        message.parent_id,
        message.origin.as_str(),
        message.target.as_str(),
        message.kind.as_str(),
        message.body,
        message.session_ref,
        message.mode.as_str(),
        message.context,
        message.topic,
        message.allow_shared_write,
        message.idempotency_key,
        message.created_at.millis(),
        message.expires_at.millis(),
        Status::Queued.as_str(),
    ])?;
    if stored == 0 {
        return known(conn, message);
    }
    Ok(Created { id: message.id.clone(), duplicate: false, conflict: false })
}

/// The message that was stored before under the key, or under the id.
fn known(conn: &Connection, message: &NewMessage) -> Result<Created, StoreError> {
    if let Some(known) = sent_before(conn, message)? {
        return Ok(known);
    }
    let known = conn.prepare_cached(sql::BY_ID)?.query_row([message.id.as_str()], rows::message)?;
    Ok(known_as(known, message))
}

/// The message that its origin has sent under the same idempotency key.
pub(crate) fn sent_before(conn: &Connection, message: &NewMessage) -> Result<Option<Created>, StoreError> {
    let key = params![message.origin.as_str(), message.idempotency_key];
    let by_key = conn.prepare_cached(sql::BY_KEY)?.query_row(key, rows::message).optional()?;
    Ok(by_key.map(|known| known_as(known, message)))
}

fn known_as(known: StoredMessage, message: &NewMessage) -> Created {
    let conflict = !says_the_same(&known, message);
    Created { id: known.message.id, duplicate: true, conflict }
}

/// What the broker adds differs each time: ids and times.
fn says_the_same(known: &StoredMessage, message: &NewMessage) -> bool {
    let known = NewMessage {
        id: message.id.clone(),
        root_id: message.root_id.clone(),
        created_at: message.created_at,
        expires_at: message.expires_at,
        ..known.message.clone()
    };
    known == *message
}
