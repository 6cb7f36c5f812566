//! The v1.1 delivery: pulls and acknowledgements. What they mean is decided by `domain::delivery`.

use rusqlite::{Connection, OptionalExtension, params};

use super::{rows, sql};
use crate::domain::clock::Timestamp;
use crate::domain::delivery::{Delivery, Lease, LeaseId, Status};
use crate::domain::random::SharedRandom;
use crate::proto::dsh::v1::request::Outcome;
use crate::store::StoreError;
use crate::store::local::{Ack, Acked, Ending, Pull, Pulled, StoredMessage};
use crate::store::sqlite::ended;
use crate::store::sqlite::leases::lease_end;

/// Every pull, whoever makes it, puts back all leases that are over.
pub(super) fn requeue(conn: &Connection, now: Timestamp) -> Result<usize, StoreError> {
    // An update of the index that it walks collects its rows in a table of its own first: not for nothing.
    if !conn.prepare_cached(sql::HAS_OVERDUE)?.exists([now.millis()])? {
        return Ok(0);
    }
    Ok(conn.prepare_cached(sql::REQUEUE)?.execute([now.millis()])?)
}

pub(super) fn pull(conn: &Connection, pull: &Pull, random: &SharedRandom) -> Result<Pulled, StoreError> {
    requeue(conn, pull.now)?;
    let mut queued = conn.prepare_cached(sql::QUEUED)?;
    let rows =
        queued.query_map(params![pull.agent.as_str(), pull.limit, pull.now.millis()], rows::message)?;
    let queued = rows.map(|row| row.map(|(message, _)| message)).collect::<Result<Vec<_>, _>>()?;
    let messages: Vec<_> =
        queued.into_iter().map(|message| lease(conn, message, pull, random)).collect::<Result<_, _>>()?;
    let lease_end = if messages.is_empty() { lease_end(conn, sql::FIRST_LEASE_END)? } else { None };
    Ok(Pulled { messages, lease_end })
}

fn lease(
    conn: &Connection,
    message: StoredMessage,
    pull: &Pull,
    random: &SharedRandom,
) -> Result<StoredMessage, StoreError> {
    let lease = Lease { id: LeaseId::new(random.uuid()), until: pull.until };
    conn.prepare_cached(sql::LEASE)?.execute(params![
        message.seq,
        lease.id.as_str(),
        lease.until.millis(),
        pull.now.millis()
    ])?;
    let delivery = message.delivery.lease(lease).map_err(|error| StoreError::Damaged(error.to_string()))?;
    let mut message = StoredMessage { delivery, ..message };
    message.message.status = Status::Leased;
    Ok(message)
}

pub(super) fn ack(conn: &Connection, ack: &Ack) -> Result<Acked, StoreError> {
    let found = conn.prepare_cached(sql::BY_ID)?.query_row([ack.id.as_str()], rows::message).optional()?;
    let Some((message, _)) = found else { return Ok(Acked::UnknownMessage) };
    if message.inbox.as_ref() != Some(&ack.agent) {
        return Ok(Acked::NotRecipient);
    }
    let next = match ack.outcome {
        Outcome::Completed => message.delivery.complete(&ack.lease_id),
        Outcome::Retry => message.delivery.retry(&ack.lease_id, ack.max_attempts),
    };
    match next {
        Ok(next) => settle(conn, ack, message.seq, &next),
        Err(refused) => Ok(Acked::Refused(refused)),
    }
}

fn settle(conn: &Connection, ack: &Ack, seq: i64, next: &Delivery) -> Result<Acked, StoreError> {
    let status = next.state.status();
    let when = |stage: Status| (status == stage).then_some(ack.now.millis());
    conn.prepare_cached(sql::SETTLE)?.execute(params![
        seq,
        status.as_str(),
        next.attempts,
        ack.error.as_json(),
        when(Status::Done),
        when(Status::Failed)
    ])?;
    if status == Status::Failed {
        let (message, _) = conn
            .prepare_cached(sql::ENDED_BY_SEQ)?
            .query_row([seq], |row| rows::ended(row, Ending::Failed, ack.now))?;
        ended::ended(conn, &message)?;
    }
    Ok(Acked::Settled { status, attempts: next.attempts })
}
