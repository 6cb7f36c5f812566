//! Reading `broker.jsonl`.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::Connection;

use super::{Found, Tidiness, raise};
use crate::store::StoreError;
use crate::store::jsonl::rows::{self, Change, Header, RowLine};
use crate::store::jsonl::{Mark, ROWS};
use crate::store::node::lines::{Line, Lines};
use crate::store::sqlite::journal::compact::NUMBERS;
use crate::store::sqlite::journal::table::{self, Table};
use crate::store::sqlite::schema::{self, Steps};

/// Whether there was a file. A damaged line in its middle stops the start: unlike a lost message, a lost pin or
/// outbox entry shows nowhere.
pub(super) fn load(
    conn: &Connection,
    path: &Path,
    steps: Steps,
    found: &mut Found,
) -> Result<bool, StoreError> {
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
