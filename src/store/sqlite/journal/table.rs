//! A table as the journal sees it: its columns, its key, the triggers that note what changes.

use rusqlite::types::Value as Cell;
use rusqlite::{Connection, Row, params_from_iter};

use crate::store::StoreError;
use crate::store::jsonl::rows::{Cells, Change};
use crate::store::sqlite::cells;

/// The table that has a file of its own, and what is noted of its rows: the key, and the id that the Node broker
/// wants to know of a deleted message.
const MAIL: &str = "messages";
const MAIL_NOTED: [&str; 2] = ["seq", "id"];

const TABLES: &str = "SELECT name FROM main.sqlite_schema
    WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
const COLUMNS: &str = "SELECT name, pk FROM pragma_table_info(?1) ORDER BY cid";

#[derive(Debug)]
pub(super) struct Table {
    name: String,
    columns: Vec<String>,
    key: Vec<String>,
}

/// Every table of the database.
pub(super) fn all(conn: &Connection) -> Result<Vec<Table>, StoreError> {
    let mut names = conn.prepare(TABLES)?;
    let names = names.query_map([], |row| row.get(0))?.collect::<Result<Vec<_>, _>>()?;
    names.into_iter().map(|name| Table::named(conn, name)).collect()
}

impl Table {
    fn named(conn: &Connection, name: String) -> Result<Self, StoreError> {
        let mut columns = conn.prepare(COLUMNS)?;
        let columns = columns.query_map([&name], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let columns = columns.collect::<Result<Vec<(String, i64)>, _>>()?;
        let mut key: Vec<_> = columns.iter().filter(|(_, place)| *place > 0).cloned().collect();
        key.sort_by_key(|(_, place)| *place);
        if key.is_empty() {
            return Err(StoreError::Other(format!("the table {name} has no primary key to journal it by")));
        }
        let name_of = |(name, _): (String, i64)| name;
        let columns = columns.into_iter().map(name_of).collect();
        Ok(Self { name, columns, key: key.into_iter().map(name_of).collect() })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_mail(&self) -> bool {
        self.name == MAIL
    }

    fn noted(&self) -> Vec<&str> {
        if self.is_mail() { MAIL_NOTED.to_vec() } else { self.key.iter().map(String::as_str).collect() }
    }

    /// Notes from now on the key of every row that changes. The notes are part of the transaction.
    pub(super) fn watch(&self, conn: &Connection) -> Result<(), StoreError> {
        let Self { name, .. } = self;
        let of = |row: &str| {
            self.noted().iter().map(|column| format!("{row}.{column}")).collect::<Vec<_>>().join(", ")
        };
        let (new, old) = (of("NEW"), of("OLD"));
        conn.execute_batch(&format!(
            "CREATE TEMP TABLE changed_{name} ({columns});
            CREATE TEMP TRIGGER insert_{name} AFTER INSERT ON main.{name}
                BEGIN INSERT INTO changed_{name} VALUES ({new}); END;
            CREATE TEMP TRIGGER update_{name} AFTER UPDATE ON main.{name}
                BEGIN INSERT INTO changed_{name} VALUES ({old}), ({new}); END;
            CREATE TEMP TRIGGER delete_{name} AFTER DELETE ON main.{name}
                BEGIN INSERT INTO changed_{name} VALUES ({old}); END;",
            columns = self.noted().join(", "),
        ))?;
        Ok(())
    }

    /// The numbers and ids of the messages that have changed, in the order of their numbers.
    pub(super) fn changed_mail(&self, conn: &Connection) -> Result<Vec<(i64, String)>, StoreError> {
        let mut changed =
            conn.prepare_cached("SELECT seq, min(id) FROM changed_messages GROUP BY seq ORDER BY seq")?;
        let rows = changed.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// What has become of the rows that have changed.
    pub(super) fn changed(&self, conn: &Connection) -> Result<Vec<Change>, StoreError> {
        let Self { name, columns, key } = self;
        let same = key.iter().map(|column| format!("row.{column} = changed.{column}")).collect::<Vec<_>>();
        let [first, ..] = key.as_slice() else { return Ok(Vec::new()) };
        let list = |of: &str, names: &[String]| {
            names.iter().map(|column| format!("{of}.{column}")).collect::<Vec<_>>().join(", ")
        };
        let mut changed = conn.prepare_cached(&format!(
            "SELECT row.{first} IS NOT NULL, {keys}, {all}
            FROM (SELECT DISTINCT {names} FROM changed_{name}) AS changed LEFT JOIN main.{name} AS row ON {same}",
            names = key.join(", "),
            keys = list("changed", key),
            all = list("row", columns),
            same = same.join(" AND "),
        ))?;
        let mut rows = changed.query([])?;
        let mut changes = Vec::new();
        while let Some(row) = rows.next()? {
            let is_there = row.get(0)?;
            let (names, first) = if is_there { (columns, 1 + key.len()) } else { (key, 1) };
            changes.push(Change::of(cells_of(row, names, first)?, is_there));
        }
        Ok(changes)
    }

    /// Forgets what has changed so far.
    pub(super) fn forget(&self, conn: &Connection) -> Result<(), StoreError> {
        conn.prepare_cached(&format!("DELETE FROM changed_{}", self.name))?.execute([])?;
        Ok(())
    }

    /// Gives every row to `each`.
    pub(super) fn each_row(
        &self,
        conn: &Connection,
        mut each: impl FnMut(Cells) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut all = conn.prepare(&format!("SELECT {} FROM main.{}", self.columns.join(", "), self.name))?;
        let mut rows = all.query([])?;
        while let Some(row) = rows.next()? {
            each(cells_of(row, &self.columns, 0)?)?;
        }
        Ok(())
    }

    /// Does again what a line tells. `None` when the line names columns that are not here.
    pub(super) fn apply(&self, conn: &Connection, change: &Change) -> Result<Option<()>, StoreError> {
        let (Change::Row(cells) | Change::Gone(cells)) = change;
        let is_known = |name: &String| self.columns.contains(name);
        let values: Option<Vec<Cell>> = cells.values().map(cells::from_json).collect();
        let Some(values) = values.filter(|values| !values.is_empty() && cells.keys().all(is_known)) else {
            return Ok(None);
        };
        let names: Vec<&str> = cells.keys().map(String::as_str).collect();
        let sql = match change {
            Change::Row(_) => format!(
                "INSERT OR REPLACE INTO main.{} ({}) VALUES ({})",
                self.name,
                names.join(", "),
                vec!["?"; names.len()].join(", ")
            ),
            Change::Gone(_) => {
                format!("DELETE FROM main.{} WHERE {} = ?", self.name, names.join(" = ? AND "))
            }
        };
        conn.prepare_cached(&sql)?.execute(params_from_iter(values))?;
        Ok(Some(()))
    }
}

fn cells_of(row: &Row<'_>, names: &[String], first: usize) -> Result<Cells, StoreError> {
    let cell = |(at, name): (usize, &String)| Ok((name.clone(), cells::to_json(row.get_ref(first + at)?)?));
    names.iter().enumerate().map(cell).collect()
}
