//! A configuration that names another storage than before: what the old one holds moves into the new one, so that
//! there is one living store at any time. The old files keep lying beside it under another name.

use std::path::Path;

use rusqlite::Connection;

use super::load::as_written;
use super::{Files, Journal, keep, table};
use crate::store::jsonl::rows::Change;
use crate::store::node::V1_LINES;
use crate::store::sqlite::db::Db;
use crate::store::sqlite::schema::Steps;
use crate::store::{StoreError, disk};

/// From the append-only files of `folder`, if there are any of ours, into a database.
pub(in crate::store::sqlite) fn from_files(
    to: &Connection,
    folder: &Path,
    steps: Steps,
) -> Result<(), StoreError> {
    let files = Files::of(folder);
    if !files.rows.exists() {
        return Ok(());
    }
    let from = Db::connect_in_memory()?;
    let (journal, _) = Journal::open(&from, folder, steps)?;
    copy(&from, to)?;
    drop(journal);
    // The mail goes first: rows alone can move once more, mail alone would pass for a Node broker's.
    set_aside(&files.mail)?;
    set_aside(&files.rows)
}

/// A Node broker's `messages.jsonl` that the database has taken over is no part of what lives: it would come to life
/// again if the JSONL store found it.
pub(in crate::store::sqlite) fn before_files(
    folder: &Path,
    database: &Path,
    steps: Steps,
) -> Result<(), StoreError> {
    let files = Files::of(folder);
    if files.rows.exists() || !files.mail.exists() || !database.exists() {
        return Ok(());
    }
    match keep::takeover(&Db::connect(database, steps)?, V1_LINES)? {
        Some(_) => set_aside(&files.mail),
        None => Ok(()),
    }
}

/// From the database file, if there is one, into the files of `journal`.
pub(in crate::store::sqlite) fn from_database(
    to: &Connection,
    journal: &mut Journal,
    path: &Path,
    steps: Steps,
) -> Result<(), StoreError> {
    if !path.exists() {
        return Ok(());
    }
    let from = Db::connect(path, steps)?;
    copy(&from, to)?;
    journal.compact(to)?;
    journal.forget(to)?;
    // Closing the last connection puts everything into the one file.
    from.close().map_err(|(_, error)| error)?;
    set_aside(path)
}

/// Copies every row. A second time changes nothing: a crash may have come before the old files were set aside.
fn copy(from: &Connection, to: &Connection) -> Result<(), StoreError> {
    as_written(to, true)?;
    to.execute_batch("BEGIN")?;
    for table in table::all(to)? {
        table.each_row(from, |cells| {
            let known = table.apply(to, &Change::Row(cells))?;
            known.ok_or_else(|| StoreError::Other(format!("a row of {} does not fit", table.name())))
        })?;
    }
    to.execute_batch("COMMIT")?;
    as_written(to, false)
}

fn set_aside(path: &Path) -> Result<(), StoreError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".old");
    let old = path.with_file_name(name);
    std::fs::rename(path, &old).map_err(|error| StoreError::io("rename", path, &error))?;
    tracing::warn!(file = %path.display(), now = %old.display(), "store_moved");
    disk::sync_folder_of(path)
}
