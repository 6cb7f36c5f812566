//! Which generation an agent takes its mail in: each message is in one of the two stores, and goes over while nobody
//! has taken it (docs/decisions/generations.md).

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;

use super::rows::{self, Direction};
use super::sql;
use crate::crypto::sha256;
use crate::domain::clock::Timestamp;
use crate::proto::dsh::names::{AgentName, DshId};
use crate::proto::dsh::v2::message::Kind;
use crate::proto::dsh::v2::name::Name;
use crate::store::StoreError;
use crate::store::bridge::OutboxEntry;
use crate::store::bridge::generation::{Generation, redsyn_for_v2, to_v1, to_v2};
use crate::store::local::NewMessage;
use crate::store::sqlite::{local, v2};
use crate::store::v2::NewMessage as V2Message;

/// A stage that a message of either generation reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Accepted,
    /// Nothing comes back.
    Done,
    Answered {
        error: bool,
    },
    Failed,
    Held,
    /// Somebody beyond the machine has taken it.
    Leased,
    /// An inbound message waited for a person, since then.
    InboundHeld,
    /// An inbound message was answered here.
    InboundAnswered,
}

pub(super) fn reach(
    conn: &Connection,
    generation: Generation,
    stage: Stage,
    local_id: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    let is_v2 = generation == Generation::V2;
    let sql = match stage {
        Stage::Accepted if is_v2 => sql::V2_ACCEPTED,
        Stage::Accepted => sql::STAGE_ACCEPTED,
        Stage::Done | Stage::Answered { .. } => {
            let (answered, done) =
                if is_v2 { (sql::V2_ANSWERED, "completed") } else { (sql::STAGE_ANSWERED, "done") };
            return match stage {
                Stage::Answered { error } => {
                    let status = if error { "failed" } else { done };
                    conn.prepare_cached(answered)?.execute(params![local_id, now.millis(), status])?;
                    if error { reach(conn, generation, Stage::Failed, local_id, now) } else { Ok(()) }
                }
                _ if is_v2 => {
                    conn.prepare_cached(sql::V2_DONE)?.execute(params![local_id, now.millis()])?;
                    Ok(())
                }
                _ => {
                    conn.prepare_cached(sql::SET_STATUS)?.execute(params![local_id, done])?;
                    Ok(())
                }
            };
        }
        Stage::Failed if is_v2 => sql::V2_FAILED,
        Stage::Failed => sql::STAGE_FAILED,
        Stage::Held if is_v2 => sql::V2_HELD,
        Stage::Held => sql::STAGE_HELD,
        Stage::Leased if is_v2 => sql::V2_LEASED,
        Stage::Leased => sql::STAGE_LEASED,
        Stage::InboundHeld if is_v2 => sql::V2_INBOUND_HELD,
        Stage::InboundHeld => sql::STAGE_INBOUND_HELD,
        Stage::InboundAnswered if is_v2 => sql::V2_INBOUND_ANSWERED,
        Stage::InboundAnswered => sql::STAGE_INBOUND_ANSWERED,
    };
    conn.prepare_cached(sql)?.execute(params![local_id, now.millis()])?;
    Ok(())
}

/// The generation in which mail for `agent` is kept.
pub(super) fn of(conn: &Connection, agent: &AgentName) -> Result<Generation, StoreError> {
    let number =
        conn.prepare_cached(sql::GENERATION)?.query_row([agent.as_str()], |row| row.get(0)).optional()?;
    Ok(number.map_or(Generation::V1, Generation::of))
}

/// `agent` takes its mail in `generation` from now on. What it has not been shown yet goes over with it.
pub(super) fn switch(conn: &Connection, agent: &AgentName, generation: Generation) -> Result<(), StoreError> {
    if of(conn, agent)? == generation {
        return Ok(());
    }
    conn.prepare_cached(sql::SET_GENERATION)?.execute(params![agent.as_str(), generation.number()])?;
    match generation {
        Generation::V2 => {
            for (seq, message) in local::unseen(conn, agent)? {
                to_second(conn, agent, seq, message)?;
            }
        }
        Generation::V1 => {
            for stored in v2::unseen(conn, &Name::of(agent.as_str()))? {
                if let Some(redsyn) = stored.redsyn {
                    to_first(conn, agent, stored.seq, &stored.message, redsyn)?;
                }
            }
        }
    }
    Ok(())
}

fn to_second(conn: &Connection, agent: &AgentName, seq: i64, message: NewMessage) -> Result<(), StoreError> {
    let old = message.id.to_string();
    let Some(row) = rows::by_local(conn, agent, &old, Generation::V1)?.filter(|row| row.is_inbound) else {
        return Ok(());
    };
    let zip: Option<Vec<u8>> =
        conn.prepare_cached(sql::ZIP_OF)?.query_row([seq], |row| row.get(0)).optional()?;
    let id = insert_v2(conn, agent, message, zip.as_deref())?;
    conn.prepare_cached(sql::DELETE_MESSAGE)?.execute([seq])?;
    moved(conn, agent, &row, id.as_str(), Generation::V2)
}

