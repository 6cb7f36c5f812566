//! Who changed what, when. Links show theirs to both sides.

use rusqlite::{Connection, params};

use super::{Result, all, execute};
use crate::domain::clock::Timestamp;
use crate::store::relay::AuditRow;

statements! {
    RECORD = "INSERT INTO audit (org, link, person, by, at, what) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    OF_LINK = "SELECT at, by, what FROM audit WHERE link = ?1 ORDER BY id DESC LIMIT ?2";
}

/// How many changes of a link are shown.
const SHOWN: i64 = 50;

/// What a change is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change<'a> {
    pub(super) org: Option<i64>,
    pub(super) link: Option<i64>,
    pub(super) person: i64,
    pub(super) by: &'a str,
}

impl Change<'_> {
    pub(super) fn record(self, conn: &Connection, now: Timestamp, what: &str) -> Result<()> {
        execute(conn, RECORD, params![self.org, self.link, self.person, self.by, now.millis(), what])?;
        Ok(())
    }
}

/// The latest changes of a link, oldest first.
pub(super) fn of_link(conn: &Connection, link: i64) -> Result<Vec<AuditRow>> {
    let mut rows = all(conn, OF_LINK, [link, SHOWN], |row| {
        Ok(AuditRow { at: Timestamp::from_millis(row.get(0)?), by: row.get(1)?, what: row.get(2)? })
    })?;
    rows.reverse();
    Ok(rows)
}
