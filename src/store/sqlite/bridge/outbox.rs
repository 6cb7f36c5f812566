//! The outbox: kept with the local message in one transaction, left only when the relay has answered for it.

use std::collections::HashSet;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use super::generations::{self, Stage, reach};
use super::rows::{self, Bridged, Direction, NewBridged, NewEntry};
use super::{pins, sql};
use crate::domain::clock::Timestamp;
use crate::domain::crossing::{Crossing, InboundRequest, Named, crossing};
use crate::proto::dsh::names::DshId;
use crate::proto::redsyn::address::{AddressedAgent, Destination, Session, SessionId};
use crate::proto::redsyn::ids::{Kind, TTL_DEFAULT_SECS};
use crate::store::StoreError;
use crate::store::bridge::generation::{Generation, Outgoing};
use crate::store::bridge::{Accepted, Departure, Due, Failure, OutboxEntry, Parcel, Pins};
use crate::store::local::{NewMessage, Sent};
use crate::store::sqlite::local::insert_message;
use crate::store::sqlite::v2;
use crate::store::v2::Created;

/// When an entry that cannot be read expires.
const NEVER: i64 = i64::MAX;

/// How long a held entry waits until it is judged again.
const HELD_AGAIN: Duration = Duration::from_secs(5 * 60);

pub(super) fn depart(conn: &Connection, departure: &Departure) -> Result<Created, StoreError> {
    let sent = match &departure.message {
        Outgoing::V1(message) => {
            let Sent { id, duplicate } = insert_message(conn, message, None)?;
            Created { id, duplicate, conflict: false }
        }
        Outgoing::V2(message) => v2::insert_message(conn, message, None)?,
    };
    let generation = departure.message.generation();
    if sent.duplicate || is_under_way(conn, departure)? {
        return Ok(Created { duplicate: true, ..sent });
    }
    let parent = named(conn, departure, departure.parent_id.as_deref())?;
    let reply_to = named(conn, departure, departure.reply_to.as_deref())?;
    let named = parent.as_ref().or(reply_to.as_ref());
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
            reach(conn, generation, Stage::Done, sent.id.as_str(), departure.now)?;
        }
        // Nobody answers an event, and it answers nothing.
        _ if matches!(departure.remote, Destination::Topic(_)) => {
            let leaving =
                Leaving { kind: Kind::Event, session: None, thread: None, answers: None, error: false };
            insert(conn, departure, &leaving)?;
        }
        Crossing::Request { thread } => {
            let session =
                named.and_then(|row| row.session.clone()).or(root_thread.and_then(|(_, session)| session));
            insert(
                conn,
                departure,
                &Leaving { kind: Kind::Request, session, thread, answers: None, error: false },
            )?;
        }
        Crossing::Reply { to, error } => {
            let request = [parent, reply_to].into_iter().flatten().find(|row| row.id == to && row.is_inbound);
            answer(conn, departure, request.as_ref(), Kind::Reply, error)?;
        }
        Crossing::Progress { to } => {
            let request = [parent, reply_to].into_iter().flatten().find(|row| row.id == to && row.is_inbound);
            answer(conn, departure, request.as_ref(), Kind::Progress, false)?;
        }
    }
    Ok(sent)
}

/// Whether the same message is in the outbox although its local row has been swept away. Another message under the
/// same id fails: two that share one would reach the relay as one.
fn is_under_way(conn: &Connection, departure: &Departure) -> Result<bool, StoreError> {
    let of: Option<Option<String>> = conn
        .prepare_cached(sql::OUTBOX_LOCAL)?
        .query_row([departure.id.as_str()], |row| row.get(0))
        .optional()?;
    match of {
        None => Ok(false),
        Some(Some(local_id)) if local_id == departure.message.id().as_str() => Ok(true),
        Some(_) => {
            Err(StoreError::Other(format!("the id {} is under way for another message", departure.id)))
        }
    }
}

