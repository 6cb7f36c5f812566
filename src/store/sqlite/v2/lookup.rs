//! What is only read.

use std::cmp::Reverse;

use rusqlite::{Connection, OptionalExtension, params};

use super::deliver::by_id;
use super::{rows, sql};
use crate::domain::clock::Timestamp;
use crate::domain::v2::delivery::Status;
use crate::proto::dsh::names::DshId;
use crate::proto::dsh::v2::name::Name;
use crate::store::StoreError;
use crate::store::v2::{Query, Queue, StoredMessage};

pub(super) fn status(
    conn: &Connection,
    agent: &Name,
    ids: Vec<String>,
) -> Result<Vec<(String, Option<StoredMessage>)>, StoreError> {
    let is_own =
        |message: &StoredMessage| message.inbox.as_ref() == Some(agent) || message.message.origin == *agent;
    let line = |id: String| {
        let found = by_id(conn, &DshId::new(id.as_str()))?.filter(is_own);
        Ok((id, found))
    };
    ids.into_iter().map(line).collect()
}

/// What an agent has sent and what it has received lie apart, each newest first; a message to oneself is in both.
pub(super) fn query(conn: &Connection, query: &Query) -> Result<Vec<StoredMessage>, StoreError> {
    if query.id.is_some() {
        return find(conn, sql::ONE, query);
    }
    if query.root_id.is_some() {
        return find(conn, sql::CONVERSATION, query);
    }
    let mut found = find(conn, sql::SENT, query)?;
    found.extend(find(conn, sql::RECEIVED, query)?);
    found.sort_by_key(|message| Reverse((message.message.created_at, message.seq)));
    found.dedup_by_key(|message| message.seq);
    found.truncate(query.limit as usize);
    Ok(found)
}

fn find(conn: &Connection, sql: &str, query: &Query) -> Result<Vec<StoredMessage>, StoreError> {
    let mut find = conn.prepare_cached(sql)?;
    let filters = params![
        query.agent.as_str(),
        query.limit,
        query.since.millis(),
        query.id,
        query.root_id,
        query.origin,
        query.target,
        query.kind,
        query.status,
        query.topic,
    ];
    let rows = find.query_map(filters, rows::message)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn unfinished(
    conn: &Connection,
    agent: &Name,
    limit: u32,
) -> Result<Vec<StoredMessage>, StoreError> {
    let mut unfinished = conn.prepare_cached(sql::UNFINISHED)?;
    let rows = unfinished.query_map(params![agent.as_str(), limit], rows::message)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn queue(conn: &Connection, agent: &Name) -> Result<Queue, StoreError> {
    let mut queue = Queue::default();
    for row in conn.prepare_cached(sql::COUNTS)?.query_map([agent.as_str()], rows::count)? {
        let (status, count) = row?;
        match status {
            Status::Queued => queue.queued = count,
            Status::Leased => queue.leased = count,
            Status::Completed => queue.completed = count,
            Status::Failed => queue.failed = count,
            Status::Expired => queue.expired = count,
        }
    }
    let oldest =
        conn.prepare_cached(sql::OLDEST)?.query_row([agent.as_str()], |row| row.get(0)).optional()?;
    queue.oldest_queued_at = oldest.map(Timestamp::from_millis);
    Ok(queue)
}
