//! The Node broker's databases. Reading never touches them: a database with a write-ahead log cannot be opened
//! without writing beside it, so a copy is opened.

use std::fs::{File, Metadata};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Row};
use tokio_util::sync::CancellationToken;

use super::cells;
use crate::domain::clock::Timestamp;
use crate::store::local::{Fingerprint, KeptMessage, StoredMessage};
use crate::store::node::v1::{self, Payload};
use crate::store::node::v2;
use crate::store::node::{Broken, Found, Messages, Place};
use crate::store::{StoreError, disk};

/// What lies beside a database and belongs to it.
const PARTS: [&str; 3] = ["", "-wal", "-journal"];
/// Where a copy lies while it is read. One name, so that what a kill has left is found.
const COPY: &str = "takeover.copy";

const V1_SCHEMA: &str = "CREATE TABLE messages (seq INTEGER PRIMARY KEY, payload TEXT NOT NULL)";
const V2_SCHEMA: &str = "
    CREATE TABLE relay_v2_messages (
        message_id TEXT PRIMARY KEY, root_id TEXT NOT NULL, parent_id TEXT, origin TEXT NOT NULL,
        target TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, session_ref TEXT,
        execution_mode TEXT NOT NULL DEFAULT 'read', context TEXT NOT NULL DEFAULT '',
        topic TEXT NOT NULL DEFAULT '', idempotency_key TEXT NOT NULL, status TEXT NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0, lease_until REAL, last_error TEXT, created_at REAL NOT NULL,
        expires_at REAL NOT NULL, completed_at REAL, notified_at REAL,
        allow_shared_write INTEGER NOT NULL DEFAULT 0, lease_token TEXT
    );
    CREATE UNIQUE INDEX idx_v2_idempotency ON relay_v2_messages (origin, idempotency_key);
    CREATE INDEX idx_v2_ready ON relay_v2_messages (target, status, expires_at, created_at)";

/// The messages of a `relay.db`; `None` when there is no such file. The copy lies in `scratch` as long as they are read.
///
/// # Errors
/// When it cannot be copied or read, or is being written to; `Stopped` once `stop` is cancelled.
pub fn read_v1(
    path: &Path,
    scratch: &Path,
    stop: &CancellationToken,
) -> Result<Option<Messages<KeptMessage>>, StoreError> {
    let Some((copy, was)) = Copy::of(path, scratch, stop)? else { return Ok(None) };
    let page = "SELECT seq, payload FROM messages WHERE seq > ?1 ORDER BY seq LIMIT ?2";
    copy.messages("messages", page, move |row| {
        let payload = row.get_ref(1)?.as_str().map_err(|_| "no text");
        let seq = row.get(0)?;
        Ok(payload
            .and_then(|payload| v1::parse(payload, was.changed))
            .map(|message| v1::kept(StoredMessage { seq, ..message })))
    })
}

/// The messages of a `relay-v2.db`, as [`read_v1`] has it.
///
/// # Errors
/// When it cannot be copied or read, or is being written to; `Stopped` once `stop` is cancelled.
pub fn read_v2(
    path: &Path,
    scratch: &Path,
    stop: &CancellationToken,
) -> Result<Option<Messages<crate::store::v2::StoredMessage>>, StoreError> {
    let Some((copy, _)) = Copy::of(path, scratch, stop)? else { return Ok(None) };
    // Older versions have fewer columns.
    let page =
        "SELECT rowid AS row_number, * FROM relay_v2_messages WHERE rowid > ?1 ORDER BY rowid LIMIT ?2";
    copy.messages("relay_v2_messages", page, |row| {
        let names = row.as_ref().column_names();
        let fields: Result<serde_json::Map<_, _>, StoreError> = names
            .into_iter()
            .enumerate()
            .map(|(at, name)| Ok((name.to_owned(), cells::to_json(row.get_ref(at)?)?)))
            .collect();
        Ok(fields
            .map_err(|_| "a field is no text and no number")
            .and_then(|fields| v2::parse(&serde_json::Value::Object(fields).to_string())))
    })
}

/// Removes what a takeover that was killed has left in `scratch`.
pub fn remove_copies(scratch: &Path) {
    // What is not there need not go, and what does not go is in nobody's way but the next copy's, which says so.
    let _ = std::fs::remove_dir_all(scratch.join(COPY));
}

/// How a file looks now, with all that lies beside it; `None` when it is not there.
///
/// # Errors
/// When the system does not tell.
pub fn fingerprint(path: &Path) -> Result<Option<Fingerprint>, StoreError> {
    let mut print: Option<Fingerprint> = None;
    for part in PARTS {
        let part = beside(path, part);
        let metadata = match std::fs::metadata(&part) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && print.is_none() => return Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(StoreError::io("read", &part, &error)),
        };
        let changed = changed(&metadata).map_err(|error| StoreError::io("read", &part, &error))?;
        let size = i64::try_from(metadata.len()).unwrap_or(i64::MAX);
        print = Some(print.map_or(Fingerprint { size, changed }, |print| Fingerprint {
            size: print.size.saturating_add(size),
            changed: print.changed.max(changed),
        }));
    }
    Ok(print)
}

fn changed(metadata: &Metadata) -> std::io::Result<Timestamp> {
    let since = metadata.modified()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Ok(Timestamp::default().plus(since))
}

fn beside(path: &Path, part: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(part);
    path.with_file_name(name)
}

