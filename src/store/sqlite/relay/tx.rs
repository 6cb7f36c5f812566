//! A transaction with what it means to those outside: whom to wake, what is due when, which files are done.

use std::collections::BTreeSet;
use std::fmt;

use rusqlite::Connection;

use super::{Result, one, stored};
use crate::domain::clock::Timestamp;
use crate::domain::random::Random;
use crate::proto::redsyn::ids::MessageId;
use crate::store::StoreError;
use crate::store::relay::Changed;

statements! {
    ADDRESS = "SELECT address FROM agents WHERE id = ?1";
}

pub(super) struct Tx<'a> {
    pub(super) conn: &'a Connection,
    pub(super) now: Timestamp,
    random: &'a dyn Random,
    wake: BTreeSet<i64>,
    due: Option<Timestamp>,
    done_files: Vec<String>,
}

impl fmt::Debug for Tx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tx").field("now", &self.now).finish_non_exhaustive()
    }
}

impl<'a> Tx<'a> {
    pub(super) fn new(conn: &'a Connection, now: Timestamp, random: &'a dyn Random) -> Self {
        Self { conn, now, random, wake: BTreeSet::new(), due: None, done_files: Vec::new() }
    }

    /// Whoever waits at `agent`'s mailbox must look again.
    pub(super) fn wake(&mut self, agent: i64) {
        self.wake.insert(agent);
    }

    /// Something must happen at `at`.
    pub(super) fn due_at(&mut self, at: Timestamp) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// A file nobody needs once this is committed.
    pub(super) fn drop_file(&mut self, name: String) {
        self.done_files.push(name);
    }

    /// An id for a message of the relay's own. Random, so that nobody can claim it first.
    pub(super) fn new_id(&self) -> Result<MessageId> {
        let id = format!("m{}", self.random.hex::<16>());
        id.parse().map_err(|_| StoreError::Other("a generated id is no id".into()).into())
    }

    pub(super) fn finish<T>(self, value: T) -> Result<(Changed<T>, Vec<String>)> {
        let mut wake = Vec::with_capacity(self.wake.len());
        for agent in &self.wake {
            if let Some(address) = one(self.conn, ADDRESS, [agent], |row| row.get::<_, String>(0))? {
                wake.push(stored(&address, "agent address")?);
            }
        }
        Ok((Changed { value, wake, due: self.due }, self.done_files))
    }
}
