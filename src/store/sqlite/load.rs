//! How much waits in a table of messages: counted in the index of what waits, never in the table, and only so far.

use rusqlite::Connection;

use crate::domain::clock::Timestamp;
use crate::store::StoreError;
use crate::store::local::{Load, MOST_COUNTED};

/// How many messages wait in any inbox.
macro_rules! load_queued {
    ($table:literal, $queue:literal) => {
        concat!(
            "SELECT count(*) FROM (SELECT 1 FROM ",
            $table,
            " INDEXED BY ",
            $queue,
            " WHERE inbox > '' AND status = 'queued' LIMIT ?1)"
        )
    };
}

/// How many are leased.
macro_rules! load_leased {
    ($table:literal, $leases:literal) => {
        concat!(
            "SELECT count(*) FROM (SELECT 1 FROM ",
            $table,
            " INDEXED BY ",
            $leases,
            " WHERE lease_until IS NOT NULL LIMIT ?1)"
        )
    };
}

/// The first of each inbox, one look into the index for each; of those, the oldest.
macro_rules! load_oldest {
    ($table:literal, $queue:literal, $at:literal) => {
        concat!(
            "WITH RECURSIVE first (inbox, at) AS (
                SELECT * FROM (SELECT inbox, ",
            $at,
            " FROM ",
            $table,
            " INDEXED BY ",
            $queue,
            "       WHERE inbox > '' AND status = 'queued' ORDER BY inbox, seq LIMIT 1)
                UNION ALL
                SELECT next.inbox, next.",
            $at,
            " FROM first JOIN ",
            $table,
            " AS next ON next.seq = (
                    SELECT seq FROM ",
            $table,
            " INDEXED BY ",
            $queue,
            "       WHERE inbox > first.inbox AND status = 'queued' ORDER BY inbox, seq LIMIT 1)
                LIMIT ?1)
            SELECT min(at) FROM first"
        )
    };
}
pub(super) use {load_leased, load_oldest, load_queued};

/// The three statements of a table.
pub(super) fn load(conn: &Connection, queued: &str, leased: &str, oldest: &str) -> Result<Load, StoreError> {
    let number = |sql: &str| -> Result<Option<i64>, StoreError> {
        Ok(conn.prepare_cached(sql)?.query_row([MOST_COUNTED], |row| row.get(0))?)
    };
    Ok(Load {
        queued: number(queued)?.unwrap_or_default(),
        leased: number(leased)?.unwrap_or_default(),
        oldest_queued: number(oldest)?.map(Timestamp::from_millis),
    })
}
