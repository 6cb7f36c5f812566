//! What comes in: one transaction keeps the local message, the row that tells that it has come, and the pin.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use super::generations::{self, Stage, reach};
use super::rows::{self, Bridged, Direction, NewBridged, NewEntry};
use super::{decisions, pins, remotes, sql};
use crate::crypto::sha256;
use crate::domain::clock::Timestamp;
use crate::domain::v2::delivery::Status;
use crate::proto::dsh::json::JsonText;
use crate::proto::dsh::names::{AgentName, DshId};
use crate::proto::redsyn::address::{AddressedAgent, Destination, Session};
use crate::proto::redsyn::body::Body;
use crate::proto::redsyn::ids::{Kind, MessageId, TTL_DEFAULT_SECS, TTL_MAX_SECS};
use crate::store::StoreError;
use crate::store::bridge::generation::Generation;
use crate::store::bridge::{Arrival, Content, Landed, PinState, Refusal};
use crate::store::local::{EndedMessage, Ending, NewMessage};
use crate::store::sqlite::local::insert_message;
use crate::store::v2::Ended;

pub(super) fn arrive(conn: &Connection, arrival: &Arrival) -> Result<Landed, StoreError> {
    // Before the pin: what was delivered stays delivered, whatever has become of its signer's keys.
    if is_seen(conn, &arrival.agent, &arrival.id)? {
        return Ok(Landed::Seen);
    }
    if let Some(key) = &arrival.signer
        && pins::state(conn, &arrival.from.agent.person(), key)? == PinState::Other
    {
        return Ok(Landed::Held);
    }
    if decisions::is_behind(conn, arrival)? {
        return Ok(Landed::Behind);
    }
    let held_since = end_hold(conn, &arrival.agent, &arrival.id)?;
    let mut message = arrival.message.clone();
    if arrival.kind.is_answer() && !answer(conn, arrival, &mut message)? {
        mark_seen(conn, &arrival.agent, &arrival.id, arrival.now)?;
        return Ok(Landed::Unasked);
    }
    if let Some(key) = &arrival.signer {
        let person = arrival.from.agent.person();
        if pins::pin_first(conn, &person, key, arrival.now)? == PinState::First {
            tracing::info!(%person, key, "pin_first_use");
        }
    }
    remotes::seen(conn, &arrival.from.agent, arrival.now)?;
    let generation = generations::of(conn, &arrival.agent)?;
    let local_id = match generation {
        Generation::V1 => keep_v1(conn, arrival, message)?,
        Generation::V2 => generations::insert_v2(conn, &arrival.agent, message, arrival.zip.as_deref())?,
    };
    if let Some(since) = held_since {
        reach(conn, generation, Stage::InboundHeld, local_id.as_str(), since)?;
    }
    rows::insert_bridged(
        conn,
        &NewBridged {
            agent: &arrival.agent,
            id: &arrival.id,
            local_id: local_id.as_str(),
            direction: Direction::In,
            kind: arrival.kind,
            address: &arrival.address,
            remote: &arrival.from.clone().into(),
            thread: arrival.thread.as_deref(),
            session: arrival.session.as_ref(),
            reply_to: arrival.reply_to.as_ref(),
            reply_key: arrival.reply_key.as_deref(),
            generation,
            now: arrival.now,
        },
    )?;
    Ok(Landed::Delivered)
}

fn keep_v1(conn: &Connection, arrival: &Arrival, mut message: NewMessage) -> Result<DshId, StoreError> {
    free_local_id(conn, arrival, &mut message)?;
    if insert_message(conn, &message, Some(&arrival.agent))?.duplicate {
        return Err(StoreError::Other(format!("no local id is free for {}", arrival.id)));
    }
    if let Some(zip) = &arrival.zip {
        conn.prepare_cached(sql::INSERT_FILES)?.execute(params![message.id.as_str(), zip])?;
    }
    Ok(message.id)
}

/// The held copy goes in the transaction that deals with the message, or a person would decide about it twice. Since
/// when it was held.
fn end_hold(conn: &Connection, agent: &AgentName, id: &MessageId) -> Result<Option<Timestamp>, StoreError> {
    let key = params![agent.as_str(), id.as_str()];
    let since = conn.prepare_cached(sql::HELD_SINCE)?.query_row(key, |row| row.get(0)).optional()?;
    let since = since.map(Timestamp::from_millis);
    if since.is_some() {
        conn.prepare_cached(sql::DELETE_HELD)?.execute(params![agent.as_str(), id.as_str()])?;
    }
    Ok(since)
}

