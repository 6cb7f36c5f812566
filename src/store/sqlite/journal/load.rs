//! From the files to the database. Batches that were not written to their end have never been.

mod mail;
mod rows;

use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, params};

use super::Files;
use crate::store::node::Broken;
use crate::store::sqlite::schema::Steps;
use crate::store::{StoreError, disk};

/// What a start has found.
#[derive(Debug, Default)]
pub struct Loaded {
    pub messages: usize,
    /// Lines of `messages.jsonl` that make no message.
    pub broken: Vec<Broken>,
    /// `messages.jsonl` was written by another broker.
    pub is_foreign: bool,
    /// A copy of `messages.jsonl` as it was, when it held what a rewriting would lose.
    pub copy: Option<PathBuf>,
}

/// The same, with what the journal needs to go on.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) loaded: Loaded,
    pub(super) batch: u64,
    pub(super) rows_batch: u64,
    /// Where an unfinished end begins.
    pub(super) cut_mail: Option<u64>,
    pub(super) cut_rows: Option<u64>,
    pub(super) tidiness: Tidiness,
}

/// Whether the files are to be rewritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tidiness {
    #[default]
    Tidy,
    /// They hold more than what counts.
    Untidy,
    /// Nothing may be appended to them as they are.
    Unusable,
}

/// Fills the database.
pub(super) fn load(conn: &Connection, files: &Files, steps: Steps) -> Result<Found, StoreError> {
    let mut found = Found::default();
    as_written(conn, true)?;
    let has_rows = rows::load(conn, &files.rows, steps, &mut found)?;
    found.batch = found.rows_batch;
    mail::load(conn, &files.mail, &mut found)?;
    drop_orphans(conn, &mut found)?;
    as_written(conn, false)?;
    let loaded = &mut found.loaded;
    loaded.is_foreign = !has_rows && loaded.messages + loaded.broken.len() > 0;
    if loaded.is_foreign || !loaded.broken.is_empty() {
        loaded.copy = Some(copy(&files.mail)?);
    }
    Ok(found)
}

/// Whether rows are taken as they stand, in any order: what triggers and foreign keys would add or take away stands
/// among them already.
pub(super) fn as_written(conn: &Connection, on: bool) -> Result<(), StoreError> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, !on)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, !on)?;
    Ok(())
}

/// Rows of messages that another broker has dropped meanwhile.
fn drop_orphans(conn: &Connection, found: &mut Found) -> Result<(), StoreError> {
    let mut orphans = conn.prepare("SELECT \"table\", rowid FROM pragma_foreign_key_check")?;
    let orphans = orphans.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (table, row) in orphans.collect::<Result<Vec<(String, i64)>, _>>()? {
        conn.execute(&format!("DELETE FROM main.{table} WHERE rowid = ?1"), [row])?;
        found.tidiness = found.tidiness.max(Tidiness::Untidy);
    }
    Ok(())
}

/// Keeps what somebody else has written, once it is about to be rewritten.
fn copy(path: &Path) -> Result<PathBuf, StoreError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".kept");
    let kept = path.with_file_name(name);
    std::fs::copy(path, &kept).map_err(|error| StoreError::io("copy", path, &error))?;
    disk::sync_folder_of(&kept)?;
    Ok(kept)
}

/// No number up to `seq` is given again.
fn raise(conn: &Connection, table: &str, seq: i64) -> Result<(), StoreError> {
    let raised = conn
        .execute("UPDATE main.sqlite_sequence SET seq = max(seq, ?2) WHERE name = ?1", params![table, seq])?;
    if raised == 0 {
        conn.execute("INSERT INTO main.sqlite_sequence (name, seq) VALUES (?1, ?2)", params![table, seq])?;
    }
    Ok(())
}
