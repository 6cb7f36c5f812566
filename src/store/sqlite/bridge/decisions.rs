//! What a person decides about keys, and what that sets free. Held mail that may go on is only marked
//! here, with the decision and in its transaction: whoever delivers it next finds it, even after a crash.

use rusqlite::{Connection, Row, params};

use super::{arrivals, pins, rows, sql};
use crate::crypto::sign::VerifyingKey;
use crate::domain::clock::Timestamp;
use crate::proto::dsh::names::AgentName;
use crate::proto::redsyn::address::{AgentAddress, Person};
use crate::proto::redsyn::envelope::DeliveredEnvelope;
use crate::proto::redsyn::ids::{Kind, MessageId};
use crate::store::StoreError;
use crate::store::bridge::{
    Acceptance, Arrival, Confirmation, HeldIn, HeldKey, OutboxEntry, PinState, Released,
};

/// Longer lists are of no use to a person, who can decide about a part and look again.
pub(super) const LIST_LIMIT: i64 = 1000;

/// Held inbound mail, of one person or of all, each person's oldest first.
pub(super) fn list(
    conn: &Connection,
    person: Option<&Person>,
    limit: i64,
) -> Result<Vec<HeldIn>, StoreError> {
    let (from, to) = match person {
        Some(person) => (person.to_string(), person.to_string()),
        None => (String::new(), char::MAX.to_string()),
    };
    let mut statement = conn.prepare_cached(sql::HELD_OF)?;
    let held = statement.query_map(params![from, to, limit], held_row)?;
    held.map(|row| row?).collect()
}

/// Mail that a decision has set free, oldest first.
pub(super) fn released(conn: &Connection, limit: i64) -> Result<Vec<HeldIn>, StoreError> {
    let mut statement = conn.prepare_cached(sql::HELD_RELEASED)?;
    let held = statement.query_map([limit], held_row)?;
    held.map(|row| row?).collect()
}

/// Whether earlier mail of its conversation was set free and is not delivered yet.
pub(super) fn is_behind(conn: &Connection, arrival: &Arrival) -> Result<bool, StoreError> {
    let of_agent = released(conn, LIST_LIMIT)?.into_iter().filter(|row| row.agent == arrival.agent);
    let mut earlier = of_agent.take_while(|row| row.id != arrival.id);
    Ok(earlier.any(|row| {
        DeliveredEnvelope::parse(row.envelope)
            .is_ok_and(|held| held.from.agent == arrival.from.agent && held.thread == arrival.thread)
    }))
}

fn held_row(row: &Row<'_>) -> rusqlite::Result<Result<HeldIn, StoreError>> {
    let text = |at: usize| row.get::<_, String>(at);
    let (agent, id, person, reason, envelope) = (text(0)?, text(1)?, text(2)?, text(3)?, text(4)?);
    let (since, key, released) = (row.get(5)?, row.get(6)?, row.get(7)?);
    let parse = || {
        Ok(HeldIn {
            agent: AgentName::parse(&agent).ok_or_else(|| rows::damaged("held.agent", "is no agent name"))?,
            id: id.parse().map_err(|error| rows::damaged("held.id", error))?,
            person: person.parse().map_err(|error| rows::damaged("held.person", error))?,
            reason,
            envelope: serde_json::from_str(&envelope)
                .map_err(|error| rows::damaged("held.envelope", error))?,
            since: Timestamp::from_millis(since),
            key,
            released,
        })
    };
    Ok(parse())
}

/// Takes held mail away for good: its sender is told why, once, and the relay gets its ack when it delivers again.
pub(super) fn drop_held(
    conn: &Connection,
    row: &HeldIn,
    reason: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    conn.prepare_cached(sql::DELETE_HELD)?.execute(params![row.agent.as_str(), row.id.as_str()])?;
    let Ok(envelope) = DeliveredEnvelope::parse(row.envelope.clone()) else { return Ok(()) };
    let is_new = arrivals::mark_seen(conn, &row.agent, &row.id, now)?;
    let Ok(from) = envelope.to.parse() else { return Ok(()) };
    if is_new && envelope.kind == Kind::Request {
        arrivals::error_reply(
            conn,
            &arrivals::ErrorReply {
                agent: &row.agent,
                request: &row.id,
                from: &from,
                to: &envelope.from,
                thread: envelope.thread.as_deref(),
                reply_key: None,
                text: reason,
                now,
            },
        )?;
    }
    Ok(())
}

pub(super) fn accept(
    conn: &Connection,
    person: &Person,
    fingerprint: Option<&str>,
    now: Timestamp,
) -> Result<Acceptance, StoreError> {
    let offers = offers(conn, person)?;
    let wanted = fingerprint.map(plain);
    let fits =
        |key: &&VerifyingKey| wanted.as_ref().is_none_or(|wanted| plain(&key.fingerprint()) == *wanted);
    let fitting: Vec<&VerifyingKey> = offers.iter().filter(fits).collect();
    let key = match fitting.as_slice() {
        [key] => key.to_string(),
        [] if offers.is_empty() => return Ok(Acceptance::NothingWaits),
        _ => return Ok(Acceptance::WhichOne(offers.iter().map(VerifyingKey::fingerprint).collect())),
    };
    let released = trust(conn, person, &key, now)?;
    let fingerprint = fitting.iter().map(|key| key.fingerprint()).collect();
    Ok(Acceptance::Accepted { fingerprint, released })
}