/// Ties an answer to the request it answers. False when we asked nothing of the kind of this sender.
fn answer(conn: &Connection, arrival: &Arrival, message: &mut NewMessage) -> Result<bool, StoreError> {
    let Some(reply_to) = &arrival.reply_to else { return Ok(false) };
    let request = rows::by_id(conn, &arrival.agent, reply_to, Direction::Out)?;
    let Some(request) = request else { return Ok(false) };
    let is_ours = request.kind == Kind::Request && request.remote.agent() == Some(&arrival.from.agent);
    if !is_ours || request.is_closed {
        return Ok(false);
    }
    taken_by_the_relay(conn, arrival, &request)?;
    let parent = JsonText::from(&serde_json::Value::String(request.local_id.clone()));
    message.reply_to = Some(parent.clone());
    message.parent_id = Some(parent);
    // Whoever answers has taken it.
    reach(conn, request.generation, Stage::Leased, &request.local_id, arrival.now)?;
    if arrival.kind == Kind::Reply {
        rows::close(conn, &arrival.agent, &request.id, Direction::Out)?;
        let stage = Stage::Answered { error: arrival.error };
        reach(conn, request.generation, stage, &request.local_id, arrival.now)?;
    }
    Ok(true)
}

/// An answer proves that the relay has the request, even if its 201 was lost on the way. Sending it again could only
/// end in telling that it never arrived.
fn taken_by_the_relay(conn: &Connection, arrival: &Arrival, request: &Bridged) -> Result<(), StoreError> {
    let agent = arrival.agent.as_str();
    let waited =
        conn.prepare_cached(sql::DELETE_OUTBOX_ID)?.execute(params![request.id.as_str(), agent])? == 1;
    if waited {
        let session = match &arrival.from.session {
            Some(Session::Id(id)) => Some(id.to_string()),
            Some(Session::New) | None => None,
        };
        conn.prepare_cached(sql::BRIDGED_ACCEPTED)?.execute(params![
            agent,
            request.id.as_str(),
            arrival.thread,
            session
        ])?;
        reach(conn, request.generation, Stage::Accepted, &request.local_id, arrival.now)?;
    }
    Ok(())
}

/// Remote senders choose their ids: one that names another message here already gets a local id of its own.
fn free_local_id(conn: &Connection, arrival: &Arrival, message: &mut NewMessage) -> Result<(), StoreError> {
    if conn.prepare_cached(sql::LOCAL_ID_TAKEN)?.exists([message.id.as_str()])? {
        let unique = format!("{} {} {}", arrival.agent.as_str(), arrival.from.agent, arrival.id);
        message.id = DshId::new(format!("x{}", sha256::hex(unique.as_bytes())));
    }
    Ok(())
}

pub(super) fn is_seen(conn: &Connection, agent: &AgentName, id: &MessageId) -> Result<bool, StoreError> {
    Ok(conn.prepare_cached(sql::IS_SEEN)?.exists(params![agent.as_str(), id.as_str()])?)
}

pub(super) fn first_unknown(
    conn: &Connection,
    agent: &AgentName,
    ids: &[MessageId],
) -> Result<Option<MessageId>, StoreError> {
    for id in ids {
        let is_held = conn.prepare_cached(sql::HELD_SINCE)?.exists(params![agent.as_str(), id.as_str()])?;
        if !is_held && !is_seen(conn, agent, id)? {
            return Ok(Some(id.clone()));
        }
    }
    Ok(None)
}

pub(super) fn thread_since(
    conn: &Connection,
    agent: &AgentName,
    thread: &str,
) -> Result<Option<Timestamp>, StoreError> {
    let mut since = conn.prepare_cached(sql::THREAD_SINCE)?;
    let until: Option<i64> = since.query_row(params![agent.as_str(), thread], |row| row.get(0))?;
    Ok(until.map(rows::kept_since))
}

/// Whether the id is new. For what is not delivered: what is has its row in `bridged`.
pub(super) fn mark_seen(
    conn: &Connection,
    agent: &AgentName,
    id: &MessageId,
    now: Timestamp,
) -> Result<bool, StoreError> {
    if is_seen(conn, agent, id)? {
        return Ok(false);
    }
    let seen = params![agent.as_str(), id.as_str(), rows::keep_until(now)];
    conn.prepare_cached(sql::INSERT_SEEN)?.execute(seen)?;
    Ok(true)
}

pub(super) fn refuse(conn: &Connection, refusal: &Refusal) -> Result<(), StoreError> {
    end_hold(conn, &refusal.agent, &refusal.id)?;
    if !mark_seen(conn, &refusal.agent, &refusal.id, refusal.now)? || refusal.kind != Kind::Request {
        return Ok(());
    }
    let from =
        AddressedAgent { agent: refusal.address.clone(), session: refusal.session.clone().map(Session::Id) };
    error_reply(
        conn,
        &ErrorReply {
            agent: &refusal.agent,
            request: &refusal.id,
            from: &from,
            to: &refusal.from,
            thread: refusal.thread.as_deref(),
            reply_key: None,
            text: &refusal.reason,
            now: refusal.now,
        },
    )
}

