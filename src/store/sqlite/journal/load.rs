//! From the files to the database. Batches that were not written to their end have never been.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, params};

use super::compact::NUMBERS;
use super::table::{self, Table};
use super::{Files, keep};
use crate::domain::clock::Timestamp;
use crate::store::jsonl::mail::{self, MailLine};
use crate::store::jsonl::rows::{self, Change, Header, RowLine};
use crate::store::jsonl::{Mark, ROWS};
use crate::store::node::lines::{Line, Lines};
use crate::store::node::{Broken, Place};
use crate::store::sqlite::node_files;
use crate::store::sqlite::schema::{self, Steps};
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
    let has_rows = load_rows(conn, &files.rows, steps, &mut found)?;
    found.batch = found.rows_batch;
    MailLoader::new(conn, &mut found).load(&files.mail)?;
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

/// Whether there was a file. A damaged line in its middle stops the start: unlike a lost message, a lost pin or
/// outbox entry shows nowhere.
fn load_rows(conn: &Connection, path: &Path, steps: Steps, found: &mut Found) -> Result<bool, StoreError> {
    let damaged = |line: usize, why: &str| StoreError::Damaged(format!("{ROWS}, line {line}: {why}"));
    let Some(mut lines) = Lines::of_file(path)? else {
        schema::migrate(conn, steps)?;
        found.tidiness = Tidiness::Unusable;
        return Ok(false);
    };
    let read = |line: std::io::Result<Line>| line.map_err(|error| StoreError::io("read", path, &error));
    let first = lines.next().transpose().map_err(|error| StoreError::io("read", path, &error))?;
    let mut end = first.as_ref().map_or(0, |line| line.end);
    let header = first.and_then(|line| Header::parse(&line.text?));
    let header = header.ok_or_else(|| damaged(1, "is not the first line of such a file"))?;
    let known = steps.get(..header.schema).ok_or_else(|| {
        StoreError::Other(format!("{ROWS} was written by a newer version of redsyn-bridge"))
    })?;
    schema::migrate(conn, known)?;
    let tables: BTreeMap<String, Table> =
        table::all(conn)?.into_iter().map(|table| (table.name().to_owned(), table)).collect();
    if header.schema < steps.len() {
        found.tidiness = Tidiness::Unusable;
    }
    found.rows_batch = header.batch;
    conn.execute_batch("BEGIN")?;
    let mut pending: Vec<(RowLine, Mark)> = Vec::new();
    // A line that cannot be read is the end that a crash has left, unless a whole batch follows it.
    let mut unread = None;
    let mut len = end;
    for line in lines {
        let line = read(line)?;
        len = line.end;
        let Some((row, mark)) = line.text.as_deref().filter(|_| line.ended).and_then(rows::parse) else {
            unread.get_or_insert(line.number);
            pending.clear();
            continue;
        };
        match mark {
            None => apply(conn, &tables, &row).map_err(|why| damaged(line.number, &why))?,
            Some(mark) => {
                if pending.last().is_some_and(|(_, last)| !mark.follows(*last)) {
                    pending.clear();
                }
                pending.push((row, mark));
                if mark.left > 0 {
                    continue;
                }
                for (row, _) in pending.drain(..) {
                    apply(conn, &tables, &row).map_err(|why| damaged(line.number, &why))?;
                }
                found.rows_batch = mark.batch;
                found.tidiness = found.tidiness.max(Tidiness::Untidy);
            }
        }
        if let Some(line) = unread {
            return Err(damaged(line, "cannot be read; restore the file from a copy"));
        }
        end = line.end;
    }
    found.cut_rows = (end < len).then_some(end);
    conn.execute_batch("COMMIT")?;
    schema::migrate(conn, steps)?;
    Ok(true)
}

fn apply(conn: &Connection, tables: &BTreeMap<String, Table>, line: &RowLine) -> Result<(), String> {
    if let (NUMBERS, Change::Row(cells)) = (line.table.as_str(), &line.change) {
        let name = cells.get("name").and_then(serde_json::Value::as_str).ok_or("no name")?;
        let seq = cells.get("seq").and_then(serde_json::Value::as_i64).ok_or("no number")?;
        return raise(conn, name, seq).map_err(|error| error.to_string());
    }
    let table = tables.get(&line.table).ok_or("an unknown table")?;
    match table.apply(conn, &line.change) {
        Ok(Some(())) => Ok(()),
        Ok(None) => Err("an unknown column".into()),
        Err(error) => Err(error.to_string()),
    }
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

struct MailLoader<'a> {
    conn: &'a Connection,
    found: &'a mut Found,
    /// The lines of the batch that is being read.
    pending: Vec<(usize, MailLine)>,
    /// Behind the last line that counts.
    end: u64,
    /// Behind that stands something that does not.
    has_dropped: bool,
    applied: usize,
    highest: i64,
}

