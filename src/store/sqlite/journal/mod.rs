//! The JSONL store's database: SQLite in memory, and two files that hold the same. Before a batch is committed, the
//! owner of the database appends what it has changed to the files; at a start the files make the database again.
//!
//! What a batch has changed is told by temporary triggers, which write the keys into temporary tables: unlike
//! SQLite's hooks they see tables without row ids, and a job that is rolled back takes its keys along.

mod compact;
mod load;
pub(super) mod moved;
mod table;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::db;
use super::local::keep;
use super::schema::Steps;
use crate::store::StoreError;
use crate::store::jsonl::append_file::AppendFile;
use crate::store::jsonl::rows::RowLine;
use crate::store::jsonl::{Mark, ROWS, mail, rows};
use crate::store::node;
use load::Tidiness;
use table::Table;

pub use load::Loaded;

/// Nothing is compacted below this size: rewriting so little gains nothing.
const SMALL: u64 = 1 << 20;

/// The files of a JSONL store, and how far they are.
#[derive(Debug)]
pub(super) struct Journal {
    mail: AppendFile,
    rows: AppendFile,
    tables: Vec<Table>,
    /// The last batch that the files may know of.
    batch: u64,
    /// The last batch that has changed rows.
    rows_batch: u64,
    /// What the last batch has written.
    last: Last,
    schema: usize,
    /// The size of both files at which they are rewritten.
    compact_at: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Last {
    mail: bool,
    rows: bool,
    /// The batch before it that has changed rows.
    rows_batch: u64,
}

/// What a batch has changed.
struct Changes {
    mail: Vec<Mail>,
    rows: Vec<RowLine>,
}

enum Mail {
    Kept(Box<crate::store::local::KeptMessage>),
    Gone { seq: i64, id: String },
}

/// Where the files lie.
#[derive(Clone, Debug)]
struct Files {
    mail: PathBuf,
    rows: PathBuf,
}

impl Files {
    fn of(folder: &Path) -> Self {
        Self { mail: folder.join(node::V1_LINES), rows: folder.join(ROWS) }
    }
}

impl Journal {
    /// Makes the database from the files of `folder`, and watches it from then on.
    pub(super) fn open(conn: &Connection, folder: &Path, steps: Steps) -> Result<(Self, Loaded), StoreError> {
        let files = Files::of(folder);
        let load::Found { loaded, batch, rows_batch, cut_mail, cut_rows, tidiness } =
            load::load(conn, &files, steps)?;
        let tables = table::all(conn)?;
        for table in &tables {
            table.watch(conn)?;
        }
        let mut journal = Self {
            mail: AppendFile::open(&files.mail)?,
            rows: AppendFile::open(&files.rows)?,
            tables,
            batch,
            rows_batch,
            last: Last::default(),
            schema: steps.len(),
            compact_at: 0,
        };
        cut_rows.map_or(Ok(()), |end| journal.rows.cut(end))?;
        cut_mail.map_or(Ok(()), |end| journal.mail.cut(end))?;
        match tidiness {
            Tidiness::Tidy => {}
            Tidiness::Untidy => journal.try_to_compact(conn),
            Tidiness::Unusable => journal.compact(conn)?,
        }
        journal.compact_later();
        Ok((journal, loaded))
    }

    fn size(&self) -> u64 {
        self.mail.len() + self.rows.len()
    }

    /// The files may grow to twice their size, so that rewriting costs no more than writing did.
    fn compact_later(&mut self) {
        self.compact_at = self.size().saturating_add(self.size().max(SMALL));
    }

    /// Without room for it, the files go on growing.
    fn try_to_compact(&mut self, conn: &Connection) {
        let before = self.size();
        match self.compact(conn) {
            Ok(()) => tracing::debug!(before, after = self.size(), "journal_compacted"),
            Err(error) => tracing::warn!(%error, "journal_not_compacted"),
        }
    }

    /// What has changed so far stands in the files already.
    fn forget(&self, conn: &Connection) -> Result<(), StoreError> {
        self.tables.iter().try_for_each(|table| table.forget(conn))
    }

    fn changes(&self, conn: &Connection) -> Result<Changes, StoreError> {
        let mut changes = Changes { mail: Vec::new(), rows: Vec::new() };
        for table in &self.tables {
            if table.is_mail() {
                for (seq, id) in table.changed_mail(conn)? {
                    changes.mail.push(match keep::by_seq(conn, seq)? {
                        Some(kept) => Mail::Kept(Box::new(kept)),
                        None => Mail::Gone { seq, id },
                    });
                }
            } else {
                let changed = table.changed(conn)?;
                changes.rows.extend(
                    changed.into_iter().map(|change| RowLine { table: table.name().to_owned(), change }),
                );
            }
            table.forget(conn)?;
        }
        Ok(changes)
    }
}

impl db::Journal for Journal {
    fn keep(&mut self, conn: &Connection) -> Result<(), StoreError> {
        self.last = Last::default();
        let changes = self.changes(conn)?;
        if changes.mail.is_empty() && changes.rows.is_empty() {
            return Ok(());
        }
        // While a rest of an earlier batch stands in one file, the other must not go on either.
        self.mail.settle()?;
        self.rows.settle()?;
        let batch = self.batch + 1;
        let with_rows = !changes.rows.is_empty();
        let mark = |left: usize, rows: bool| {
            Some(Mark { batch, left: u64::try_from(left).unwrap_or(u64::MAX), rows })
        };
        let mail = lines(&changes.mail, |line, left| match line {
            Mail::Kept(kept) => mail::kept(kept, mark(left, with_rows)),
            Mail::Gone { seq, id } => mail::gone(*seq, id, mark(left, with_rows)),
        })?;
        let rows = lines(&changes.rows, |line, left| rows::line(line, mark(left, false)))?;
        self.batch = batch;
        self.last = Last { rows_batch: self.rows_batch, ..Last::default() };
        // The rows come last: with them the batch counts.
        if !mail.is_empty() {
            self.mail.append(&mail)?;
            self.last.mail = true;
        }
        if with_rows {
            if let Err(error) = self.rows.append(&rows) {
                self.undo();
                return Err(error);
            }
            self.last.rows = true;
            self.rows_batch = batch;
        }
        Ok(())
    }

    fn undo(&mut self) {
        let Last { mail, rows, rows_batch } = std::mem::take(&mut self.last);
        if rows {
            self.rows.undo();
            self.rows_batch = rows_batch;
        }
        if mail {
            self.mail.undo();
        }
    }

    fn tidy(&mut self, conn: &Connection) {
        if self.size() >= self.compact_at {
            self.try_to_compact(conn);
            self.compact_later();
        }
    }
}

/// The lines of one file; each is told how many follow it.
fn lines<T>(
    changes: &[T],
    line: impl Fn(&T, usize) -> Result<String, StoreError>,
) -> Result<Vec<u8>, StoreError> {
    let mut out = Vec::new();
    for (at, change) in changes.iter().enumerate() {
        out.extend(line(change, changes.len() - at - 1)?.into_bytes());
        out.push(b'\n');
    }
    Ok(out)
}
