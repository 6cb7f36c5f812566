//! What a person may look at: what waits, and how far a message has come. Nothing here writes.

use rusqlite::{Connection, OptionalExtension, params};

use super::rows::{self, Bridged, Direction};
use super::{decisions, sql};
use crate::domain::clock::Timestamp;
use crate::proto::dsh::names::AgentName;
use crate::proto::redsyn::ids::MessageId;
use crate::store::StoreError;
use crate::store::bridge::generation::Generation;
use crate::store::bridge::{Crossed, Depths, HeldOut, Local, Traced, Waiting};
use crate::store::local::Stages;

pub(super) fn depths(conn: &Connection) -> Result<Depths, StoreError> {
    let count = |sql: &'static str| conn.prepare_cached(sql)?.query_row([], |row| row.get::<_, i64>(0));
    Ok(Depths {
        outbox: count(sql::COUNT_OUTBOX)?,
        held_out: count(sql::COUNT_HELD_OUT)?,
        held_in: count(sql::COUNT_HELD)?,
    })
}

pub(super) fn held_out(conn: &Connection) -> Result<Vec<HeldOut>, StoreError> {
    let entries = rows::held_entries(conn, decisions::LIST_LIMIT)?;
    Ok(entries
        .into_iter()
        .map(|(entry, held)| HeldOut { entry, reason: held.reason, key: held.key })
        .collect())
}

/// What is in the outbox, oldest first.
pub(super) fn outbox(conn: &Connection) -> Result<Vec<Waiting>, StoreError> {
    let mut statement = conn.prepare_cached(sql::OUTBOX_LIST)?;
    let waiting = statement.query_map([decisions::LIST_LIMIT], waiting)?;
    Ok(waiting.collect::<Result<_, _>>()?)
}

fn waiting(row: &rusqlite::Row<'_>) -> rusqlite::Result<Waiting> {
    Ok(Waiting {
        id: row.get(0)?,
        local_id: row.get(1)?,
        agent: row.get(2)?,
        kind: row.get(3)?,
        to: row.get(4)?,
        attempts: row.get(5)?,
        next_at: Timestamp::from_millis(row.get(6)?),
        expires_at: Timestamp::from_millis(row.get(7)?),
        held: row.get(8)?,
        is_next: row.get(9)?,
        why: row.get(10)?,
    })
}

/// Everything known of the message that is called `id` here or at the relay. `agents` are those with an address: ids
/// from outside are kept with them.
pub(super) fn trace(conn: &Connection, id: &str, agents: &[AgentName]) -> Result<Vec<Traced>, StoreError> {
    let mut crossed = Vec::new();
    for agent in agents {
        for direction in [Direction::Out, Direction::In] {
            let Ok(remote_id) = id.parse::<MessageId>() else { continue };
            if let Some(row) = rows::by_id(conn, agent, &remote_id, direction)? {
                crossed.push((agent, row));
            }
        }
        for generation in GENERATIONS {
            if let Some(row) = rows::by_local(conn, agent, id, generation)?
                && !crossed.iter().any(|(_, known)| is_same(known, &row))
            {
                crossed.push((agent, row));
            }
        }
    }
    let mut traced = Vec::new();
    for (agent, row) in crossed {
        traced.push(Traced {
            local: local(conn, &row.local_id, row.generation)?,
            waiting: out(conn, row.id.as_str())?,
            held: None,
            local_id: row.local_id.clone(),
            crossed: Some(Crossed {
                agent: agent.clone(),
                id: row.id.clone(),
                is_inbound: row.is_inbound,
                kind: row.kind,
                address: row.address.clone(),
                remote: row.remote.clone(),
                thread: row.conversation(),
                session: row.session.map(|session| session.to_string()),
            }),
        });
    }
    if traced.is_empty() {
        traced = here(conn, id, agents)?;
    }
    Ok(traced)
}

const GENERATIONS: [Generation; 2] = [Generation::V1, Generation::V2];

/// What is known of a message that has not crossed: it is of this machine, on its way out, or held on its way in.
fn here(conn: &Connection, id: &str, agents: &[AgentName]) -> Result<Vec<Traced>, StoreError> {
    let (mut waiting, mut held) = (out(conn, id)?, held(conn, id, agents)?);
    let mut locals = Vec::new();
    for generation in GENERATIONS {
        locals.extend(local(conn, id, generation)?.map(Some));
    }
    if locals.is_empty() && (waiting.is_some() || held.is_some()) {
        locals.push(None);
    }
    let traced = locals.into_iter().map(|local| {
        let (waiting, held) = (waiting.take(), held.take());
        Traced { local_id: id.to_owned(), local, crossed: None, waiting, held }
    });
    Ok(traced.collect())
}

fn is_same(one: &Bridged, other: &Bridged) -> bool {
    one.local_id == other.local_id && one.generation == other.generation
}

fn out(conn: &Connection, id: &str) -> Result<Option<Waiting>, StoreError> {
    Ok(conn.prepare_cached(sql::OUTBOX_BY_ID)?.query_row([id], waiting).optional()?)
}

/// Why an inbound message that is not here yet waits, and since when.
fn held(
    conn: &Connection,
    id: &str,
    agents: &[AgentName],
) -> Result<Option<(String, Timestamp)>, StoreError> {
    for agent in agents {
        let held = conn
            .prepare_cached(sql::HELD_BY_ID)?
            .query_row(params![agent.as_str(), id], |row| {
                Ok((row.get(0)?, Timestamp::from_millis(row.get(1)?)))
            })
            .optional()?;
        if held.is_some() {
            return Ok(held);
        }
    }
    Ok(None)
}

fn local(conn: &Connection, id: &str, generation: Generation) -> Result<Option<Local>, StoreError> {
    let at = |row: &rusqlite::Row<'_>, index: usize| {
        Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(index)?.map(Timestamp::from_millis))
    };
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Local {
            from: row.get(0)?,
            to: row.get(1)?,
            stored: Timestamp::from_millis(row.get(2)?),
            kind: row.get(3)?,
            status: row.get(4)?,
            attempts: row.get(5)?,
            stages: Stages {
                accepted: at(row, 6)?,
                leased: at(row, 7)?,
                acked: at(row, 8)?,
                answered: at(row, 9)?,
                held: at(row, 10)?,
                failed: at(row, 11)?,
            },
        })
    };
    let sql = match generation {
        Generation::V1 => sql::LOCAL_TRACE,
        Generation::V2 => sql::V2_TRACE,
    };
    Ok(conn.prepare_cached(sql)?.query_row([id], read).optional()?)
}
