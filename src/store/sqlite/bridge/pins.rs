//! Pins: the signing keys by which a person (`org/user`) is known here (mapping §8).

use rusqlite::{Connection, OptionalExtension, params};

use super::sql;
use crate::domain::clock::Timestamp;
use crate::proto::redsyn::address::{AgentAddress, Person};
use crate::store::StoreError;
use crate::store::bridge::PinState;

pub(super) fn state(conn: &Connection, person: &Person, key: &str) -> Result<PinState, StoreError> {
    let mut statement = conn.prepare_cached(sql::PINS_OF)?;
    let pins = statement.query_map([person.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let pins: Vec<(String, bool)> = pins.collect::<Result<_, _>>()?;
    if pins.is_empty() {
        return Ok(PinState::First);
    }
    let known = pins.iter().find(|(pinned, _)| pinned == key);
    Ok(known.map_or(PinState::Other, |(_, verified)| PinState::Known { verified: *verified }))
}

pub(super) fn any(conn: &Connection, person: &Person) -> Result<bool, StoreError> {
    let first = conn.prepare_cached(sql::PINS_OF)?.query_row([person.to_string()], |_| Ok(())).optional()?;
    Ok(first.is_some())
}

/// Pins `key` when it is the person's first; never adds a second one.
pub(super) fn pin_first(
    conn: &Connection,
    person: &Person,
    key: &str,
    now: Timestamp,
) -> Result<PinState, StoreError> {
    let state = state(conn, person, key)?;
    if state == PinState::First {
        conn.prepare_cached(sql::INSERT_PIN)?.execute(params![person.to_string(), key, now.millis()])?;
    }
    Ok(state)
}

pub(super) fn pin_recipient(
    conn: &Connection,
    address: &AgentAddress,
    key: &str,
    now: Timestamp,
) -> Result<PinState, StoreError> {
    let state = pin_first(conn, &address.person(), key, now)?;
    if state != PinState::Other {
        conn.prepare_cached(sql::INSERT_SEALED)?.execute(params![address.to_string(), now.millis()])?;
    }
    Ok(state)
}

pub(super) fn was_sealed(conn: &Connection, address: &AgentAddress) -> Result<bool, StoreError> {
    let row =
        conn.prepare_cached(sql::WAS_SEALED)?.query_row([address.to_string()], |_| Ok(())).optional()?;
    Ok(row.is_some())
}
