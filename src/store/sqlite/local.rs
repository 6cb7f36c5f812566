//! The local store on SQLite: each operation is one transaction on the thread that owns the database, so that a
//! caller who goes away half-way leaves either the whole effect or none.

mod deliver;
pub(super) mod keep;
mod lookup;
mod poll;
mod rows;
mod send;
mod sql;
mod sweep;
#[cfg(test)]
mod tests;

use std::path::Path;

use super::db::Db;
use super::journal::{Journal, moved};
use super::load;
use super::local_schema::STEPS;
use super::pages::{PAGE, in_pages};
use crate::domain::clock::Timestamp;
use crate::domain::random::SharedRandom;
use crate::proto::dsh::names::{AgentName, DshId};
use crate::store::StoreError;
use crate::store::jsonl::ROWS;
use crate::store::local::{
    Ack, Acked, Fingerprint, Head, Imported, KeptMessage, Load, NewMessage, Peer, Poll, Polled, Pull, Pulled,
    Query, Sent, StatusLine, StoredMessage, Swept,
};

pub use super::journal::Loaded;
pub(crate) use poll::unseen;
pub(crate) use send::insert_message;

/// The database file in the data directory. Not `relay.db`, which is the reference broker's and looks different.
const FILE: &str = "broker.db";

/// What the local broker keeps. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct LocalStore {
    db: Db,
    storage: &'static str,
}

impl LocalStore {
    /// Opens or creates the database in `data_dir`, which must exist. What the append-only files of an earlier
    /// configuration hold moves into it.
    ///
    /// # Errors
    /// When the file cannot be opened, is locked, damaged, or not writable.
    pub fn open(data_dir: &Path) -> Result<Self, StoreError> {
        let path = data_dir.join(FILE);
        let conn = Db::connect(&path, STEPS)?;
        moved::from_files(&conn, data_dir, STEPS)?;
        Ok(Self { db: Db::owning(conn, &path)?, storage: "sqlite" })
    }

    /// Opens or creates the append-only files in `data_dir`, which must exist. What the database of an earlier
    /// configuration holds moves into them.
    ///
    /// # Errors
    /// When a file cannot be opened, is damaged, or not writable.
    pub fn open_jsonl(data_dir: &Path) -> Result<(Self, Loaded), StoreError> {
        let database = data_dir.join(FILE);
        moved::before_files(data_dir, &database, STEPS)?;
        let conn = Db::connect_in_memory()?;
        let (mut journal, loaded) = Journal::open(&conn, data_dir, STEPS)?;
        moved::from_database(&conn, &mut journal, &database, STEPS)?;
        let db = Db::journaled(conn, journal, data_dir.join(ROWS))?;
        Ok((Self { db, storage: "jsonl" }, loaded))
    }

