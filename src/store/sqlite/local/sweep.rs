//! Deletes what has outlived its time, and puts back leases that are over.

use rusqlite::{Connection, params};

use super::{deliver, rows, sql};
use crate::domain::clock::Timestamp;
use crate::domain::delivery::Status;
use crate::store::StoreError;
use crate::store::local::{EndedMessage, Ending, Swept};
use crate::store::sqlite::ended;

/// The most messages deleted in one transaction, so that no caller waits long behind a sweep.
const BATCH: u32 = 500;

pub(super) fn sweep(conn: &Connection, now: Timestamp, too_old: Timestamp) -> Result<Swept, StoreError> {
    let requeued = deliver::requeue(conn, now)?;
    let by_age = expire(conn, sql::TOO_OLD, too_old, now)?;
    let by_date = expire(conn, sql::OUT_OF_TIME, now, now)?;
    Ok(Swept { requeued, expired: by_age + by_date, more: by_age.max(by_date) == BATCH as usize })
}

fn expire(conn: &Connection, sql: &str, until: Timestamp, now: Timestamp) -> Result<usize, StoreError> {
    let over = over(conn, sql, until, now)?;
    for (message, status) in &over {
        if !status.is_final() {
            ended::ended(conn, message)?;
        }
        conn.prepare_cached(sql::DELETE)?.execute([message.seq])?;
    }
    Ok(over.len())
}

fn over(
    conn: &Connection,
    sql: &str,
    until: Timestamp,
    now: Timestamp,
) -> Result<Vec<(EndedMessage, Status)>, StoreError> {
    let mut over = conn.prepare_cached(sql)?;
    let rows =
        over.query_map(params![until.millis(), BATCH], |row| rows::ended(row, Ending::Expired, now))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
