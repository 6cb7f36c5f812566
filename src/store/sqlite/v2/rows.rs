//! From rows to the types of the domain.

use rusqlite::types::{FromSqlError, Type};
use rusqlite::{Error, Result, Row};

use crate::domain::delivery::Lease;
use crate::domain::v2::delivery::{Delivery, State, Status};
use crate::proto::dsh::v2::message::{Kind, Mode};
use crate::store::local::Stages;
use crate::store::sqlite::column::{column, get, get_option};
use crate::store::v2::{NewMessage, StoredMessage};

column!(Kind, value => Kind::parse(value.as_str()?).ok_or(FromSqlError::InvalidType)?);
column!(Mode, value => Mode::parse(value.as_str()?).ok_or(FromSqlError::InvalidType)?);
column!(Status, value => Status::parse(value.as_str()?).ok_or(FromSqlError::InvalidType)?);

/// A row of `messages!`.
pub(super) fn message(row: &Row<'_>) -> Result<StoredMessage> {
    let message = NewMessage {
        id: get(row, 2)?,
        root_id: row.get(3)?,
        parent_id: row.get(4)?,
        origin: get(row, 5)?,
        target: get(row, 6)?,
        kind: get(row, 7)?,
        body: row.get(8)?,
        session_ref: row.get(9)?,
        mode: get(row, 10)?,
        context: row.get(11)?,
        topic: row.get(12)?,
        allow_shared_write: row.get(13)?,
        idempotency_key: row.get(14)?,
        created_at: get(row, 15)?,
        expires_at: get(row, 16)?,
    };
    Ok(StoredMessage {
        seq: row.get(0)?,
        inbox: get_option(row, 1)?,
        message,
        delivery: delivery(row)?,
        is_notified: row.get::<_, Option<i64>>(23)?.is_some(),
        stages: Stages {
            accepted: get_option(row, 24)?,
            leased: get_option(row, 25)?,
            acked: get_option(row, 26)?,
            answered: get_option(row, 27)?,
            held: get_option(row, 28)?,
            failed: get_option(row, 29)?,
        },
        redsyn: row.get::<_, Option<String>>(30)?.and_then(|text| serde_json::from_str(&text).ok()),
    })
}

fn delivery(row: &Row<'_>) -> Result<Delivery> {
    let state = match get(row, 17)? {
        Status::Queued => State::Queued,
        Status::Leased => match (get_option(row, 19)?, get_option(row, 20)?) {
            (Some(id), Some(until)) => State::Leased(Lease { id, until }),
            // Mail that leaves the machine is taken elsewhere, under a lease that is not ours.
            (None, None) => State::LeasedElsewhere,
            _ => return Err(Error::InvalidColumnType(19, "lease_token".into(), Type::Null)),
        },
        Status::Completed => State::Completed,
        Status::Failed => State::Failed,
        Status::Expired => State::Expired,
    };
    Ok(Delivery {
        state,
        attempts: row.get(18)?,
        expires_at: get(row, 16)?,
        last_error: row.get(21)?,
        completed_at: get_option(row, 22)?,
    })
}

pub(super) fn count(row: &Row<'_>) -> Result<(Status, u64)> {
    let count: i64 = row.get(1)?;
    Ok((get(row, 0)?, u64::try_from(count).unwrap_or(0)))
}
