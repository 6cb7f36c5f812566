//! Mailboxes: taking, looking, confirming.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use rusqlite::params;

use super::lanes::{ANYBODY, Done, Leased};
use super::tx::Tx;
use super::{Readable, Result, Unreadable, agents, all, due, messages, one};
use crate::domain::clock::Timestamp;
use crate::proto::redsyn::address::AgentAddress;
use crate::proto::redsyn::ids::MessageId;
use crate::store::relay::{Delivered, NodeId, PersonId, StoredMessage, Take, TakeWhat};
use crate::store::sqlite::is_unreadable;

statements! {
    LANES = "
        SELECT next_seq, lane FROM lanes WHERE agent = ?1 AND owner = ?2 ORDER BY next_seq LIMIT ?3";
    ANSWERS = "
        SELECT seq, lane FROM deliveries
        WHERE agent = ?1 AND reply_to = ?2 AND reply_to IS NOT NULL AND done IS NULL AND lease_until IS NULL
        ORDER BY seq LIMIT ?3";
    WAITING = "
        SELECT seq, message, attempts, to_text FROM deliveries
        WHERE agent = ?1 AND done IS NULL AND lease_until IS NULL AND expires > ?2 ORDER BY seq LIMIT ?3";
    WAITING_ANSWERS = "
        SELECT seq, message, attempts, to_text FROM deliveries
        WHERE agent = ?1 AND reply_to = ?2 AND reply_to IS NOT NULL AND done IS NULL AND lease_until IS NULL
            AND expires > ?3
        ORDER BY seq LIMIT ?4";
    TAKEN = "
        SELECT deliveries.seq, deliveries.attempts FROM messages
        JOIN deliveries ON deliveries.message = messages.seq AND deliveries.agent = ?2
        WHERE messages.id = ?1 AND deliveries.done IS NULL";
}

/// The most envelopes of one answer: at 64 KB a body, about 3 MB.
const AT_ONCE: usize = 50;

pub(super) fn take(tx: &mut Tx<'_>, take: &Take) -> Result<Vec<Delivered>> {
    let agent = agents::own(tx.conn, take.person, &take.agent)?;
    due::end_leases_of(tx, agent.id)?;
    match &take.what {
        TakeWhat::Peek { answers_to } => peek(tx, agent.id, answers_to.as_ref()),
        TakeWhat::Any { lease_secs } => {
            agents::heartbeat(tx.conn, &agent, take.node, tx.now)?;
            take_any(tx, agent.id, take.node, until(tx.now, *lease_secs))
        }
        TakeWhat::AnswersTo { request, lease_secs } => {
            agents::heartbeat(tx.conn, &agent, take.node, tx.now)?;
            take_answers(tx, agent.id, take.node, request, until(tx.now, *lease_secs))
        }
    }
}

fn until(now: Timestamp, lease_secs: u64) -> Timestamp {
    now.plus(Duration::from_secs(lease_secs))
}

