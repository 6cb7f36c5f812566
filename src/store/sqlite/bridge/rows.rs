//! Rows to types and back. A row that does not parse was not written by us: the database is damaged.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use super::sql;
use crate::domain::clock::Timestamp;
use crate::proto::dsh::names::AgentName;
use crate::proto::redsyn::address::{AddressedAgent, AgentAddress, Destination, Session, SessionId};
use crate::proto::redsyn::body::Body;
use crate::proto::redsyn::ids::{Kind, MessageId, TTL_MAX_SECS};
use crate::store::StoreError;
use crate::store::bridge::generation::Generation;
use crate::store::bridge::{Content, HeldKey, OutboxEntry};

/// How long what crossed is remembered: the longest TTL, since a relay can deliver no later.
pub(super) fn keep_until(now: Timestamp) -> i64 {
    now.plus(std::time::Duration::from_secs(TTL_MAX_SECS)).millis()
}

/// When something with this [`keep_until`] was written.
pub(super) fn kept_since(until: i64) -> Timestamp {
    Timestamp::from_millis(until).minus(std::time::Duration::from_secs(TTL_MAX_SECS))
}

pub(super) fn damaged(what: &str, error: impl std::fmt::Display) -> StoreError {
    StoreError::Damaged(format!("{what}: {error}"))
}

/// Which way a message crossed, as it is written in `bridged`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    In,
    Out,
}

impl Direction {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
        }
    }
}

/// A row of `bridged`.
#[derive(Clone, Debug)]
pub(super) struct Bridged {
    pub(super) id: MessageId,
    pub(super) local_id: String,
    pub(super) is_inbound: bool,
    pub(super) kind: Kind,
    /// Our agent's.
    pub(super) address: AgentAddress,
    /// Without a session.
    pub(super) remote: Destination,
    pub(super) thread: Option<String>,
    pub(super) session: Option<SessionId>,
    pub(super) remote_session: Option<SessionId>,
    pub(super) reply_key: Option<String>,
    pub(super) is_closed: bool,
    /// Of the local message.
    pub(super) generation: Generation,
}

impl Bridged {
    /// The conversation it belongs to. A request without one opens one under its own id (spec, «El sobre»), so that
    /// what follows it need not wait for the relay to say so.
    pub(super) fn conversation(&self) -> Option<String> {
        let opens = !self.is_inbound && self.kind == Kind::Request;
        self.thread.clone().or_else(|| opens.then(|| self.id.to_string()))
    }
}

pub(super) fn by_local(
    conn: &Connection,
    agent: &AgentName,
    local_id: &str,
    generation: Generation,
) -> Result<Option<Bridged>, StoreError> {
    let read = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, local_id.to_owned(), Columns::read(row)?));
    let row = conn
        .prepare_cached(sql::BRIDGED_BY_LOCAL)?
        .query_row(params![agent.as_str(), local_id, generation.number()], read);
    row.optional()?.map(|(id, local_id, columns)| columns.bridged(&id, local_id)).transpose()
}

pub(super) fn by_id(
    conn: &Connection,
    agent: &AgentName,
    id: &MessageId,
    direction: Direction,
) -> Result<Option<Bridged>, StoreError> {
    let read = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, Columns::read(row)?));
    let row = conn
        .prepare_cached(sql::BRIDGED_BY_ID)?
        .query_row(params![agent.as_str(), id.as_str(), direction.as_str()], read);
    row.optional()?.map(|(local_id, columns)| columns.bridged(id.as_str(), local_id)).transpose()
}

/// The columns that both look-ups share, from the second on.
struct Columns {
    direction: String,
    kind: String,
    address: String,
    remote: String,
    thread: Option<String>,
    session: Option<String>,
    remote_session: Option<String>,
    reply_key: Option<String>,
    is_closed: bool,
    generation: i64,
}

