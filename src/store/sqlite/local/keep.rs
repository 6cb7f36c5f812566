//! Messages with all that is kept of them, in and out: for files, and for stores of another kind.

use rusqlite::{Connection, OptionalExtension, params};

use super::{rows, sql};
use crate::domain::clock::Timestamp;
use crate::domain::delivery::State;
use crate::proto::dsh::json::JsonText;
use crate::proto::dsh::names::AgentName;
use crate::proto::dsh::v1::envelope::MessageType;
use crate::store::StoreError;
use crate::store::local::{Fingerprint, Imported, KeptMessage};

/// For a test that sees to it that no column is forgotten.
#[cfg(test)]
pub(in crate::store::sqlite) const STATEMENT: &str = sql::KEPT_BY_SEQ;

/// Stores the message unless its id is known. With `seq` it gets that number, which must be free, else the next one.
pub(in crate::store::sqlite) fn insert(
    conn: &Connection,
    kept: &KeptMessage,
    seq: Option<i64>,
) -> Result<bool, StoreError> {
    let KeptMessage { stored, polled, stages } = kept;
    let message = &stored.message;
    let json = |text: &Option<JsonText>| text.as_ref().map(|text| text.as_json().to_owned());
    let at = |moment: Option<Timestamp>| moment.map(Timestamp::millis);
    let lease = match &stored.delivery.state {
        State::Leased(lease) => Some(lease),
        State::Queued { .. } | State::LeasedElsewhere | State::Done | State::Failed => None,
    };
    let inserted = conn.prepare_cached(sql::INSERT_KEPT)?.execute(params![
        seq,
        stored.inbox.as_ref().map(AgentName::as_str),
        message.id.as_str(),
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
        at(message.expires_at),
        stored.delivery.state.status().as_str(),
        stored.delivery.attempts,
        lease.map(|lease| lease.id.as_str()),
        lease.map(|lease| lease.until.millis()),
        matches!(stored.delivery.state, State::Queued { redeliver: true }),
        json(&stored.error),
        at(*polled),
        at(stages.accepted),
        at(stages.leased),
        at(stages.acked),
        at(stages.answered),
        at(stages.held),
        at(stages.failed),
    ])?;
    Ok(inserted == 1)
}

/// Stores what another broker kept. Its numbers mean nothing here; their order does.
pub(super) fn import(conn: &Connection, messages: &[KeptMessage]) -> Result<Imported, StoreError> {
    let mut imported = Imported::default();
    for kept in messages {
        if !insert(conn, kept, None)? {
            imported.known += 1;
            continue;
        }
        imported.new += 1;
        *imported.states.entry(kept.stored.delivery.state.status().as_str()).or_default() += 1;
        // A receipt is delivered whether its recipient has registered or not.
        if let Some(inbox) = &kept.stored.inbox
            && kept.stored.message.message_type == MessageType::Message
        {
            let seen = kept.stored.message.ts.millis();
            conn.prepare_cached(sql::REGISTERED_ELSEWHERE)?.execute(params![inbox.as_str(), seen])?;
        }
    }
    Ok(imported)
}

pub(in crate::store::sqlite) fn by_seq(
    conn: &Connection,
    seq: i64,
) -> Result<Option<KeptMessage>, StoreError> {
    Ok(conn.prepare_cached(sql::KEPT_BY_SEQ)?.query_row([seq], rows::kept).optional()?)
}

/// The next messages behind a number.
pub(in crate::store::sqlite) fn after(
    conn: &Connection,
    seq: i64,
    limit: u32,
) -> Result<Vec<KeptMessage>, StoreError> {
    let mut messages = conn.prepare_cached(sql::KEPT_AFTER)?;
    let rows = messages.query_map(params![seq, limit], rows::kept)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(in crate::store::sqlite) fn takeover(
    conn: &Connection,
    source: &str,
) -> Result<Option<Fingerprint>, StoreError> {
    Ok(conn.prepare_cached(sql::TAKEOVER)?.query_row([source], rows::fingerprint).optional()?)
}

pub(super) fn taken_over(
    conn: &Connection,
    source: &str,
    was: Fingerprint,
    now: Timestamp,
) -> Result<(), StoreError> {
    conn.prepare_cached(sql::TAKEN_OVER)?.execute(params![
        source,
        was.size,
        was.changed.millis(),
        now.millis()
    ])?;
    Ok(())
}