/// Takes in order of arrival from every lane that is this node's to take from.
fn take_any(tx: &mut Tx<'_>, agent: i64, node: NodeId, until: Timestamp) -> Result<Vec<Delivered>> {
    let mut heads = BinaryHeap::new();
    for owner in [ANYBODY, node.0] {
        let lanes = all(tx.conn, LANES, params![agent, owner, AT_ONCE as i64], |row| {
            Ok(Reverse((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))
        })?;
        heads.extend(lanes);
    }
    let mut out = Vec::new();
    while out.len() < AT_ONCE
        && let Some(Reverse((seq, lane))) = heads.pop()
    {
        match tx.lease(seq, until, node.0)? {
            Some(leased) => out.extend(delivered(tx, seq, leased)?),
            None => due::give_up(tx, seq, Done::Expired)?,
        }
        if let Some((next, owner)) = tx.refresh_lane(agent, &lane)?
            && (owner == ANYBODY || owner == node.0)
        {
            heads.push(Reverse((next, lane)));
        }
    }
    Ok(out)
}

/// Takes the answers to one request: what waits before them in their lane is passed over, since they were asked
/// for by name, but what another node still holds is not.
fn take_answers(
    tx: &mut Tx<'_>,
    agent: i64,
    node: NodeId,
    request: &MessageId,
    until: Timestamp,
) -> Result<Vec<Delivered>> {
    let answers: Vec<(i64, String)> =
        all(tx.conn, ANSWERS, params![agent, request.as_str(), AT_ONCE as i64], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let mut out = Vec::new();
    for (seq, lane) in answers {
        let owner = tx.owner_of(agent, &lane, seq, None)?;
        if owner != ANYBODY && owner != node.0 {
            break;
        }
        match tx.lease(seq, until, node.0)? {
            Some(leased) => out.extend(delivered(tx, seq, leased)?),
            None => due::give_up(tx, seq, Done::Expired)?,
        }
        tx.refresh_lane(agent, &lane)?;
    }
    Ok(out)
}

/// What the lease of the delivery `seq` hands out. One that cannot be read is set aside, so that it is told of once and
/// keeps nobody waiting.
pub(super) fn delivered(tx: &mut Tx<'_>, seq: i64, leased: Readable<Leased>) -> Result<Option<Delivered>> {
    let read = match leased {
        Ok(leased) => messages::read(tx.conn, leased.message)?.map(|read| read.map(|read| (read, leased))),
        Err(unreadable) => Some(Err(unreadable)),
    };
    match read {
        None => Ok(None),
        Some(Ok((message, leased))) => Ok(Some(of(message, leased))),
        Some(Err(Unreadable(why))) => {
            tracing::error!(delivery = seq, why, "relay_message_unreadable");
            due::give_up(tx, seq, Done::Unreadable)?;
            Ok(None)
        }
    }
}

fn of(message: StoredMessage, leased: Leased) -> Delivered {
    Delivered { message: StoredMessage { to: leased.to_text, ..message }, attempts: leased.attempts }
}

/// Shows what waits, also for other nodes, and changes nothing (A31).
fn peek(tx: &Tx<'_>, agent: i64, answers_to: Option<&MessageId>) -> Result<Vec<Delivered>> {
    let read = |row: &rusqlite::Row<'_>| {
        let leased = || Ok(Leased { message: row.get(1)?, attempts: row.get(2)?, to_text: row.get(3)? });
        match leased() {
            Err(error) if is_unreadable(&error) => Ok(None),
            read => read.map(Some),
        }
    };
    let now = tx.now.millis();
    let waiting = match answers_to {
        None => all(tx.conn, WAITING, params![agent, now, AT_ONCE as i64], read)?,
        Some(request) => {
            all(tx.conn, WAITING_ANSWERS, params![agent, request.as_str(), now, AT_ONCE as i64], read)?
        }
    };
    let mut out = Vec::new();
    for leased in waiting.into_iter().flatten() {
        out.extend(messages::shown(tx.conn, leased.message)?.map(|message| of(message, leased)));
    }
    Ok(out)
}

/// Confirms what was taken, also after its lease (A33). Unknown ids, and what nobody took, are passed over.
pub(super) fn confirm(
    tx: &mut Tx<'_>,
    person: PersonId,
    agent: &AgentAddress,
    ids: &[MessageId],
) -> Result<Vec<MessageId>> {
    let agent = agents::own(tx.conn, person, agent)?;
    let mut confirmed = Vec::new();
    for id in ids {
        let found: Option<(i64, i64)> =
            one(tx.conn, TAKEN, params![id.as_str(), agent.id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if let Some((delivery, attempts)) = found
            && attempts > 0
            && tx.end(delivery, Done::Confirmed)?
        {
            confirmed.push(id.clone());
        }
    }
    Ok(confirmed)
}
