//! The outbox: kept with the local message in one transaction, left only when the relay has answered for it.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use super::rows::{self, Bridged, NewBridged, NewEntry};
use super::sql;
use crate::domain::clock::Timestamp;
use crate::domain::crossing::{Crossing, InboundRequest, Named, crossing};
use crate::proto::redsyn::address::{AddressedAgent, Session, SessionId};
use crate::proto::redsyn::ids::{Kind, TTL_DEFAULT_SECS};
use crate::store::StoreError;
use crate::store::bridge::{Accepted, Departure, Failure, OutboxEntry};
use crate::store::local::{NewMessage, Sent};
use crate::store::sqlite::local::insert_message;

pub(super) fn depart(conn: &Connection, departure: &Departure) -> Result<Sent, StoreError> {
    let sent = insert_message(conn, &departure.message, None)?;
    if sent.duplicate {
        return Ok(sent);
    }
    let parent = named(conn, departure, departure.parent_id.as_deref())?;
    let reply_to = named(conn, departure, departure.reply_to.as_deref())?;
    let answered = parent.as_ref().or(reply_to.as_ref());
    let root_thread =
        departure.root_id.as_deref().map(|root| thread(conn, departure, root)).transpose()?.flatten();
    let what = crossing(
        departure.kind,
        parent.as_ref().map(facts).as_ref(),
        reply_to.as_ref().map(facts).as_ref(),
        root_thread.as_ref().map(|(thread, _)| thread.clone()),
        departure.receipts_travel,
    );
    match what {
        Crossing::Nothing => {
            conn.prepare_cached(sql::SET_STATUS)?.execute(params![sent.id.as_str(), "done"])?;
        }
        Crossing::Request { thread } => {
            let session =
                answered.and_then(|row| row.session.clone()).or(root_thread.and_then(|(_, session)| session));
            insert(
                conn,
                departure,
                &Leaving { kind: Kind::Request, session, thread, answers: None, error: false },
            )?;
        }
        Crossing::Reply { error, .. } => answer(conn, departure, answered, Kind::Reply, error)?,
        Crossing::Progress { .. } => answer(conn, departure, answered, Kind::Progress, false)?,
    }
    Ok(sent)
}

fn named(conn: &Connection, departure: &Departure, id: Option<&str>) -> Result<Option<Bridged>, StoreError> {
    let Some(id) = id else { return Ok(None) };
    let row = rows::by_local(conn, &departure.agent, id)?;
    // A conversation with somebody else is none of the recipient's business: their ids would leak through it.
    Ok(row.filter(|row| row.remote == departure.remote.agent))
}

/// The thread that `root_id` names, if we have met it with this remote agent, and our session in it.
fn thread(
    conn: &Connection,
    departure: &Departure,
    root_id: &str,
) -> Result<Option<(String, Option<SessionId>)>, StoreError> {
    let remote = departure.remote.agent.to_string();
    let by_thread: Option<Option<String>> = conn
        .prepare_cached(sql::BRIDGED_BY_THREAD)?
        .query_row(params![departure.agent.as_str(), root_id, remote], |row| row.get(0))
        .optional()?;
    if let Some(session) = by_thread {
        let session =
            session.map(|id| id.parse().map_err(|error| rows::damaged("session", error))).transpose()?;
        return Ok(Some((root_id.to_owned(), session)));
    }
    let row = named(conn, departure, Some(root_id))?;
    Ok(row.and_then(|row| row.thread.map(|thread| (thread, row.session))))
}

fn facts(row: &Bridged) -> Named {
    let is_request = row.is_inbound && row.kind == Kind::Request;
    let inbound_request = is_request.then(|| InboundRequest { id: row.id.clone(), is_closed: row.is_closed });
    Named { inbound_request, thread: row.thread.clone() }
}

/// What a departure has become.
struct Leaving<'a> {
    kind: Kind,
    session: Option<SessionId>,
    thread: Option<String>,
    answers: Option<&'a Bridged>,
    error: bool,
}

fn answer(
    conn: &Connection,
    departure: &Departure,
    request: Option<&Bridged>,
    kind: Kind,
    error: bool,
) -> Result<(), StoreError> {
    let Some(request) = request else {
        return Err(StoreError::Other("an answer without its request".into()));
    };
    if kind == Kind::Reply {
        conn.prepare_cached(sql::BRIDGED_CLOSE)?
            .execute(params![departure.agent.as_str(), request.id.as_str()])?;
        conn.prepare_cached(sql::STAGE_INBOUND_ANSWERED)?
            .execute(params![request.local_id, departure.now.millis()])?;
    }
    let leaving = Leaving {
        kind,
        session: request.session.clone(),
        thread: request.thread.clone(),
        answers: Some(request),
        error,
    };
    insert(conn, departure, &leaving)
}

