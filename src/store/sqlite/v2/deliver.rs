//! Pulls, acknowledgements and renewals. What they mean is decided by `domain::v2::delivery`.

use rusqlite::{Connection, OptionalExtension, params};

use super::change::{Stage, change, tell};
use super::tidy::tidy;
use super::{rows, sql};
use crate::domain::delivery::{Lease, LeaseId};
use crate::domain::random::SharedRandom;
use crate::domain::v2::delivery::{Delivery, LeaseRefused, Status, permitted};
use crate::proto::dsh::names::DshId;
use crate::proto::dsh::v2::name::Name;
use crate::proto::dsh::v2::request::Outcome;
use crate::store::StoreError;
use crate::store::sqlite::leases::lease_end;
use crate::store::v2::{Ack, Acked, Ended, Pull, Pulled, Renew, StoredMessage};

/// Tidies up for everybody, leases, and only then tells the senders of what has ended: a notice that comes of a pull
/// is not in its own answer.
pub(super) fn pull(conn: &Connection, pull: &Pull, random: &SharedRandom) -> Result<Pulled, StoreError> {
    let tidied = tidy(conn, pull.now, pull.rules.max_attempts)?;
    let messages: Vec<_> = queued(conn, pull)?
        .into_iter()
        .map(|message| lease(conn, message, pull, random))
        .collect::<Result<_, _>>()?;
    let woken = tidied.tell(conn, pull.now, pull.rules.notify, random)?;
    let lease_end = if messages.is_empty() { lease_end(conn, sql::FIRST_LEASE_END)? } else { None };
    Ok(Pulled { messages, woken, lease_end })
}

fn queued(conn: &Connection, pull: &Pull) -> Result<Vec<StoredMessage>, StoreError> {
    let max_attempts = permitted(pull.rules.max_attempts);
    let mut queued = conn.prepare_cached(sql::QUEUED)?;
    let rows = queued.query_map(
        params![pull.agent.as_str(), pull.limit, pull.now.millis(), max_attempts],
        rows::message,
    )?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn lease(
    conn: &Connection,
    message: StoredMessage,
    pull: &Pull,
    random: &SharedRandom,
) -> Result<StoredMessage, StoreError> {
    let lease = Lease { id: LeaseId::new(random.hex::<16>()), until: pull.until };
    let delivery = message.delivery.lease(lease).map_err(|error| StoreError::Damaged(error.to_string()))?;
    change(conn, message.seq, &delivery, (Stage::Leased, pull.now))?;
    Ok(StoredMessage { delivery, ..message })
}

pub(super) fn ack(conn: &Connection, ack: &Ack, random: &SharedRandom) -> Result<Acked, StoreError> {
    let Some(message) = by_id(conn, &ack.id)?.filter(|message| message.inbox.as_ref() == Some(&ack.agent))
    else {
        return Ok(Acked::NotAssigned);
    };
    match settled(&message.delivery, ack) {
        Ok(delivery) => settle(conn, StoredMessage { delivery, ..message }, ack, random),
        Err(refused) => Ok(refused),
    }
}

fn settled(delivery: &Delivery, ack: &Ack) -> Result<Delivery, Acked> {
    let (delivery, token) = (delivery.clone(), ack.lease_token.as_ref());
    let settled = match ack.outcome {
        Some(Outcome::Completed) => delivery.complete(token, ack.now),
        Some(Outcome::Retry) => delivery.retry(token, ack.error.clone(), ack.rules.max_attempts, ack.now),
        None => {
            delivery.check(token, ack.now).map_err(Acked::Refused)?;
            return Err(Acked::InvalidOutcome);
        }
    };
    settled.map_err(Acked::Refused)
}

fn settle(
    conn: &Connection,
    message: StoredMessage,
    ack: &Ack,
    random: &SharedRandom,
) -> Result<Acked, StoreError> {
    let status = message.delivery.status();
    change(conn, message.seq, &message.delivery, (Stage::of(status), ack.now))?;
    let woken = match status {
        Status::Failed => tell(conn, Ended { message: &message, at: ack.now }, ack.rules.notify, random)?,
        Status::Queued => Some(ack.agent.clone()),
        Status::Leased | Status::Completed | Status::Expired => None,
    };
    Ok(Acked::Settled { delivery: message.delivery, woken: woken.into_iter().collect() })
}

pub(super) fn renew(conn: &Connection, renew: &Renew) -> Result<Result<(), LeaseRefused>, StoreError> {
    let Some(message) =
        by_id(conn, &renew.id)?.filter(|message| message.inbox.as_ref() == Some(&renew.agent))
    else {
        return Ok(Err(LeaseRefused::Mismatch));
    };
    match message.delivery.renew(&renew.lease_token, renew.until, renew.now) {
        Ok(delivery) => {
            change(conn, message.seq, &delivery, (Stage::None, renew.now))?;
            Ok(Ok(()))
        }
        Err(refused) => Ok(Err(refused)),
    }
}

/// What waits for an agent and has never been handed out, oldest first.
pub(crate) fn unseen(conn: &Connection, agent: &Name) -> Result<Vec<StoredMessage>, StoreError> {
    let mut unseen = conn.prepare_cached(sql::UNSEEN)?;
    let rows = unseen.query_map([agent.as_str()], rows::message)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(crate) fn by_id(conn: &Connection, id: &DshId) -> Result<Option<StoredMessage>, StoreError> {
    Ok(conn.prepare_cached(sql::BY_ID)?.query_row([id.as_str()], rows::message).optional()?)
}
