//! Rewriting the files with nothing but what counts. Each is replaced as a whole; between the two replacements they
//! still tell the same, as neither has lost a batch that the other relies on.

use rusqlite::Connection;

use super::{Journal, keep};
use crate::store::jsonl::rows::{Change, Header, RowLine};
use crate::store::jsonl::{mail, rows};
use crate::store::{StoreError, disk};

/// Where SQLite keeps the highest number ever given in each table. Deleted messages are in neither file after this,
/// and their numbers must not be given again.
pub(super) const NUMBERS: &str = "sqlite_sequence";
/// How many messages are read at once.
const PAGE: u32 = 500;

impl Journal {
    /// The rows go first: with them the files know of every number that was given, whatever the mail still holds.
    /// The first line tells the last batch that has changed rows, and no later one: mail of a batch whose rows were
    /// never written must not begin to count.
    pub(super) fn compact(&mut self, conn: &Connection) -> Result<(), StoreError> {
        self.mail.settle()?;
        self.rows.settle()?;
        let header = rows::header(Header { schema: self.schema, batch: self.rows_batch })?;
        let path = self.rows.path().to_owned();
        let tables = &self.tables;
        self.rows.replace(|out| {
            let mut put = |line: &str| disk::write_all(out, &path, format!("{line}\n").as_bytes());
            put(&header)?;
            let mut put_row = |table: &str, cells| {
                let line = RowLine { table: table.to_owned(), change: Change::Row(cells) };
                put(&rows::line(&line, None)?)
            };
            for numbers in numbers(conn)? {
                put_row(NUMBERS, numbers)?;
            }
            for table in tables.iter().filter(|table| !table.is_mail()) {
                table.each_row(conn, |cells| put_row(table.name(), cells))?;
            }
            Ok(())
        })?;
        let path = self.mail.path().to_owned();
        self.mail.replace(|out| {
            let mut seq = 0;
            loop {
                let page = keep::after(conn, seq, PAGE)?;
                let Some(last) = page.last() else { return Ok(()) };
                seq = last.stored.seq;
                for message in &page {
                    disk::write_all(out, &path, format!("{}\n", mail::kept(message, None)?).as_bytes())?;
                }
            }
        })
    }
}

fn numbers(conn: &Connection) -> Result<Vec<rows::Cells>, StoreError> {
    let mut numbers = conn.prepare("SELECT name, seq FROM main.sqlite_sequence")?;
    let rows = numbers.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
    let cells = |(name, seq): (String, i64)| {
        [("name".to_owned(), name.into()), ("seq".to_owned(), seq.into())].into_iter().collect()
    };
    Ok(rows.map(|row| row.map(cells)).collect::<Result<_, _>>()?)
}
