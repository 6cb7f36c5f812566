//! Messages with their states, in and out: for the files of another broker.

use rusqlite::{Connection, params};

use super::{rows, sql};
use crate::domain::clock::Timestamp;
use crate::domain::v2::delivery::State;
use crate::proto::dsh::v2::name::Name;
use crate::store::StoreError;
use crate::store::local::Imported;
use crate::store::v2::StoredMessage;

/// Stores what another broker kept, but for messages whose ids or keys are known.
pub(super) fn import(conn: &Connection, messages: &[StoredMessage]) -> Result<Imported, StoreError> {
    let mut imported = Imported::default();
    for message in messages {
        if insert(conn, message)? {
            imported.new += 1;
            *imported.states.entry(message.delivery.status().as_str()).or_default() += 1;
        } else {
            imported.known += 1;
        }
    }
    Ok(imported)
}

fn insert(conn: &Connection, stored: &StoredMessage) -> Result<bool, StoreError> {
    let StoredMessage { inbox, message, delivery, is_notified, .. } = stored;
    let lease = match &delivery.state {
        State::Leased(lease) => Some(lease),
        State::Queued | State::LeasedElsewhere | State::Completed | State::Failed | State::Expired => None,
    };
    let inserted = conn.prepare_cached(sql::INSERT_KEPT)?.execute(params![
        message.id.as_str(),
        inbox.as_ref().map(Name::as_str),
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
        delivery.expires_at.millis(),
        delivery.status().as_str(),
        delivery.attempts,
        lease.map(|lease| lease.id.as_str()),
        lease.map(|lease| lease.until.millis()),
        delivery.last_error,
        delivery.completed_at.map(Timestamp::millis),
        is_notified.then(|| delivery.completed_at.unwrap_or(message.created_at).millis()),
    ])?;
    Ok(inserted == 1)
}

/// The next messages behind a number.
pub(super) fn after(conn: &Connection, seq: i64, limit: u32) -> Result<Vec<StoredMessage>, StoreError> {
    let mut messages = conn.prepare_cached(sql::KEPT_AFTER)?;
    let rows = messages.query_map(params![seq, limit], rows::message)?;
    Ok(rows.collect::<Result<_, _>>()?)
}
