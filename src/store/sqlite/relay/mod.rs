//! The relay's store on SQLite: one database and one folder of files. Each operation is one transaction of the
//! owning thread; the logic lies in the file named after its concern.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Params, Row};

use super::db::{Db, Written};
use crate::domain::clock::Timestamp;
use crate::domain::random::SharedRandom;
use crate::domain::relay::plan::Plans;
use crate::domain::relay::refusal::Refusal;
use crate::store::StoreError;
use crate::store::relay::{Answer, Caller, Changed, RelayStoreError, TokenHash};

/// Declares a file's SQL as named constants, and the list of all of them for the query plan test.
macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $sql:expr;)*) => {
        $($(#[$doc])* const $name: &str = $sql;)*
        #[cfg(test)]
        pub(super) const STATEMENTS: &[(&str, &str)] = &[$((concat!(module_path!(), "::", stringify!($name)), $name)),*];
    };
}

mod agents;
mod answer;
mod audit;
mod callers;
mod directory;
mod due;
mod events;
mod files;
mod inbox;
mod invites;
mod lanes;
mod links;
mod messages;
mod operations;
mod orgs;
mod people;
#[cfg(test)]
mod query_plans;
mod removal;
mod request;
mod retention;
mod schema;
mod send;
mod session_view;
mod sessions;
mod topics;
mod tx;
mod usage;
mod webhooks;

use callers::Callers;
use files::FileFolder;
use tx::Tx;

pub(super) type Result<T> = std::result::Result<T, RelayStoreError>;

impl From<rusqlite::Error> for RelayStoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

/// A relay's store in one folder: `relay.db` and `relay-files/`.
#[derive(Debug)]
pub struct SqliteRelay {
    db: Db,
    /// For calls that change nothing.
    reader: Db,
    /// For looking up tokens alone: every call begins with it, and must not wait for somebody's long list.
    tokens: Db,
    callers: Arc<Callers>,
    files: FileFolder,
    plans: Arc<Plans>,
    random: SharedRandom,
}

impl SqliteRelay {
    /// Opens or creates the store in `folder`, which must exist.
    ///
    /// # Errors
    /// When the database or the files cannot be opened.
    pub async fn open(
        folder: &Path,
        plans: Arc<Plans>,
        random: SharedRandom,
    ) -> std::result::Result<Self, StoreError> {
        let file = folder.join("relay.db");
        let db = Db::open(&file, schema::STEPS)?;
        let (reader, tokens) = (Db::open_reader(&file)?, Db::open_reader(&file)?);
        let files = FileFolder::open(&folder.join("relay-files"))?;
        let store = Self { db, reader, tokens, callers: Arc::default(), files, plans, random };
        store.remove_orphans().await?;
        Ok(store)
    }

    /// Removes files whose message was never committed, or was finished just before a crash.
    async fn remove_orphans(&self) -> std::result::Result<(), StoreError> {
        let mut present = self.files.names().await?;
        if present.is_empty() {
            return Ok(());
        }
        let known = self.db.call("relay_file_names", files::known_names).await?;
        present.retain(|name| !known.contains(name));
        self.files.remove(present).await;
        Ok(())
    }

    /// A transaction that touches no mailbox.
    fn run<T, F>(&self, name: &'static str, work: F) -> Answer<'_, T>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T> + Send + 'static,
    {
        self.run_then(name, work, || ())
    }

    /// The same with `then`, which follows the commit before anybody is told of it.
    fn run_then<T, F, A>(&self, name: &'static str, work: F, then: A) -> Answer<'_, T>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T> + Send + 'static,
        A: FnOnce() + Send + 'static,
    {
        let run = self.db.call_written(name, move |conn| refused(work(conn)), written, |_| then());
        Box::pin(async move { Ok(run.await??) })
    }

    /// A transaction after which a caller may be another, or none: a token, a key or an organisation changes.
    fn run_on_callers<T, F>(&self, name: &'static str, work: F) -> Answer<'_, T>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T> + Send + 'static,
    {
        let callers = Arc::clone(&self.callers);
        self.run_then(name, work, move || callers.forget())
    }

    /// Whoever holds a token.
    async fn known_caller(&self, token: TokenHash) -> Result<Option<Caller>> {
        let era = match self.callers.get(&token) {
            Ok(caller) => return Ok(Some(caller)),
            Err(era) => era,
        };
        let caller = look_with(&self.tokens, "relay_caller", move |conn| people::caller(conn, token)).await?;
        if let Some(caller) = &caller {
            self.callers.keep(era, token, caller);
        }
        Ok(caller)
    }

    /// A transaction that only reads. It sees everything that was answered before it began.
    fn look<T, F>(&self, name: &'static str, work: F) -> Answer<'_, T>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T> + Send + 'static,
    {
        Box::pin(look_with(&self.reader, name, work))
    }

    /// A transaction that may fill, empty or wake mailboxes, or finish files.
    fn change<T, F>(&self, name: &'static str, now: Timestamp, work: F) -> Answer<'_, Changed<T>>
    where
        T: Send + 'static,
        F: Fn(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        self.change_then(name, now, work, || ())
    }

    /// See [`SqliteRelay::run_then`].
    fn change_then<T, F, A>(
        &self,
        name: &'static str,
        now: Timestamp,
        work: F,
        then: A,
    ) -> Answer<'_, Changed<T>>
    where
        T: Send + 'static,
        F: Fn(&mut Tx<'_>) -> Result<T> + Send + 'static,
        A: FnOnce() + Send + 'static,
    {
        let random = Arc::clone(&self.random);
        let work = move |conn: &Connection| {
            let mut tx = Tx::new(conn, now, &*random);
            let value = work(&mut tx)?;
            tx.finish(value)
        };
        Box::pin(async move {
            let (changed, done_files) = self.run_then(name, work, then).await?;
            self.files.remove(done_files).await;
            Ok(changed)
        })
    }
}

/// Runs `work`, which only reads, on `reader`: there is nothing to undo.
async fn look_with<T, F>(reader: &Db, name: &'static str, work: F) -> Result<T>
where
    T: Send + 'static,
    F: Fn(&Connection) -> Result<T> + Send + 'static,
{
    Ok(reader.call(name, move |conn| refused(work(conn))).await??)
}

/// A refusal is an answer, and fails nothing.
fn refused<T>(outcome: Result<T>) -> std::result::Result<std::result::Result<T, Box<Refusal>>, StoreError> {
    match outcome {
        Ok(value) => Ok(Ok(value)),
        Err(RelayStoreError::Refused(refusal)) => Ok(Err(refusal)),
        Err(RelayStoreError::Store(error)) => Err(error),
    }
}

/// Nothing remains of what is refused.
fn written<T>(outcome: &std::result::Result<T, Box<Refusal>>) -> Written {
    if outcome.is_ok() { Written::Stands } else { Written::IsUndone }
}

/// The first row of `sql`, if any.
fn one<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>> {
    Ok(conn.prepare_cached(sql)?.query_row(params, read).optional()?)
}

fn all<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>> {
    Ok(conn.prepare_cached(sql)?.query_map(params, read)?.collect::<rusqlite::Result<_>>()?)
}

fn exists(conn: &Connection, sql: &str, params: impl Params) -> Result<bool> {
    Ok(conn.prepare_cached(sql)?.exists(params)?)
}

/// Gives the number of rows that changed.
fn execute(conn: &Connection, sql: &str, params: impl Params) -> Result<usize> {
    Ok(conn.prepare_cached(sql)?.execute(params)?)
}

/// Why one row cannot be read while the rest of the database can; without anything that is in it.
#[derive(Debug)]
struct Unreadable(String);

type Readable<T> = std::result::Result<T, Unreadable>;

/// The first row of `sql`, if any, where one that is damaged must not keep others waiting.
fn one_readable<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<Readable<T>>> {
    match conn.prepare_cached(sql)?.query_row(params, read).optional() {
        Ok(row) => Ok(row.map(Ok)),
        Err(error) if super::is_unreadable(&error) => Ok(Some(Err(Unreadable(error.to_string())))),
        Err(error) => Err(error.into()),
    }
}

/// Reads a text this store wrote itself; anything else is damage.
fn stored<T: std::str::FromStr>(text: &str, what: &'static str) -> Result<T> {
    text.parse()
        .map_err(|_| RelayStoreError::Store(StoreError::Damaged(format!("a stored {what} cannot be read"))))
}