impl<'a> MailLoader<'a> {
    const fn new(conn: &'a Connection, found: &'a mut Found) -> Self {
        Self { conn, found, pending: Vec::new(), end: 0, has_dropped: false, applied: 0, highest: 0 }
    }

    fn load(mut self, path: &Path) -> Result<(), StoreError> {
        let Some(lines) = Lines::of_file(path)? else { return Ok(()) };
        // The only time to be had for messages that tell none.
        let undated = node_files::fingerprint(path)?.map_or(Timestamp::default(), |print| print.changed);
        self.conn.execute_batch("BEGIN")?;
        for line in lines {
            self.line(line.map_err(|error| StoreError::io("read", path, &error))?, undated)?;
        }
        self.drop_pending();
        if self.has_dropped {
            self.found.cut_mail = Some(self.end);
        }
        raise(self.conn, "messages", self.highest)?;
        self.conn.execute_batch("COMMIT")?;
        let count: i64 = self.conn.query_row("SELECT count(*) FROM messages", [], |row| row.get(0))?;
        self.found.loaded.messages = usize::try_from(count).unwrap_or_default();
        if self.applied > self.found.loaded.messages {
            self.untidy(Tidiness::Untidy);
        }
        Ok(())
    }

    fn line(&mut self, line: Line, undated: Timestamp) -> Result<(), StoreError> {
        let parsed = match line.text.as_deref() {
            Some("") => return Ok(()),
            Some(text) => mail::parse(text, undated),
            None => Err("no text"),
        };
        let mark = parsed.as_ref().ok().and_then(|parsed| parsed.mark);
        if !mark.is_some_and(|mark| self.last_mark().is_some_and(|last| mark.follows(last))) {
            self.drop_pending();
        }
        match (parsed, mark) {
            // The end that a crash has left. Another broker's last line may just lack its end.
            (Err(_), _) | (_, Some(_)) if !line.ended => self.has_dropped = true,
            (Err(why), _) => {
                self.broken(line.number, why);
                self.counts(&line);
            }
            (Ok(parsed), None) => {
                self.pending.push((line.number, parsed));
                self.apply_pending()?;
                self.counts(&line);
                if !line.ended {
                    self.untidy(Tidiness::Unusable);
                }
            }
            (Ok(parsed), Some(mark)) => {
                self.found.batch = self.found.batch.max(mark.batch);
                self.pending.push((line.number, parsed));
                if mark.left == 0 && (!mark.rows || mark.batch <= self.found.rows_batch) {
                    self.apply_pending()?;
                    self.counts(&line);
                }
            }
        }
        Ok(())
    }

    fn last_mark(&self) -> Option<Mark> {
        self.pending.last().and_then(|(_, last)| last.mark)
    }

    /// A batch that was never finished.
    fn drop_pending(&mut self) {
        self.has_dropped |= !self.pending.is_empty();
        self.pending.clear();
    }

    /// The file is good up to here. What was dropped before cannot be cut off any more: another broker has written
    /// behind it.
    fn counts(&mut self, line: &Line) {
        if std::mem::take(&mut self.has_dropped) {
            self.untidy(Tidiness::Unusable);
        }
        self.end = line.end;
    }

    fn untidy(&mut self, tidiness: Tidiness) {
        self.found.tidiness = self.found.tidiness.max(tidiness);
    }

    fn broken(&mut self, line: usize, why: &'static str) {
        self.found.loaded.broken.push(Broken { place: Place::Line(line), why });
        self.untidy(Tidiness::Untidy);
    }

    fn apply_pending(&mut self) -> Result<(), StoreError> {
        for (number, line) in std::mem::take(&mut self.pending) {
            self.applied += 1;
            if let Err(why) = self.apply(&line.change)? {
                self.broken(number, why);
            }
        }
        Ok(())
    }

    fn apply(&mut self, change: &mail::Change) -> Result<Result<(), &'static str>, StoreError> {
        let (seq, kept) = match change {
            mail::Change::Kept(kept) => (kept.stored.seq, Some(kept)),
            mail::Change::Gone { seq } => (*seq, None),
        };
        self.highest = self.highest.max(seq);
        self.conn.prepare_cached("DELETE FROM messages WHERE seq = ?1")?.execute([seq])?;
        let Some(kept) = kept else { return Ok(Ok(())) };
        Ok(if keep::insert(self.conn, kept, Some(seq))? {
            Ok(())
        } else {
            Err("its id is another message's")
        })
    }
}