impl Columns {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            direction: row.get(1)?,
            kind: row.get(2)?,
            address: row.get(3)?,
            remote: row.get(4)?,
            thread: row.get(5)?,
            session: row.get(6)?,
            remote_session: row.get(7)?,
            reply_key: row.get(8)?,
            is_closed: row.get(9)?,
            generation: row.get(10)?,
        })
    }

    fn bridged(self, id: &str, local_id: String) -> Result<Bridged, StoreError> {
        Ok(Bridged {
            id: id.parse().map_err(|error| damaged("bridged.id", error))?,
            local_id,
            is_inbound: self.direction == Direction::In.as_str(),
            kind: self.kind.parse().map_err(|error| damaged("bridged.kind", error))?,
            address: self.address.parse().map_err(|error| damaged("bridged.address", error))?,
            remote: self.remote.parse().map_err(|error| damaged("bridged.remote", error))?,
            thread: self.thread,
            session: session(self.session)?,
            remote_session: session(self.remote_session)?,
            reply_key: self.reply_key,
            is_closed: self.is_closed,
            generation: Generation::of(self.generation),
        })
    }
}

fn session(text: Option<String>) -> Result<Option<SessionId>, StoreError> {
    text.map(|text| text.parse().map_err(|error| damaged("session", error))).transpose()
}

/// Nothing more answers it, or is answered.
pub(super) fn close(
    conn: &Connection,
    agent: &AgentName,
    id: &MessageId,
    direction: Direction,
) -> Result<(), StoreError> {
    conn.prepare_cached(sql::BRIDGED_CLOSE)?.execute(params![
        agent.as_str(),
        id.as_str(),
        direction.as_str()
    ])?;
    Ok(())
}

/// A row of `bridged` to be written.
pub(super) struct NewBridged<'a> {
    pub(super) agent: &'a AgentName,
    pub(super) id: &'a MessageId,
    pub(super) local_id: &'a str,
    pub(super) direction: Direction,
    pub(super) kind: Kind,
    pub(super) address: &'a AgentAddress,
    pub(super) remote: &'a Destination,
    pub(super) thread: Option<&'a str>,
    /// Our agent's session.
    pub(super) session: Option<&'a SessionId>,
    pub(super) reply_to: Option<&'a MessageId>,
    pub(super) reply_key: Option<&'a str>,
    /// Of the local message.
    pub(super) generation: Generation,
    pub(super) now: Timestamp,
}

pub(super) fn insert_bridged(conn: &Connection, row: &NewBridged<'_>) -> Result<(), StoreError> {
    let remote_session = match row.remote.session() {
        Some(Session::Id(id)) => Some(id.to_string()),
        Some(Session::New) | None => None,
    };
    conn.prepare_cached(sql::INSERT_BRIDGED)?.execute(params![
        row.agent.as_str(),
        row.id.as_str(),
        row.local_id,
        row.direction.as_str(),
        row.kind.as_str(),
        row.address.to_string(),
        row.remote.base().to_string(),
        row.thread,
        row.session.map(ToString::to_string),
        remote_session,
        row.reply_to.map(MessageId::as_str),
        row.reply_key,
        keep_until(row.now),
        row.generation.number(),
    ])?;
    Ok(())
}

/// An outbox row to be written.
pub(super) struct NewEntry<'a> {
    pub(super) id: &'a MessageId,
    pub(super) local_id: Option<&'a str>,
    pub(super) agent: &'a AgentName,
    pub(super) kind: Kind,
    pub(super) from: &'a AddressedAgent,
    pub(super) remote: &'a Destination,
    pub(super) thread: Option<&'a str>,
    pub(super) reply_to: Option<&'a MessageId>,
    pub(super) reply_key: Option<&'a str>,
    pub(super) content: &'a Content,
    pub(super) error: bool,
    pub(super) ttl: Option<u64>,
    pub(super) expires_at: Timestamp,
    pub(super) now: Timestamp,
}

impl NewEntry<'_> {
    /// What must stay in order: one conversation with one remote agent. A request that opens one is alone.
    /// The events of one topic are one, too.
    fn lane(&self) -> String {
        let conversation = match (self.thread, self.remote) {
            (Some(thread), _) => thread.to_owned(),
            (None, Destination::Topic(_)) => String::new(),
            (None, Destination::Agent(AddressedAgent { session: Some(Session::Id(id)), .. })) => {
                format!("#{id}")
            }
            (None, Destination::Agent(_)) => self.id.to_string(),
        };
        lane(self.agent, &self.remote.base(), &conversation)
    }
}

