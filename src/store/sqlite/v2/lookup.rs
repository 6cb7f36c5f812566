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
use crate::store::sqlite::pages::Page;
use crate::store::v2::{Query, Queue, StoredMessage};

pub(super) fn status(
    conn: &Connection,
    agent: &Name,
    ids: &[String],
) -> Result<Vec<(String, Option<StoredMessage>)>, StoreError> {
    let is_own =
        |message: &StoredMessage| message.inbox.as_ref() == Some(agent) || message.message.origin == *agent;
    let line = |id: &String| {
        let found = by_id(conn, &DshId::new(id.as_str()))?.filter(is_own);
        Ok((id.clone(), found))
    };
    ids.iter().map(line).collect()
}

/// Where a message stands in the order of answers: its time in milliseconds and its number.
pub(super) type Place = (i64, i64);

/// What an agent has sent and what it has received lie apart, each newest first; a message to oneself is in both. A
/// page looks at most at `size` messages before a place in each, and at both down to the same place.
pub(super) fn query(
    conn: &Connection,
    query: &Query,
    before: Place,
    size: u32,
) -> Result<Page<StoredMessage, Place>, StoreError> {
    if query.id.is_some() {
        return Ok(Page { found: find(conn, sql::ONE, query, (None, before))?, next: None });
    }
    let agent = query.agent.as_str();
    let parts: &[(&str, &str, &str)] = match &query.root_id {
        Some(root_id) => &[(sql::CONVERSATION, sql::CONVERSATION_END, root_id)],
        None => &[(sql::SENT, sql::SENT_END, agent), (sql::RECEIVED, sql::RECEIVED_END, agent)],
    };
    let mut end: Option<Place> = None;
    for (_, last, key) in parts {
        let of = params![key, query.since.millis(), before.0, before.1, size.saturating_sub(1)];
        let last =
            conn.prepare_cached(last)?.query_row(of, |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        end = end.max(last);
    }
    let mut found = Vec::new();
    for (statement, ..) in parts {
        found.extend(find(conn, statement, query, (end, before))?);
    }
    found.sort_by_key(|message| Reverse((message.message.created_at, message.seq)));
    found.dedup_by_key(|message| message.seq);
    found.truncate(query.limit as usize);
    Ok(Page { found, next: end })
}

fn find(
    conn: &Connection,
    sql: &str,
    query: &Query,
    (end, before): (Option<Place>, Place),
) -> Result<Vec<StoredMessage>, StoreError> {
    let mut find = conn.prepare_cached(sql)?;
    let end = end.unwrap_or((query.since.millis(), i64::MIN));
    let filters = params![
        query.agent.as_str(),
        query.limit,
        end.0,
        query.id,
        query.root_id,
        query.origin,
        query.target,
        query.kind,
        query.status,
        query.topic,
        end.1,
        before.0,
        before.1,
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
