//! A transaction with what it means to those outside: whom to wake, what is due when, which files are done.

use std::collections::BTreeSet;
use std::fmt;

use rusqlite::Connection;

use super::{Result, one, stored};
use crate::domain::clock::Timestamp;
use crate::domain::random::Random;
use crate::proto::redsyn::address::AgentAddress;
use crate::proto::redsyn::ids::MessageId;
use crate::store::StoreError;
use crate::store::relay::Changed;

statements! {
    ADDRESS = "
        SELECT address, EXISTS (SELECT 1 FROM webhooks WHERE webhooks.agent = agents.id) FROM agents
        WHERE id = ?1";
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

    /// An id for a message of the relay's own. Nobody can guess it, to claim it first.
    pub(super) fn new_id(&self) -> Result<MessageId> {
        let id = format!("m{}", self.random.hex_at(self.now.millis()));
        id.parse().map_err(|_| StoreError::Other("a generated id is no id".into()).into())
    }

    pub(super) fn finish<T>(self, value: T) -> Result<(Changed<T>, Vec<String>)> {
        let (mut wake, mut push) = (Vec::with_capacity(self.wake.len()), Vec::new());
        for agent in &self.wake {
            let found: Option<(String, bool)> =
                one(self.conn, ADDRESS, [agent], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let Some((address, pushed)) = found else { continue };
            let address: AgentAddress = stored(&address, "agent address")?;
            if pushed {
                push.push(address.clone());
            }
            wake.push(address);
        }
        Ok((Changed { value, wake, push, due: self.due }, self.done_files))
    }
}
