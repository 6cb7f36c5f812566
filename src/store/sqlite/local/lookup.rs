//! What is only read.

use std::cmp::Reverse;

use rusqlite::{Connection, OptionalExtension, ToSql, params};

use super::{rows, sql};
use crate::domain::clock::Timestamp;
use crate::proto::dsh::names::{AgentName, DshId};
use crate::store::StoreError;
use crate::store::local::{Head, Peer, Query, StatusLine, StoredMessage};
use crate::store::sqlite::pages::Page;

pub(super) fn peers(conn: &Connection, online_after: Timestamp) -> Result<Vec<Peer>, StoreError> {
    let mut agents = conn.prepare_cached(sql::AGENTS)?;
    let peer = |(agent, last_seen): (AgentName, Timestamp)| Peer {
        agent: agent.into(),
        online: last_seen > online_after,
        last_seen,
    };
    let rows = agents.query_map([], rows::agent)?;
    Ok(rows.map(|row| row.map(peer)).collect::<Result<_, _>>()?)
}

pub(super) fn head(conn: &Connection, id: &DshId) -> Result<Option<Head>, StoreError> {
    Ok(conn.prepare_cached(sql::HEAD)?.query_row([id.as_str()], rows::head).optional()?)
}

pub(super) fn status(
    conn: &Connection,
    agent: &AgentName,
    ids: &[String],
) -> Result<Vec<(String, Option<StatusLine>)>, StoreError> {
    let mut status = conn.prepare_cached(sql::STATUS)?;
    let mut lines = Vec::with_capacity(ids.len());
    for id in ids {
        let line = status.query_row([id.as_str(), agent.as_str()], rows::status_line).optional()?;
        lines.push((id.clone(), line));
    }
    Ok(lines)
}

pub(super) fn recent(
    conn: &Connection,
    agent: &AgentName,
    limit: u32,
) -> Result<Vec<StoredMessage>, StoreError> {
    newest(conn, [sql::RECENT_QUEUED, sql::RECENT_TAKEN], limit, params![agent.as_str(), limit])
}

/// The page before a number: at most `size` messages of each part are looked at, and both parts down to the same
/// number, or what moves from one to the other between two pages would be missed.
pub(super) fn query(
    conn: &Connection,
    query: &Query,
    before: i64,
    size: u32,
) -> Result<Page<StoredMessage, i64>, StoreError> {
    let agent = query.agent.as_str();
    let end: i64 = conn
        .prepare_cached(sql::QUERY_END)?
        .query_row(params![agent, before, size.saturating_sub(1)], |row| row.get(0))?;
    let filters = params![agent, query.limit, query.kind, query.status, query.from, query.to, before, end];
    let found = newest(conn, [sql::QUERY_QUEUED, sql::QUERY_TAKEN], query.limit, filters)?;
    Ok(Page { found, next: (end > 0).then_some(end) })
}

/// The newest of both parts of an inbox, each of which gives its own newest first.
fn newest(
    conn: &Connection,
    parts: [&str; 2],
    limit: u32,
    params: &[&dyn ToSql],
) -> Result<Vec<StoredMessage>, StoreError> {
    let mut found = Vec::new();
    for part in parts {
        let mut part = conn.prepare_cached(part)?;
        for row in part.query_map(params, rows::message)? {
            found.push(row?.0);
        }
    }
    found.sort_unstable_by_key(|message| Reverse(message.seq));
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(found)
}
