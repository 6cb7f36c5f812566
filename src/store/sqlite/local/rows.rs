//! From rows to the types of the domain. A row that cannot be read means a damaged database.

use rusqlite::types::{FromSqlError, Type};
use rusqlite::{Error, Result, Row};

use crate::domain::clock::Timestamp;
use crate::domain::delivery::{Delivery, Lease, State, Status};
use crate::proto::dsh::json::JsonText;
use crate::proto::dsh::names::AgentName;
use crate::proto::dsh::v1::envelope::{Kind, MessageType};
use crate::store::local::{
    EndedMessage, Ending, Fingerprint, Head, KeptMessage, NewMessage, Stages, StatusLine, StoredMessage,
};
use crate::store::sqlite::column::{column, get, get_option};

column!(MessageType, value => MessageType::parse(value.as_str()?).ok_or(FromSqlError::InvalidType)?);
column!(Kind, value => Kind::parse(value.as_str()?).ok_or(FromSqlError::InvalidType)?);
column!(Status, value => Status::parse(value.as_str()?).ok_or(FromSqlError::InvalidType)?);

/// A row of `messages!`, and whether a poll has shown it already.
pub(super) fn message(row: &Row<'_>) -> Result<(StoredMessage, bool)> {
    let delivery = delivery(row)?;
    let message = NewMessage {
        id: get(row, 2)?,
        from: get(row, 3)?,
        to: get(row, 4)?,
        ts: get(row, 5)?,
        message_type: get(row, 6)?,
        kind: get(row, 7)?,
        body: get(row, 8)?,
        reply_to: get_option(row, 9)?,
        root_id: get_option(row, 10)?,
        parent_id: get_option(row, 11)?,
        ack: row.get(12)?,
        redsyn: get_option(row, 13)?.as_ref().and_then(JsonText::to_value),
        expires_at: get_option(row, 14)?,
        status: delivery.state.status(),
    };
    let stored = StoredMessage {
        seq: row.get(0)?,
        inbox: get_option(row, 1)?,
        message,
        delivery,
        error: get_option(row, 20)?,
    };
    Ok((stored, row.get::<_, Option<i64>>(21)?.is_some()))
}

/// A row of `kept!`.
pub(super) fn kept(row: &Row<'_>) -> Result<KeptMessage> {
    let (stored, _) = message(row)?;
    Ok(KeptMessage { stored, polled: get_option(row, 21)?, stages: stages(row, 22)? })
}

/// The stages that stand in the columns from `first` on.
fn stages(row: &Row<'_>, first: usize) -> Result<Stages> {
    Ok(Stages {
        accepted: get_option(row, first)?,
        leased: get_option(row, first + 1)?,
        acked: get_option(row, first + 2)?,
        answered: get_option(row, first + 3)?,
        held: get_option(row, first + 4)?,
        failed: get_option(row, first + 5)?,
    })
}

pub(super) fn fingerprint(row: &Row<'_>) -> Result<Fingerprint> {
    Ok(Fingerprint { size: row.get(0)?, changed: get(row, 1)? })
}

fn delivery(row: &Row<'_>) -> Result<Delivery> {
    let state = match get(row, 15)? {
        Status::Queued => State::Queued { redeliver: row.get(19)? },
        Status::Leased => match (get_option(row, 17)?, get_option(row, 18)?) {
            (Some(id), Some(until)) => State::Leased(Lease { id, until }),
            // Mail that leaves the machine is taken elsewhere, under a lease that is not ours.
            (None, None) => State::LeasedElsewhere,
            _ => return Err(Error::InvalidColumnType(17, "lease_id".into(), Type::Null)),
        },
        Status::Done => State::Done,
        Status::Failed => State::Failed,
    };
    Ok(Delivery { state, attempts: row.get(16)? })
}

pub(super) fn head(row: &Row<'_>) -> Result<Head> {
    Ok(Head { from: get(row, 0)?, inbox: get_option(row, 1)?, sender_is_registered: row.get(2)? })
}

pub(super) fn status_line(row: &Row<'_>) -> Result<StatusLine> {
    Ok(StatusLine {
        id: get(row, 0)?,
        from: get(row, 1)?,
        to: get(row, 2)?,
        ts: get(row, 3)?,
        kind: get(row, 4)?,
        status: get(row, 5)?,
        attempts: row.get(6)?,
        stages: stages(row, 7)?,
    })
}

/// A row of `ended!` with the state it had.
pub(super) fn ended(row: &Row<'_>, cause: Ending, at: Timestamp) -> Result<(EndedMessage, Status)> {
    let message = EndedMessage {
        seq: row.get(0)?,
        id: get(row, 1)?,
        inbox: get_option(row, 2)?,
        from: get(row, 3)?,
        to: get(row, 4)?,
        kind: get(row, 5)?,
        attempts: row.get(7)?,
        was_leased: row.get::<_, Option<i64>>(8)?.is_some(),
        was_polled: row.get::<_, Option<i64>>(9)?.is_some(),
        cause,
        at,
    };
    Ok((message, get(row, 6)?))
}

pub(super) fn agent(row: &Row<'_>) -> Result<(AgentName, Timestamp)> {
    Ok((get(row, 0)?, get(row, 1)?))
}