/// The keys that mail of or for this person waits for.
pub(super) fn offers(conn: &Connection, person: &Person) -> Result<Vec<VerifyingKey>, StoreError> {
    let inbound = list(conn, Some(person), LIST_LIMIT)?.into_iter().filter_map(|row| row.key);
    let outbound = rows::held_entries(conn, LIST_LIMIT)?
        .into_iter()
        .filter(|(entry, _)| entry.remote.person().as_ref() == Some(person))
        .filter_map(|(_, held)| held.key);
    let mut keys: Vec<VerifyingKey> = Vec::new();
    for text in inbound.chain(outbound) {
        let key = text.parse().map_err(|error| rows::damaged("held.key", error))?;
        if !keys.contains(&key) && !matches!(pins::state(conn, person, &text)?, PinState::Known { .. }) {
            keys.push(key);
        }
    }
    Ok(keys)
}

/// A fingerprint as people write it, with or without colons, in either case.
fn plain(fingerprint: &str) -> String {
    fingerprint.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

fn release_outbox(
    conn: &Connection,
    now: Timestamp,
    fits: impl Fn(&OutboxEntry, Option<&str>) -> bool,
) -> Result<usize, StoreError> {
    let mut released = 0;
    for (entry, HeldKey { key, .. }) in rows::held_entries(conn, LIST_LIMIT)? {
        if fits(&entry, key.as_deref()) {
            released +=
                conn.prepare_cached(sql::RELEASE_OUTBOX)?.execute(params![entry.seq, now.millis()])?;
        }
    }
    Ok(released)
}

/// Drops everything inbound that waits for a decision about this person; the agents and ids to ack.
pub(super) fn reject(
    conn: &Connection,
    person: &Person,
    now: Timestamp,
) -> Result<Vec<(AgentName, MessageId)>, StoreError> {
    let mut dropped = Vec::new();
    for row in list(conn, Some(person), LIST_LIMIT)? {
        drop_held(conn, &row, &format!("not delivered: a person here rejected it: {}", row.reason), now)?;
        dropped.push((row.agent, row.id));
    }
    Ok(dropped)
}

/// A key of the person that is pinned, or that mail waits for, has this fingerprint: it is pinned and verified from now
/// on, and what waited for it goes on. Else the known ones.
pub(super) fn confirm(
    conn: &Connection,
    person: &Person,
    fingerprint: &str,
    now: Timestamp,
) -> Result<Confirmation, StoreError> {
    let wanted = plain(fingerprint);
    let mut known = Vec::new();
    for pin in pins::list(conn, Some(person))? {
        known.push(pin.key.parse::<VerifyingKey>().map_err(|error| rows::damaged("pins.key", error))?);
    }
    known.extend(offers(conn, person)?);
    let Some(key) = known.iter().find(|key| plain(&key.fingerprint()) == wanted) else {
        return Ok(Confirmation::Unknown(known.iter().map(VerifyingKey::fingerprint).collect()));
    };
    let released = trust(conn, person, &key.to_string(), now)?;
    conn.prepare_cached(sql::VERIFY_PIN)?.execute(params![person.to_string(), key.to_string()])?;
    Ok(Confirmation::Confirmed { fingerprint: key.fingerprint(), released })
}

/// Pins a key, and sets free what waits for it.
fn trust(conn: &Connection, person: &Person, key: &str, now: Timestamp) -> Result<Released, StoreError> {
    conn.prepare_cached(sql::INSERT_PIN)?.execute(params![person.to_string(), key, now.millis()])?;
    let inbound = conn.prepare_cached(sql::RELEASE_HELD)?.execute(params![person.to_string(), key])?;
    let outbound = release_outbox(conn, now, |held, waits| {
        held.remote.person().as_ref() == Some(person) && waits == Some(key)
    })?;
    Ok(Released { inbound, outbound })
}

/// Lets plain text go to the address again, or to every address of the person. `None` when none ever had a key.
pub(super) fn allow_plain(
    conn: &Connection,
    person: &Person,
    address: Option<&AgentAddress>,
    now: Timestamp,
) -> Result<Option<Released>, StoreError> {
    let org = format!("{}/", person.org);
    let mut statement = conn.prepare_cached(sql::SEALED_OF_ORG)?;
    let sealed =
        statement.query_map(params![org, format!("{org}{}", char::MAX)], |row| row.get::<_, String>(0))?;
    let mut is_known = false;
    for text in sealed.collect::<Result<Vec<_>, _>>()? {
        let sealed: AgentAddress = text.parse().map_err(|error| rows::damaged("sealed_addresses", error))?;
        if sealed.person() == *person && address.is_none_or(|address| *address == sealed) {
            conn.prepare_cached(sql::DELETE_SEALED)?.execute([text])?;
            is_known = true;
        }
    }
    let outbound = release_outbox(conn, now, |held, waits| {
        let fits = |remote: &AgentAddress| {
            remote.person() == *person && address.is_none_or(|address| address == remote)
        };
        waits.is_none() && held.remote.agent().is_some_and(fits)
    })?;
    let is_known = is_known || outbound > 0;
    Ok(is_known.then_some(Released { inbound: 0, outbound }))
}

pub(super) fn allow_unsigned(
    conn: &Connection,
    person: &Person,
    now: Timestamp,
) -> Result<Released, StoreError> {
    conn.prepare_cached(sql::ALLOW_UNSIGNED)?.execute(params![person.to_string(), now.millis()])?;
    let inbound = conn.prepare_cached(sql::RELEASE_UNSIGNED)?.execute([person.to_string()])?;
    Ok(Released { inbound, outbound: 0 })
}