fn insert(conn: &Connection, departure: &Departure, leaving: &Leaving<'_>) -> Result<(), StoreError> {
    let ttl = departure.ttl.unwrap_or(TTL_DEFAULT_SECS);
    let from = AddressedAgent {
        agent: departure.address.clone(),
        session: leaving.session.clone().map(Session::Id),
    };
    let mut remote = departure.remote.clone();
    if let (None, Some(request)) = (&remote.session, leaving.answers) {
        remote.session = request.remote_session.clone().map(Session::Id);
    }
    let reply_to = leaving.answers.map(|request| &request.id);
    rows::insert_bridged(
        conn,
        &NewBridged {
            agent: &departure.agent,
            id: &departure.id,
            local_id: departure.message.id.as_str(),
            is_inbound: false,
            kind: leaving.kind,
            remote: &remote,
            thread: leaving.thread.as_deref(),
            session: leaving.session.as_ref(),
            reply_to,
            reply_key: None,
            now: departure.now,
        },
    )?;
    rows::insert_entry(
        conn,
        &NewEntry {
            id: &departure.id,
            local_id: Some(departure.message.id.as_str()),
            agent: &departure.agent,
            kind: leaving.kind,
            from: &from,
            remote: &remote,
            thread: leaving.thread.as_deref(),
            reply_to,
            reply_key: leaving.answers.and_then(|request| request.reply_key.as_deref()),
            content: &departure.content,
            error: leaving.error,
            ttl: departure.ttl,
            expires_at: departure.now.plus(Duration::from_secs(ttl)),
            now: departure.now,
        },
    )?;
    Ok(())
}

pub(super) fn due(conn: &Connection, now: Timestamp, limit: usize) -> Result<Vec<OutboxEntry>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = conn.prepare_cached(sql::DUE)?;
    let entries = statement.query_map(params![now.millis(), limit], rows::entry)?;
    entries.map(|entry| entry?).collect()
}

pub(super) fn next_due(conn: &Connection, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
    let next = conn.prepare_cached(sql::NEXT_DUE)?.query_row([now.millis()], |row| row.get(0)).optional()?;
    Ok(next.map(Timestamp::from_millis))
}

pub(super) fn accepted(conn: &Connection, accepted: &Accepted) -> Result<(), StoreError> {
    conn.prepare_cached(sql::DELETE_OUTBOX)?.execute([accepted.seq])?;
    conn.prepare_cached(sql::BRIDGED_ACCEPTED)?.execute(params![
        accepted.agent.as_str(),
        accepted.id.as_str(),
        accepted.thread,
        accepted.remote_session.as_ref().map(ToString::to_string),
    ])?;
    if let Some(row) = rows::by_id(conn, &accepted.agent, &accepted.id)? {
        conn.prepare_cached(sql::STAGE_ACCEPTED)?.execute(params![row.local_id, accepted.now.millis()])?;
        if row.kind != Kind::Request {
            // Nothing comes back for an answer: the relay's word is the last stage there is.
            conn.prepare_cached(sql::SET_STATUS)?.execute(params![row.local_id, "done"])?;
        }
    }
    Ok(())
}

pub(super) fn postpone(conn: &Connection, seq: i64, next: Timestamp) -> Result<(), StoreError> {
    conn.prepare_cached(sql::POSTPONE)?.execute(params![seq, next.millis()])?;
    Ok(())
}

pub(super) fn hold(
    conn: &Connection,
    entry: &OutboxEntry,
    reason: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    conn.prepare_cached(sql::HOLD_OUTBOX)?.execute(params![entry.seq, reason])?;
    if let Some(local_id) = &entry.local_id {
        conn.prepare_cached(sql::STAGE_HELD)?.execute(params![local_id, now.millis()])?;
    }
    Ok(())
}

pub(super) fn failed(
    conn: &Connection,
    failure: &Failure,
    notice: Option<&NewMessage>,
) -> Result<(), StoreError> {
    let entry = &failure.entry;
    conn.prepare_cached(sql::DELETE_OUTBOX)?.execute([entry.seq])?;
    conn.prepare_cached(sql::BRIDGED_CLOSE)?.execute(params![entry.agent.as_str(), entry.id.as_str()])?;
    if let Some(local_id) = &entry.local_id {
        conn.prepare_cached(sql::STAGE_FAILED)?.execute(params![local_id, failure.now.millis()])?;
    }
    if let Some(notice) = notice {
        insert_message(conn, notice, Some(&entry.agent))?;
    }
    Ok(())
}
