//! Numbered schema steps. A step that has shipped is never changed; a new one is added at the end.

use rusqlite::Connection;

use crate::store::StoreError;

/// SQL that brings a database from version `index` to `index + 1` (`PRAGMA user_version`).
pub type Steps = &'static [&'static str];

/// Brings the database to the newest step, each step in a transaction of its own.
///
/// # Errors
/// When a step fails, or the database was written by a newer program: its rules are not known here.
pub fn migrate(conn: &Connection, steps: Steps) -> Result<(), StoreError> {
    let version: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let version = usize::try_from(version).unwrap_or_default();
    let missing = steps.get(version..).ok_or_else(|| {
        StoreError::Other("it was written by a newer version of redsyn-bridge; use that one".to_owned())
    })?;
    for (step, version) in missing.iter().zip(version + 1..) {
        conn.execute_batch(&format!("BEGIN IMMEDIATE; {step}; PRAGMA user_version = {version}; COMMIT;"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_taken_once_and_a_newer_database_is_left_alone() {
        let conn = Connection::open_in_memory().unwrap();
        migrate(&conn, &["CREATE TABLE a (x)"]).unwrap();
        migrate(&conn, &["CREATE TABLE a (x)", "CREATE TABLE b (x)"]).unwrap();
        let error = migrate(&conn, &["CREATE TABLE a (x)"]).unwrap_err();
        assert!(error.to_string().contains("newer version"), "{error}");
    }
}