/// `remote` without a session.
pub(super) fn lane(agent: &AgentName, remote: &Destination, conversation: &str) -> String {
    format!("{} {remote} {conversation}", agent.as_str())
}

/// Whether the entry is new; the same id again changes nothing.
pub(super) fn insert_entry(conn: &Connection, entry: &NewEntry<'_>) -> Result<bool, StoreError> {
    let refs =
        serde_json::to_string(&entry.content.refs).map_err(|error| StoreError::Other(error.to_string()))?;
    let inserted = conn.prepare_cached(sql::INSERT_OUTBOX)?.execute(params![
        entry.id.as_str(),
        entry.local_id,
        entry.agent.as_str(),
        entry.lane(),
        entry.kind.as_str(),
        entry.from.to_string(),
        entry.remote.to_string(),
        entry.thread,
        entry.reply_to.map(MessageId::as_str),
        entry.reply_key,
        entry.content.body.as_value().to_string(),
        refs,
        entry.error,
        entry.ttl.map(|ttl| i64::try_from(ttl).unwrap_or(i64::MAX)),
        entry.expires_at.millis(),
        entry.now.millis(),
    ])?;
    Ok(inserted == 1)
}

/// An entry, or its number and why it cannot be read.
pub(super) fn entry(row: &Row<'_>) -> rusqlite::Result<Result<OutboxEntry, (i64, StoreError)>> {
    let text = |index: usize| row.get::<_, String>(index);
    let (id, agent, kind, from, remote) = (text(1)?, text(3)?, text(4)?, text(5)?, text(6)?);
    let (body, refs) = (text(10)?, text(11)?);
    let reply_to: Option<String> = row.get(8)?;
    let ttl: Option<i64> = row.get(13)?;
    let seq: i64 = row.get(0)?;
    let (local_id, thread, reply_key) = (row.get(2)?, row.get(7)?, row.get(9)?);
    let (error, expires_at, attempts, held) = (row.get(12)?, row.get(14)?, row.get(15)?, row.get(16)?);
    let (encrypt, has_zip, is_withdrawn) = (row.get(17)?, row.get(18)?, row.get(19)?);
    let parse = || {
        Ok(OutboxEntry {
            seq,
            id: id.parse().map_err(|error| damaged("outbox.id", error))?,
            local_id,
            agent: AgentName::parse(&agent).ok_or_else(|| damaged("outbox.agent", "is no agent name"))?,
            kind: kind.parse().map_err(|error| damaged("outbox.kind", error))?,
            from: from.parse().map_err(|error| damaged("outbox.sender", error))?,
            remote: remote.parse().map_err(|error| damaged("outbox.remote", error))?,
            thread,
            reply_to: reply_to
                .map(|id| id.parse().map_err(|error| damaged("outbox.reply_to", error)))
                .transpose()?,
            reply_key,
            content: content(&body, &refs)?,
            error,
            ttl: ttl.and_then(|ttl| u64::try_from(ttl).ok()),
            expires_at: Timestamp::from_millis(expires_at),
            attempts,
            held,
            encrypt,
            has_zip,
            is_withdrawn,
            sealed_for: None,
        })
    };
    Ok(parse().map_err(|error| (seq, error)))
}

/// Held entries and what they wait for, the first to expire first. Unreadable ones are told of elsewhere.
pub(super) fn held_entries(conn: &Connection, limit: i64) -> Result<Vec<(OutboxEntry, HeldKey)>, StoreError> {
    let mut statement = conn.prepare_cached(sql::HELD_ENTRIES)?;
    let held = statement
        .query_map([limit], |row| Ok((entry(row)?, HeldKey { reason: row.get(16)?, key: row.get(20)? })))?;
    let held = held.collect::<Result<Vec<_>, _>>()?;
    Ok(held.into_iter().filter_map(|(entry, held)| Some((entry.ok()?, held))).collect())
}

fn content(body: &str, refs: &str) -> Result<Content, StoreError> {
    let body: Value = serde_json::from_str(body).map_err(|error| damaged("outbox.body", error))?;
    Ok(Content {
        body: Body::parse(body).map_err(|error| damaged("outbox.body", error))?,
        refs: serde_json::from_str(refs).map_err(|error| damaged("outbox.refs", error))?,
    })
}
