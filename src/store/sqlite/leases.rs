//! When leases end.

use rusqlite::{Connection, OptionalExtension};

use super::column::get;
use crate::domain::clock::Timestamp;
use crate::store::StoreError;

/// The first end of a lease in a table of messages.
macro_rules! first_lease_end {
    ($table:literal, $leases:literal) => {
        concat!(
            "SELECT lease_until FROM ",
            $table,
            " INDEXED BY ",
            $leases,
            " WHERE lease_until IS NOT NULL ORDER BY lease_until LIMIT 1"
        )
    };
}
pub(super) use first_lease_end;

/// The statement of a table.
pub(super) fn lease_end(conn: &Connection, sql: &str) -> Result<Option<Timestamp>, StoreError> {
    Ok(conn.prepare_cached(sql)?.query_row([], |row| get(row, 0)).optional()?)
}