/// What the bridge itself says to a sender whose request comes to nothing here.
pub(super) struct ErrorReply<'a> {
    pub(super) agent: &'a AgentName,
    pub(super) request: &'a MessageId,
    pub(super) from: &'a AddressedAgent,
    pub(super) to: &'a AddressedAgent,
    pub(super) thread: Option<&'a str>,
    pub(super) reply_key: Option<&'a str>,
    pub(super) text: &'a str,
    pub(super) now: Timestamp,
}

/// Puts an error reply into the outbox: one for a request, however often it is asked for.
pub(super) fn error_reply(conn: &Connection, reply: &ErrorReply<'_>) -> Result<(), StoreError> {
    let digest = sha256::hex(format!("{} {}", reply.agent.as_str(), reply.request).as_bytes());
    let id: MessageId = format!("refused:{digest}")
        .parse()
        .map_err(|error| rows::damaged("the id of an error reply", error))?;
    let content = Content { body: Body::text(reply.text), refs: Vec::new() };
    rows::insert_entry(
        conn,
        &NewEntry {
            id: &id,
            local_id: None,
            agent: reply.agent,
            kind: Kind::Reply,
            from: reply.from,
            remote: &reply.to.clone().into(),
            thread: reply.thread,
            reply_to: Some(reply.request),
            reply_key: reply.reply_key,
            content: &content,
            error: true,
            ttl: None,
            expires_at: reply.now.plus(Duration::from_secs(TTL_DEFAULT_SECS)),
            now: reply.now,
        },
    )?;
    Ok(())
}

/// A local agent has let a message fail or expire. Was it a request from beyond the machine that nobody has answered,
/// its sender is told, in the spec's words.
pub(crate) fn ended(conn: &Connection, message: &EndedMessage) -> Result<(), StoreError> {
    let Some(agent) = &message.inbox else { return Ok(()) };
    let Some(request) = rows::by_local(conn, agent, message.id.as_str(), Generation::V1)? else {
        return Ok(());
    };
    if message.cause == Ending::Expired && message.was_polled {
        // Who polls cannot confirm: what was shown counts as taken, and its answer may still come.
        return Ok(());
    }
    let taken = matches!(message.cause, Ending::Failed).then_some(message.attempts);
    unanswered(conn, agent, request, taken, message.at).map(drop)
}

/// The same for the second generation. Whether the sender is beyond the machine, and not told by a notice here.
pub(crate) fn ended_v2(conn: &Connection, ended: Ended<'_>) -> Result<bool, StoreError> {
    let Some((agent, request)) = generations::arrived(conn, ended.message.message.id.as_str())? else {
        return Ok(false);
    };
    let taken =
        (ended.message.delivery.status() == Status::Failed).then_some(ended.message.delivery.attempts);
    unanswered(conn, &agent, request, taken, ended.at)?;
    Ok(true)
}

/// Tells the sender of a request that nobody has answered: `taken` so many times and never confirmed, or expired.
fn unanswered(
    conn: &Connection,
    agent: &AgentName,
    request: Bridged,
    taken: Option<u32>,
    now: Timestamp,
) -> Result<(), StoreError> {
    if !request.is_inbound || request.kind != Kind::Request || request.is_closed {
        return Ok(());
    }
    let Destination::Agent(AddressedAgent { agent: remote, .. }) = request.remote else { return Ok(()) };
    rows::close(conn, agent, &request.id, Direction::In)?;
    let text = match taken {
        Some(times) => {
            format!("not delivered: {} took it {times} times and never confirmed it", request.address)
        }
        None => format!("not delivered: it expired before {} took it", request.address),
    };
    let session = request.session.map(Session::Id);
    error_reply(
        conn,
        &ErrorReply {
            agent,
            request: &request.id,
            from: &AddressedAgent { agent: request.address, session },
            to: &AddressedAgent { agent: remote, session: request.remote_session.map(Session::Id) },
            thread: request.thread.as_deref(),
            reply_key: request.reply_key.as_deref(),
            text: &text,
            now,
        },
    )
}

/// How long what has left is shown to its sender, if nothing has ended it before.
const LONGEST: Duration = Duration::from_secs(TTL_MAX_SECS);
/// How many rows one transaction forgets, so that requests get through in between.
const FORGET_BATCH: i64 = 500;

/// Forgets a batch of what no relay can deliver again. Whether there may be more.
pub(super) fn forget(conn: &Connection, now: Timestamp) -> Result<bool, StoreError> {
    let mut more = false;
    let long_ago = [sql::FORGET_V2_AWAY, sql::FORGET_REMOTES];
    for sql in
        [sql::FORGET_SEEN, sql::FORGET_BRIDGED, sql::FORGET_UPLOADS, sql::FORGET_V2_AWAY, sql::FORGET_REMOTES]
    {
        let before = if long_ago.contains(&sql) { now.minus(LONGEST) } else { now };
        let gone = conn.prepare_cached(sql)?.execute(params![before.millis(), FORGET_BATCH])?;
        more |= i64::try_from(gone).unwrap_or(i64::MAX) == FORGET_BATCH;
    }
    Ok(more)
}