fn to_first(
    conn: &Connection,
    agent: &AgentName,
    seq: i64,
    message: &V2Message,
    redsyn: Value,
) -> Result<(), StoreError> {
    let Some(row) = rows::by_local(conn, agent, message.id.as_str(), Generation::V2)? else { return Ok(()) };
    let mut over = to_v1(message, redsyn, agent);
    if conn.prepare_cached(sql::LOCAL_ID_TAKEN)?.exists([over.id.as_str()])? {
        over.id = unique(agent, &over);
    }
    if local::insert_message(conn, &over, Some(agent))?.duplicate {
        return Err(StoreError::Other(format!("no local id is free for {}", over.id)));
    }
    let zip: Option<Option<Vec<u8>>> =
        conn.prepare_cached(sql::V2_ZIP_OF)?.query_row([seq], |row| row.get(0)).optional()?;
    if let Some(zip) = zip.flatten() {
        conn.prepare_cached(sql::INSERT_FILES)?.execute(params![over.id.as_str(), zip])?;
    }
    conn.prepare_cached(sql::V2_DELETE)?.execute([seq])?;
    moved(conn, agent, &row, over.id.as_str(), Generation::V1)
}

fn moved(
    conn: &Connection,
    agent: &AgentName,
    row: &rows::Bridged,
    local_id: &str,
    generation: Generation,
) -> Result<(), StoreError> {
    conn.prepare_cached(sql::BRIDGED_MOVED)?.execute(params![
        agent.as_str(),
        row.id.as_str(),
        local_id,
        generation.number()
    ])?;
    Ok(())
}

/// Keeps an inbound message in the second generation. Gives its id there.
pub(super) fn insert_v2(
    conn: &Connection,
    agent: &AgentName,
    mut message: NewMessage,
    zip: Option<&[u8]>,
) -> Result<DshId, StoreError> {
    if conn.prepare_cached(sql::V2_ID_TAKEN)?.exists([message.id.as_str()])? {
        message.id = unique(agent, &message);
    }
    let new = to_v2(&message, agent);
    if v2::insert_message(conn, &new, Some(&new.target))?.duplicate {
        return Err(StoreError::Other(format!("no local id is free for {}", new.id)));
    }
    let redsyn = redsyn_for_v2(&message).to_string();
    conn.prepare_cached(sql::V2_REDSYN)?.execute(params![new.id.as_str(), redsyn, zip])?;
    Ok(new.id)
}

fn unique(agent: &AgentName, message: &NewMessage) -> DshId {
    let unique = format!("{} {} {}", agent.as_str(), message.from, message.id);
    DshId::new(format!("x{}", sha256::hex(unique.as_bytes())))
}

/// Tells a sender of the second generation that its message will never arrive, once.
pub(super) fn undelivered(
    conn: &Connection,
    entry: &OutboxEntry,
    told: &NewMessage,
    local_id: &str,
) -> Result<(), StoreError> {
    let mut notice = to_v2(told, &entry.agent);
    let key = format!("undelivered:{local_id}");
    if let Some(asked) = v2::by_id(conn, &DshId::new(local_id))? {
        let asked = asked.message;
        notice = V2Message {
            root_id: asked.root_id,
            origin: asked.target,
            target: asked.origin,
            session_ref: asked.session_ref,
            mode: asked.mode,
            topic: asked.topic,
            ..notice
        };
    }
    let body = told.body.to_value();
    let why = body.as_ref().and_then(|body| body.get("error")).and_then(Value::as_str).unwrap_or_default();
    notice = V2Message {
        id: DshId::new(sha256::hex(key.as_bytes()).get(..32).unwrap_or_default()),
        parent_id: Some(local_id.to_owned()),
        kind: Kind::Reply,
        body: why.to_owned(),
        idempotency_key: key,
        ..notice
    };
    v2::insert_message(conn, &notice, Some(&notice.target))?;
    Ok(())
}

/// The agent for which an inbound message of the second generation is, and what crossed.
pub(super) fn arrived(
    conn: &Connection,
    local_id: &str,
) -> Result<Option<(AgentName, rows::Bridged)>, StoreError> {
    let agent: Option<String> =
        conn.prepare_cached(sql::BRIDGED_AGENT_V2)?.query_row([local_id], |row| row.get(0)).optional()?;
    let Some(agent) = agent.as_deref().and_then(AgentName::parse) else { return Ok(None) };
    let row = rows::by_local(conn, &agent, local_id, Generation::V2)?;
    Ok(row.map(|row| (agent, row)))
}

/// What the local message of something that left is of.
pub(super) fn of_entry(conn: &Connection, entry: &OutboxEntry) -> Result<Generation, StoreError> {
    let row = rows::by_id(conn, &entry.agent, &entry.id, Direction::Out)?;
    Ok(row.map_or(Generation::V1, |row| row.generation))
}
