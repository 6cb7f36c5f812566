//! The second generation's messages on SQLite, in the same file as the rest of the local store: each operation is one
//! transaction on the thread that owns the database.

mod change;
mod create;
mod deliver;
mod keep;
mod lookup;
mod manage;
mod rows;
mod sql;
#[cfg(test)]
mod tests;
mod tidy;

use super::db::Db;
use super::load;
use super::pages::{PAGE, in_pages};
use crate::domain::clock::Timestamp;
use crate::domain::random::SharedRandom;
use crate::domain::v2::delivery::LeaseRefused;
use crate::proto::dsh::names::DshId;
use crate::proto::dsh::v2::name::Name;
use crate::store::StoreError;
use crate::store::local::{Imported, Load};
use crate::store::v2::{
    Ack, Acked, Created, Manage, Managed, NewMessage, Pull, Pulled, Query, Queue, Renew, Rules,
    StoredMessage, Swept,
};

pub(crate) use create::{insert_message, sent_before};
pub(crate) use deliver::{by_id, unseen};

/// A step of [`local_schema`](super::local_schema).
pub(crate) const SCHEMA: &str = include_str!("v2/schema.sql");

/// What the local broker keeps of the second generation. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct V2Store {
    db: Db,
    random: SharedRandom,
}

impl V2Store {
    /// The tables beside those of the local store, in its database. Tokens and the ids of notices come from `random`.
    pub fn new(db: Db, random: SharedRandom) -> Self {
        Self { db, random }
    }

    /// Stores a message for an agent of this machine, whether or not anybody of that name has ever been seen. Here and
    /// below, `then` runs after the commit, also when the caller is gone.
    ///
    /// # Errors
    /// When the store fails, as everywhere below.
    pub async fn create(
        &self,
        message: NewMessage,
        inbox: Name,
        then: impl FnOnce(&Created) + Send + 'static,
    ) -> Result<Created, StoreError> {
        let create = move |conn: &_| create::create(conn, &message, &inbox);
        self.db.call_then("v2_create", create, then).await
    }

    /// Tidies up, then leases queued messages to the agent, oldest first.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn pull(
        &self,
        pull: Pull,
        then: impl FnOnce(&Pulled) + Send + 'static,
    ) -> Result<Pulled, StoreError> {
        let random = self.random.clone();
        let work = move |conn: &_| deliver::pull(conn, &pull, &random);
        self.db.call_then("v2_pull", work, then).await
    }

    /// Ends a lease.
    ///
    /// # Errors
    /// When the store fails; a refusal is an answer.
    pub async fn ack(
        &self,
        ack: Ack,
        then: impl FnOnce(&Acked) + Send + 'static,
    ) -> Result<Acked, StoreError> {
        let random = self.random.clone();
        let work = move |conn: &_| deliver::ack(conn, &ack, &random);
        self.db.call_then("v2_ack", work, then).await
    }

    /// Moves the end of a lease.
    ///
    /// # Errors
    /// When the store fails; a refusal is an answer.
    pub async fn renew(&self, renew: Renew) -> Result<Result<(), LeaseRefused>, StoreError> {
        self.db.call("v2_renew", move |conn| deliver::renew(conn, &renew)).await
    }

    /// One message, whoever asks.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn lookup(&self, id: DshId) -> Result<Option<StoredMessage>, StoreError> {
        self.db.call("v2_lookup", move |conn| deliver::by_id(conn, &id)).await
    }

    /// Each id; `None` for what is unknown or not the agent's, as sender or recipient.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn status(
        &self,
        agent: Name,
        ids: Vec<String>,
    ) -> Result<Vec<(String, Option<StoredMessage>)>, StoreError> {
        self.db.call("v2_status", move |conn| lookup::status(conn, &agent, &ids)).await
    }

    /// What an agent has sent or received, newest first.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn query(&self, query: Query) -> Result<Vec<StoredMessage>, StoreError> {
        self.query_by(PAGE, query).await
    }

    async fn query_by(&self, size: u32, query: Query) -> Result<Vec<StoredMessage>, StoreError> {
        in_pages(query.limit, (i64::MAX, i64::MAX), |limit, before| {
            let query = Query { limit, ..query.clone() };
            self.db.call("v2_query", move |conn| lookup::query(conn, &query, before, size))
        })
        .await
    }

    /// What is addressed to an agent and not completed, newest first.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn unfinished(&self, agent: Name, limit: u32) -> Result<Vec<StoredMessage>, StoreError> {
        self.db.call("v2_unfinished", move |conn| lookup::unfinished(conn, &agent, limit)).await
    }

    /// Requeues or cancels a message.
    ///
    /// # Errors
    /// When the store fails; a refusal is an answer.
    pub async fn manage(
        &self,
        manage: Manage,
        then: impl FnOnce(&Managed) + Send + 'static,
    ) -> Result<Managed, StoreError> {
        let work = move |conn: &_| manage::manage(conn, &manage);
        self.db.call_then("v2_manage", work, then).await
    }

    /// The queue of each agent.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn queues(&self, agents: Vec<Name>) -> Result<Vec<Queue>, StoreError> {
        let queues = move |conn: &_| agents.iter().map(|agent| lookup::queue(conn, agent)).collect();
        self.db.call("v2_queues", queues).await
    }

    /// How much waits, in all inboxes together.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn load(&self) -> Result<Load, StoreError> {
        self.db
            .call("v2_load", |conn| load::load(conn, sql::LOAD_QUEUED, sql::LOAD_LEASED, sql::LOAD_OLDEST))
            .await
    }

    /// Stores what another broker kept, but for messages whose ids or keys are known. All of them, or none.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn import(&self, messages: Vec<StoredMessage>) -> Result<Imported, StoreError> {
        self.db.call("v2_import", move |conn| keep::import(conn, &messages)).await
    }

    /// The next messages behind a number, whatever their state.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn kept_after(&self, seq: i64, limit: u32) -> Result<Vec<StoredMessage>, StoreError> {
        self.db.call("v2_kept_after", move |conn| keep::after(conn, seq, limit)).await
    }

    /// Tidies up and deletes some of what was finished at `too_old` or before.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn sweep(&self, now: Timestamp, too_old: Timestamp, rules: Rules) -> Result<Swept, StoreError> {
        let random = self.random.clone();
        self.db.call("v2_sweep", move |conn| tidy::sweep(conn, now, too_old, rules, &random)).await
    }
}