    /// A store that forgets everything when it is closed.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn in_memory() -> Result<Self, StoreError> {
        Ok(Self { db: Db::in_memory(STEPS)?, storage: "memory" })
    }

    /// The database itself, for whoever keeps tables beside these and shares transactions with them.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// What `GET /` names as the storage.
    pub fn storage(&self) -> &'static str {
        self.storage
    }

    /// Notes that the agent is alive. An agent that has registered once can be written to for ever.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn register(&self, agent: AgentName, now: Timestamp) -> Result<(), StoreError> {
        self.db.call("register", move |conn| send::register(conn, &agent, now)).await
    }

    /// Writes something that changes nothing, to find out whether that works again. Where nobody has ever registered,
    /// nothing is written.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn probe(&self) -> Result<(), StoreError> {
        self.db.call("probe", |conn| Ok(conn.prepare_cached(sql::PROBE)?.execute([]).map(drop)?)).await
    }

    /// Every agent that has registered; `online` when that was after `online_after`.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn peers(&self, online_after: Timestamp) -> Result<Vec<Peer>, StoreError> {
        self.db.call("peers", move |conn| lookup::peers(conn, online_after)).await
    }

    /// Stores a message for an agent of this machine; `None` when it has never registered. `then` runs after the
    /// commit, also when the caller is gone.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn send(
        &self,
        message: NewMessage,
        to: AgentName,
        then: impl FnOnce(&Option<Sent>) + Send + 'static,
    ) -> Result<Option<Sent>, StoreError> {
        self.db.call_then("send", move |conn| send::send(conn, &message, &to), then).await
    }

    /// Stores a receipt for an agent of this machine, registered or not. `then` runs after the commit, also when the
    /// caller is gone.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn receipt(
        &self,
        message: NewMessage,
        to: AgentName,
        then: impl FnOnce(&Sent) + Send + 'static,
    ) -> Result<Sent, StoreError> {
        let insert = move |conn: &_| insert_message(conn, &message, Some(&to));
        self.db.call_then("receipt", insert, then).await
    }

    /// Queued messages behind a v1.0 cursor.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn poll(&self, poll: Poll) -> Result<Polled, StoreError> {
        self.db.call("poll", move |conn| poll::poll(conn, &poll)).await
    }

    /// Requeues every lease that is over, then leases queued messages to the agent, oldest first.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn pull(&self, pull: Pull, random: SharedRandom) -> Result<Pulled, StoreError> {
        self.db.call("pull", move |conn| deliver::pull(conn, &pull, &random)).await
    }

    /// Ends a lease. `then` runs after the commit, also when the caller is gone.
    ///
    /// # Errors
    /// When the store fails; a refusal is an answer.
    pub async fn ack(
        &self,
        ack: Ack,
        then: impl FnOnce(&Acked) + Send + 'static,
    ) -> Result<Acked, StoreError> {
        self.db.call_then("ack", move |conn| deliver::ack(conn, &ack), then).await
    }

    /// What a receipt needs to know of a message.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn lookup(&self, id: DshId) -> Result<Option<Head>, StoreError> {
        self.db.call("lookup", move |conn| lookup::head(conn, &id)).await
    }

    /// The status of each id; `None` for what is unknown or not the agent's, as sender or recipient.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn status(
        &self,
        agent: AgentName,
        ids: Vec<String>,
    ) -> Result<Vec<(String, Option<StatusLine>)>, StoreError> {
        self.db.call("status", move |conn| lookup::status(conn, &agent, &ids)).await
    }

    /// The newest messages of an agent's inbox, in any state.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn recent(&self, agent: AgentName, limit: u32) -> Result<Vec<StoredMessage>, StoreError> {
        self.db.call("recent", move |conn| lookup::recent(conn, &agent, limit)).await
    }

    /// The newest messages of an agent's inbox that a filter lets through.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn query(&self, query: Query) -> Result<Vec<StoredMessage>, StoreError> {
        self.query_by(PAGE, query).await
    }

    async fn query_by(&self, size: u32, query: Query) -> Result<Vec<StoredMessage>, StoreError> {
        in_pages(query.limit, i64::MAX, |limit, before| {
            let query = Query { limit, ..query.clone() };
            self.db.call("query", move |conn| lookup::query(conn, &query, before, size))
        })
        .await
    }

    /// How much waits, in all inboxes together.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn load(&self) -> Result<Load, StoreError> {
        self.db
            .call("load", |conn| load::load(conn, sql::LOAD_QUEUED, sql::LOAD_LEASED, sql::LOAD_OLDEST))
            .await
    }

    /// Requeues leases that are over and deletes some of the messages whose time is over: those stored at `too_old`
    /// or before, and those with an end of their own.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn sweep(&self, now: Timestamp, too_old: Timestamp) -> Result<Swept, StoreError> {
        self.db.call("sweep", move |conn| sweep::sweep(conn, now, too_old)).await
    }

    /// Stores what another broker kept, but for messages whose ids are known. All of them, or none.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn import(&self, messages: Vec<KeptMessage>) -> Result<Imported, StoreError> {
        self.db.call("import", move |conn| keep::import(conn, &messages)).await
    }

    /// The next messages behind a number, whatever their state.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn kept_after(&self, seq: i64, limit: u32) -> Result<Vec<KeptMessage>, StoreError> {
        self.db.call("kept_after", move |conn| keep::after(conn, seq, limit)).await
    }

    /// How a file looked when it was taken over; `None` when it never was.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn takeover(&self, source: &'static str) -> Result<Option<Fingerprint>, StoreError> {
        self.db.call("takeover", move |conn| keep::takeover(conn, source)).await
    }

    /// Notes that a file has been taken over.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn taken_over(
        &self,
        source: &'static str,
        was: Fingerprint,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.db.call("taken_over", move |conn| keep::taken_over(conn, source, was, now)).await
    }

    /// Finishes the queued work and closes the database.
    ///
    /// # Errors
    /// When the thread that owned it has panicked.
    pub async fn close(self) -> Result<(), StoreError> {
        self.db.close().await
    }
}
