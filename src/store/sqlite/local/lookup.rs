//! What is only read.

use rusqlite::{Connection, OptionalExtension, params};

use super::{rows, sql};
use crate::domain::clock::Timestamp;
use crate::proto::dsh::names::{AgentName, DshId};
use crate::store::StoreError;
use crate::store::local::{Head, Peer, Query, StatusLine, StoredMessage};

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
    ids: Vec<String>,
) -> Result<Vec<(String, Option<StatusLine>)>, StoreError> {
    let mut status = conn.prepare_cached(sql::STATUS)?;
    let mut lines = Vec::with_capacity(ids.len());
    for id in ids {
        let line = status.query_row([id.as_str(), agent.as_str()], rows::status_line).optional()?;
        lines.push((id, line));
    }
    Ok(lines)
}

pub(super) fn recent(
    conn: &Connection,
    agent: &AgentName,
    limit: u32,
) -> Result<Vec<StoredMessage>, StoreError> {
    let mut recent = conn.prepare_cached(sql::RECENT)?;
    let rows = recent.query_map(params![agent.as_str(), limit], rows::message)?;
    Ok(rows.map(|row| row.map(|(message, _)| message)).collect::<Result<_, _>>()?)
}

pub(super) fn query(conn: &Connection, query: &Query) -> Result<Vec<StoredMessage>, StoreError> {
    let mut found = conn.prepare_cached(sql::QUERY)?;
    let filters = params![query.agent.as_str(), query.limit, query.kind, query.status, query.from, query.to];
    let rows = found.query_map(filters, rows::message)?;
    Ok(rows.map(|row| row.map(|(message, _)| message)).collect::<Result<_, _>>()?)
}
