//! The Node broker's databases. Reading never touches them: a database with a write-ahead log cannot be opened
//! without writing beside it, so a copy is opened.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use tempfile::TempDir;

use super::cells;
use crate::domain::clock::Timestamp;
use crate::store::local::{Fingerprint, KeptMessage, StoredMessage};
use crate::store::node::v1::{self, Payload};
use crate::store::node::v2;
use crate::store::node::{Broken, Place, Read};
use crate::store::{StoreError, disk};

/// What lies beside a database and belongs to it.
const PARTS: [&str; 3] = ["", "-wal", "-journal"];

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

/// The messages of a `relay.db`; `None` when there is no such file. The copy lies in `scratch` for a while.
///
/// # Errors
/// When it cannot be copied or read, or is being written to.
pub fn read_v1(path: &Path, scratch: &Path) -> Result<Option<Read<KeptMessage>>, StoreError> {
    let Some((copy, was)) = Copy::of(path, scratch)? else { return Ok(None) };
    let mut read = Read::default();
    let mut rows = copy.conn.prepare("SELECT seq, payload FROM messages ORDER BY seq")?;
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        let seq = row.get(0)?;
        let payload = row.get_ref(1)?.as_str().map_err(|_| "no text");
        match payload.and_then(|payload| v1::parse(payload, was.changed)) {
            Ok(message) => read.found.push(v1::kept(StoredMessage { seq, ..message })),
            Err(why) => read.broken.push(Broken { place: Place::Row(seq), why }),
        }
    }
    Ok(Some(read))
}

/// The messages of a `relay-v2.db`, as [`read_v1`] has it.
///
/// # Errors
/// When it cannot be copied or read, or is being written to.
pub fn read_v2(
    path: &Path,
    scratch: &Path,
) -> Result<Option<Read<crate::store::v2::StoredMessage>>, StoreError> {
    let Some((copy, _)) = Copy::of(path, scratch)? else { return Ok(None) };
    let mut read = Read::default();
    // Older versions have fewer columns.
    let mut rows =
        copy.conn.prepare("SELECT rowid AS row_number, * FROM relay_v2_messages ORDER BY rowid")?;
    let names: Vec<String> = rows.column_names().map(str::to_owned).collect();
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        let fields: Result<serde_json::Map<_, _>, StoreError> = names
            .iter()
            .enumerate()
            .map(|(at, name)| Ok((name.clone(), cells::to_json(row.get_ref(at)?)?)))
            .collect();
        let message = fields
            .map_err(|_| "a field is no text and no number")
            .and_then(|fields| v2::parse(&serde_json::Value::Object(fields).to_string()));
        match message {
            Ok(message) => read.found.push(message),
            Err(why) => read.broken.push(Broken { place: Place::Row(row.get(0)?), why }),
        }
    }
    Ok(Some(read))
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
    _folder: TempDir,
}

impl Copy {
    fn of(path: &Path, scratch: &Path) -> Result<Option<(Self, Fingerprint)>, StoreError> {
        let Some(was) = fingerprint(path)? else { return Ok(None) };
        let folder = tempfile::tempdir_in(scratch)
            .map_err(|error| StoreError::io("make a folder in", scratch, &error))?;
        let copy = folder.path().join("copy.db");
        for part in PARTS {
            let original = beside(path, part);
            match std::fs::copy(&original, beside(&copy, part)) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(StoreError::io("copy", &original, &error)),
            }
        }
        if fingerprint(path)? != Some(was) {
            return Err(StoreError::Locked);
        }
        Ok(Some((Self { conn: Connection::open(copy)?, _folder: folder }, was)))
    }
}

/// A database that is being written for the Node broker. It gets its name when it is finished.
#[derive(Debug)]
pub struct NodeDatabase {
    conn: Connection,
    path: PathBuf,
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
        let new = disk::beside(path);
        // What an earlier attempt has left.
        let _ = std::fs::remove_file(&new);
        drop(disk::open(&new)?);
        let conn = Connection::open(&new)?;
        conn.execute_batch(&format!("{schema}; BEGIN"))?;
        Ok(Self { conn, path: path.to_owned() })
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

    /// Makes it durable and gives it its name.
    ///
    /// # Errors
    /// When it cannot be written, or a file of that name has appeared.
    pub fn finish(self) -> Result<(), StoreError> {
        self.conn.execute_batch("COMMIT")?;
        self.conn.close().map_err(|(_, error)| error)?;
        disk::place(&disk::beside(&self.path), &self.path, false)
    }
}

#[cfg(test)]
mod tests;
