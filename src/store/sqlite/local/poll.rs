//! The v1.0 inbox: queued messages behind a cursor, and once more those whose lease ran out before it.

use rusqlite::{Connection, OptionalExtension, params};

use super::{rows, sql};
use crate::domain::delivery::State;
use crate::proto::dsh::names::{AgentName, DshId};
use crate::store::StoreError;
use crate::store::local::{NewMessage, Poll, Polled, StoredMessage};

pub(super) fn poll(conn: &Connection, poll: &Poll) -> Result<Polled, StoreError> {
    let since = poll.since.as_ref().map(|id| seq_of(conn, id)).transpose()?.flatten();
    let mut found = match since {
        Some(since) => page(conn, sql::POLL_BEHIND, poll, since, poll.limit)?,
        None => Vec::new(),
    };
    let left = poll.limit.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
    found.extend(page(conn, sql::POLL_AHEAD, poll, since.unwrap_or(0), left)?);
    for (message, shown) in &found {
        let marked = matches!(message.delivery.state, State::Queued { redeliver: true });
        if marked || !shown {
            conn.prepare_cached(sql::SHOWN)?.execute(params![message.seq, poll.now.millis()])?;
        }
    }
    let newest = found.last().filter(|(message, _)| message.seq > since.unwrap_or(0));
    let cursor = newest.map(|(message, _)| message.message.id.clone()).or_else(|| poll.since.clone());
    Ok(Polled { messages: found.into_iter().map(|(message, _)| message).collect(), cursor })
}

/// Anybody's message can be a cursor; an id that is unknown is none.
fn seq_of(conn: &Connection, id: &DshId) -> Result<Option<i64>, StoreError> {
    Ok(conn.prepare_cached(sql::SEQ_OF)?.query_row([id.as_str()], |row| row.get(0)).optional()?)
}

fn page(
    conn: &Connection,
    sql: &str,
    poll: &Poll,
    since: i64,
    limit: u32,
) -> Result<Vec<(StoredMessage, bool)>, StoreError> {
    let mut page = conn.prepare_cached(sql)?;
    let rows =
        page.query_map(params![poll.agent.as_str(), since, limit, poll.now.millis()], rows::message)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// What waits for an agent that has never been shown it, oldest first.
pub(crate) fn unseen(conn: &Connection, agent: &AgentName) -> Result<Vec<(i64, NewMessage)>, StoreError> {
    let mut unseen = conn.prepare_cached(sql::UNSEEN)?;
    let rows = unseen.query_map([agent.as_str()], rows::message)?;
    Ok(rows.map(|row| row.map(|(stored, _)| (stored.seq, stored.message))).collect::<Result<_, _>>()?)
}