/// A database that may be changed by looking at it. Gone when dropped.
struct Copy {
    conn: Connection,
    /// After the connection, which has its files open.
    _folder: Scratch,
}

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Copy {
    fn of(
        path: &Path,
        scratch: &Path,
        stop: &CancellationToken,
    ) -> Result<Option<(Self, Fingerprint)>, StoreError> {
        let Some(was) = fingerprint(path)? else { return Ok(None) };
        remove_copies(scratch);
        let folder = Scratch(scratch.join(COPY));
        disk::private_folder(&folder.0)?;
        let copy = folder.0.join("copy.db");
        for part in PARTS {
            copy_file(&beside(path, part), &beside(&copy, part), stop)?;
        }
        if fingerprint(path)? != Some(was) {
            return Err(StoreError::Locked);
        }
        Ok(Some((Self { conn: Connection::open(copy)?, _folder: folder }, was)))
    }

    /// The rows of a table, page by page. The first column of `page` is the row's number.
    fn messages<T: Send + 'static>(
        self,
        table: &str,
        page: &'static str,
        parse: impl Fn(&Row<'_>) -> Result<Result<T, &'static str>, StoreError> + Send + 'static,
    ) -> Result<Option<Messages<T>>, StoreError> {
        const PAGE: u32 = 500;
        let count: i64 =
            self.conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))?;
        // Numbers below zero are none of the Node broker's, but rows they are.
        let mut behind = i64::MIN;
        let mut read = move || -> Result<Vec<Found<T>>, StoreError> {
            // The whole of it: the files must outlive the reading.
            let copy = &self;
            let mut rows = copy.conn.prepare_cached(page)?;
            let mut rows = rows.query((behind, PAGE))?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                behind = row.get(0)?;
                found.push(parse(row)?.map_err(|why| Broken { place: Place::Row(behind), why }));
            }
            Ok(found)
        };
        let mut has_failed = false;
        let pages = std::iter::from_fn(move || {
            if has_failed {
                return None;
            }
            match read() {
                Ok(page) if page.is_empty() => None,
                Ok(page) => Some(page.into_iter().map(Ok).collect::<Vec<_>>()),
                Err(error) => {
                    has_failed = true;
                    Some(vec![Err(error)])
                }
            }
        });
        Ok(Some(Messages::new(usize::try_from(count).unwrap_or_default(), pages.flatten())))
    }
}

/// Nothing when it is not there.
fn copy_file(from: &Path, to: &Path, stop: &CancellationToken) -> Result<(), StoreError> {
    const PART: u64 = 16 << 20;
    let failed = |error: std::io::Error| StoreError::io("copy", from, &error);
    let source = match File::open(from) {
        Ok(source) => source,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let mut target = disk::open(to)?;
    while std::io::copy(&mut (&source).take(PART), &mut target).map_err(failed)? > 0 {
        if stop.is_cancelled() {
            return Err(StoreError::Stopped);
        }
    }
    Ok(())
}

/// A database that is being written for the Node broker. It gets its name when it is finished.
#[derive(Debug)]
pub struct NodeDatabase {
    conn: Connection,
    unfinished: disk::Unfinished,
}

impl NodeDatabase {
    /// # Errors
    /// When the file cannot be made.
    pub fn v1(path: &Path) -> Result<Self, StoreError> {
        Self::create(path, V1_SCHEMA)
    }

    /// # Errors
    /// When the file cannot be made.
    pub fn v2(path: &Path) -> Result<Self, StoreError> {
        Self::create(path, V2_SCHEMA)
    }

    fn create(path: &Path, schema: &str) -> Result<Self, StoreError> {
        let (unfinished, file) = disk::Unfinished::create(path)?;
        drop(file);
        let conn = Connection::open(unfinished.file())?;
        conn.execute_batch(&format!("{schema}; BEGIN"))?;
        Ok(Self { conn, unfinished })
    }

    /// # Errors
    /// When it cannot be written.
    pub fn add_v1(&self, stored: &StoredMessage) -> Result<(), StoreError> {
        let payload = Payload::of(stored).to_json()?;
        self.conn
            .prepare_cached("INSERT INTO messages (seq, payload) VALUES (?1, ?2)")?
            .execute((stored.seq, payload))?;
        Ok(())
    }

    /// # Errors
    /// When it cannot be written.
    pub fn add_v2(&self, stored: &crate::store::v2::StoredMessage) -> Result<(), StoreError> {
        let message = v2::Payload::of(stored);
        let sql = "INSERT INTO relay_v2_messages (message_id, root_id, parent_id, origin, target, kind, body,
                session_ref, execution_mode, context, topic, idempotency_key, status, attempts, lease_until,
                last_error, created_at, expires_at, completed_at, notified_at, allow_shared_write, lease_token)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
                ?21, ?22)";
        self.conn.prepare_cached(sql)?.execute(rusqlite::params![
            message.message_id.as_str(),
            message.root_id,
            message.parent_id,
            message.origin.as_str(),
            message.target.as_str(),
            message.kind,
            message.body,
            message.session_ref,
            message.execution_mode,
            message.context,
            message.topic,
            message.idempotency_key,
            message.status,
            message.attempts,
            message.lease_until,
            message.last_error,
            message.created_at,
            message.expires_at,
            message.completed_at,
            message.notified_at,
            message.allow_shared_write,
            message.lease_token,
        ])?;
        Ok(())
    }

    /// Makes it durable; it still lacks its name.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn written(self) -> Result<disk::Unfinished, StoreError> {
        self.conn.execute_batch("COMMIT")?;
        self.conn.close().map_err(|(_, error)| error)?;
        Ok(self.unfinished)
    }
}

#[cfg(test)]
mod tests;
