//! Numbered schema steps. A step that has shipped is never changed; a new one is added at the end.

use rusqlite::Connection;

/// SQL that brings a database from version `index` to `index + 1` (`PRAGMA user_version`).
pub type Steps = &'static [&'static str];

/// Brings the database to the newest step, each step in a transaction of its own.
pub fn migrate(conn: &Connection, steps: Steps) -> rusqlite::Result<()> {
    let mut version: usize =
        conn.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))?.max(0) as usize;
    while let Some(step) = steps.get(version) {
        version += 1;
        conn.execute_batch(&format!("BEGIN IMMEDIATE; {step}; PRAGMA user_version = {version}; COMMIT;"))?;
    }
    Ok(())
}
