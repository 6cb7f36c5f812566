//! Pins: the signing keys by which a person (`org/user`) is known here.

use rusqlite::{Connection, OptionalExtension, params};

use super::sql;
use crate::domain::clock::Timestamp;
use crate::proto::redsyn::address::{AgentAddress, Person};
use crate::store::StoreError;
use crate::store::bridge::{Pin, PinState, Pins};

pub(super) fn of(conn: &Connection, person: &Person) -> Result<Pins, StoreError> {
    let mut statement = conn.prepare_cached(sql::PINS_OF)?;
    let pins = statement.query_map([person.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(Pins(pins.collect::<Result<_, _>>()?))
}

pub(super) fn state(conn: &Connection, person: &Person, key: &str) -> Result<PinState, StoreError> {
    Ok(of(conn, person)?.state(key))
}

pub(super) fn any(conn: &Connection, person: &Person) -> Result<bool, StoreError> {
    let first = conn.prepare_cached(sql::PINS_OF)?.query_row([person.to_string()], |_| Ok(())).optional()?;
    Ok(first.is_some())
}

/// Whether unsigned mail of this person waits for `keys allow-unsigned`.
pub(super) fn must_sign(conn: &Connection, person: &Person, is_known: bool) -> Result<bool, StoreError> {
    Ok((is_known || any(conn, person)?) && !may_be_unsigned(conn, person)?)
}

pub(super) fn may_be_unsigned(conn: &Connection, person: &Person) -> Result<bool, StoreError> {
    Ok(conn.prepare_cached(sql::IS_UNSIGNED_ALLOWED)?.exists([person.to_string()])?)
}

/// The pins of one person, or of all.
pub(super) fn list(conn: &Connection, person: Option<&Person>) -> Result<Vec<Pin>, StoreError> {
    let (from, to) = match person {
        Some(person) => (person.to_string(), person.to_string()),
        None => (String::new(), char::MAX.to_string()),
    };
    let mut statement = conn.prepare_cached(sql::PINS)?;
    let pins = statement.query_map([from, to], |row| {
        Ok(Pin {
            person: row.get(0)?,
            key: row.get(1)?,
            verified: row.get(2)?,
            since: Timestamp::from_millis(row.get(3)?),
            may_be_unsigned: row.get(4)?,
        })
    })?;
    Ok(pins.collect::<Result<_, _>>()?)
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