fn named(conn: &Connection, departure: &Departure, id: Option<&str>) -> Result<Option<Bridged>, StoreError> {
    let Some(id) = id else { return Ok(None) };
    let row = rows::by_local(conn, &departure.agent, id, departure.message.generation())?;
    // A conversation with somebody else is none of the recipient's business: their ids would leak through it.
    Ok(row.filter(|row| row.remote == departure.remote.base()))
}

/// The thread that `root_id` names, if we have met it with this remote agent, and our session in it.
fn thread(
    conn: &Connection,
    departure: &Departure,
    root_id: &str,
) -> Result<Option<(String, Option<SessionId>)>, StoreError> {
    let remote = departure.remote.base().to_string();
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
    Ok(row.and_then(|row| row.conversation().map(|thread| (thread, row.session))))
}

fn facts(row: &Bridged) -> Named {
    let is_request = row.is_inbound && row.kind == Kind::Request;
    let inbound_request = is_request.then(|| InboundRequest { id: row.id.clone(), is_closed: row.is_closed });
    Named { inbound_request, thread: row.conversation() }
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
        rows::close(conn, &departure.agent, &request.id, Direction::In)?;
        reach(conn, request.generation, Stage::InboundAnswered, &request.local_id, departure.now)?;
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
    if let (Destination::Agent(AddressedAgent { session: session @ None, .. }), Some(request)) =
        (&mut remote, leaving.answers)
    {
        *session = request.remote_session.clone().map(Session::Id);
    }
    let reply_to = leaving.answers.map(|request| &request.id);
    rows::insert_bridged(
        conn,
        &NewBridged {
            agent: &departure.agent,
            id: &departure.id,
            local_id: departure.message.id().as_str(),
            direction: Direction::Out,
            kind: leaving.kind,
            address: &departure.address,
            remote: &remote,
            thread: leaving.thread.as_deref(),
            session: leaving.session.as_ref(),
            reply_to,
            reply_key: None,
            generation: departure.message.generation(),
            now: departure.now,
        },
    )?;
    rows::insert_entry(
        conn,
        &NewEntry {
            id: &departure.id,
            local_id: Some(departure.message.id().as_str()),
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
    let Parcel { encrypt, zip } = &departure.parcel;
    if encrypt.is_some() || zip.is_some() {
        conn.prepare_cached(sql::INSERT_PARCEL)?.execute(params![departure.id.as_str(), encrypt, zip])?;
    }
    if let Some(files) = &departure.files {
        let id = departure.message.id().as_str();
        match departure.message.generation() {
            Generation::V1 => conn.prepare_cached(sql::INSERT_FILES)?.execute(params![id, files])?,
            Generation::V2 => conn.prepare_cached(sql::V2_REDSYN)?.execute(params![id, "{}", files])?,
        };
    }
    Ok(())
}

pub(super) fn due(
    conn: &Connection,
    now: Timestamp,
    under_way: &HashSet<i64>,
    limit: usize,
) -> Result<Due, StoreError> {
    let looked_at = i64::try_from(under_way.len().saturating_add(limit)).unwrap_or(i64::MAX);
    let mut statement = conn.prepare_cached(sql::DUE)?;
    let seqs = statement.query_map(params![now.millis(), looked_at], |row| row.get(0))?;
    let seqs: Vec<i64> = seqs.collect::<Result<_, _>>()?;
    let mut entries = Vec::new();
    let mut statement = conn.prepare_cached(sql::ENTRY)?;
    for seq in seqs.into_iter().filter(|seq| !under_way.contains(seq)).take(limit) {
        match statement.query_row([seq], rows::entry)? {
            Ok(entry) => entries.push(OutboxEntry { sealed_for: sealed_for(conn, &entry)?, ..entry }),
            // One unreadable entry must not stop the rest. It stays, held, for a person to look at.
            Err((seq, error)) => {
                tracing::error!(seq, %error, "outbox_entry_unreadable");
                conn.prepare_cached(sql::HOLD_UNREADABLE)?.execute(params![seq, error.to_string(), NEVER])?;
            }
        }
    }
    let next = conn.prepare_cached(sql::NEXT_DUE)?.query_row([now.millis()], |row| row.get(0)).optional()?;
    Ok(Due { entries, next: next.map(Timestamp::from_millis) })
}

/// Looked up with the entry, so that a key that is known is asked about no more. An answer has its key already.
fn sealed_for(conn: &Connection, entry: &OutboxEntry) -> Result<Option<Pins>, StoreError> {
    match entry.remote.agent().filter(|_| entry.reply_key.is_none()) {
        Some(address) if pins::was_sealed(conn, address)? => Ok(Some(pins::of(conn, &address.person())?)),
        _ => Ok(None),
    }
}

pub(super) fn accepted(conn: &Connection, accepted: &Accepted) -> Result<(), StoreError> {
    let is_news = settle(conn, accepted.seq)?;
    conn.prepare_cached(sql::BRIDGED_ACCEPTED)?.execute(params![
        accepted.agent.as_str(),
        accepted.id.as_str(),
        accepted.thread,
        accepted.remote_session.as_ref().map(ToString::to_string),
    ])?;
    let Some(row) = rows::by_id(conn, &accepted.agent, &accepted.id, Direction::Out)? else { return Ok(()) };
    if let Some(thread) = accepted.thread.as_deref().filter(|thread| *thread != accepted.id.as_str()) {
        // What already waits behind it was given the thread that the spec promises.
        let lane = rows::lane(&accepted.agent, &row.remote, accepted.id.as_str());
        conn.prepare_cached(sql::RETHREAD)?.execute(params![lane, thread])?;
    }
    if is_news {
        reach(conn, row.generation, Stage::Accepted, &row.local_id, accepted.now)?;
        if row.kind != Kind::Request {
            // Nothing comes back for an answer: the relay's word is the last stage there is.
            reach(conn, row.generation, Stage::Done, &row.local_id, accepted.now)?;
        }
    }
    Ok(())
}

/// Takes the entry out of the outbox. False when it has been settled already: then nobody may be told again.
fn settle(conn: &Connection, seq: i64) -> Result<bool, StoreError> {
    Ok(conn.prepare_cached(sql::DELETE_OUTBOX)?.execute([seq])? == 1)
}

pub(super) fn postpone(conn: &Connection, seq: i64, next: Timestamp, why: &str) -> Result<(), StoreError> {
    conn.prepare_cached(sql::POSTPONE)?.execute(params![seq, next.millis(), why])?;
    Ok(())
}

pub(super) fn hold(
    conn: &Connection,
    entry: &OutboxEntry,
    reason: &str,
    key: Option<&str>,
    now: Timestamp,
) -> Result<(), StoreError> {
    // A moment without a key passes by itself; an expiry is told when it comes.
    let again = now.plus(HELD_AGAIN).min(entry.expires_at);
    let held = params![entry.seq, reason, again.millis(), key];
    let is_there = conn.prepare_cached(sql::HOLD_OUTBOX)?.execute(held)? == 1;
    if let Some(local_id) = entry.local_id.as_deref().filter(|_| is_there) {
        reach(conn, generations::of_entry(conn, entry)?, Stage::Held, local_id, now)?;
    }
    Ok(())
}

pub(super) fn failed(
    conn: &Connection,
    failure: &Failure,
    notice: Option<&NewMessage>,
) -> Result<(), StoreError> {
    let entry = &failure.entry;
    if !settle(conn, entry.seq)? {
        return Ok(());
    }
    rows::close(conn, &entry.agent, &entry.id, Direction::Out)?;
    let generation = generations::of_entry(conn, entry)?;
    if let Some(local_id) = &entry.local_id {
        reach(conn, generation, Stage::Failed, local_id, failure.now)?;
        if let (Generation::V2, Some(notice)) = (generation, notice) {
            return generations::undelivered(conn, entry, notice, local_id);
        }
    }
    if let Some(notice) = notice
        && insert_message(conn, notice, Some(&entry.agent))?.duplicate
    {
        // Somebody has sent a message under the id of the notice. It must arrive all the same.
        let id = DshId::new(format!("{}:{}", notice.id, entry.seq));
        insert_message(conn, &NewMessage { id, ..notice.clone() }, Some(&entry.agent))?;
    }
    Ok(())
}
