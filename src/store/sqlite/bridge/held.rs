//! Inbound mail that waits for a person's decision: a copy with its files, since the relay keeps neither for ever.

use rusqlite::{Connection, OptionalExtension, params};

use super::{BridgeStore, arrivals, decisions, pins, sql};
use crate::domain::clock::Timestamp;
use crate::proto::dsh::names::AgentName;
use crate::proto::redsyn::address::Person;
use crate::proto::redsyn::ids::{FILES_LIMIT, MessageId};
use crate::store::StoreError;
use crate::store::bridge::{Held, HeldIn, Holding, PinState, WaitsFor};

/// How much inbound mail of one person is held: enough for a conversation that waits over a weekend, and at 64 KB
/// each little enough that a stranger with a new key cannot fill the disk.
pub const HELD_PER_PERSON: i64 = 100;
/// How many bytes of files of one person are held: ten of the largest zips, for the same reason.
pub const HELD_BYTES_PER_PERSON: usize = 10 * FILES_LIMIT;
/// How much held mail one call gives back; the next gives the rest.
const RELEASE_BATCH: i64 = 50;

impl BridgeStore {
    /// Keeps a copy of mail that waits for a person's decision, or behind such mail. What is over
    /// [`HELD_PER_PERSON`] is refused, the oldest first.
    ///
    /// # Errors
    /// When nothing was kept.
    pub async fn hold_arrival(&self, held: Held) -> Result<Holding, StoreError> {
        self.db.call("bridge_hold_arrival", move |conn| hold(conn, &held)).await
    }

    /// Whether the files of a held message are not kept yet, and so many bytes of this person's may be.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn has_room_for_files(
        &self,
        agent: AgentName,
        id: MessageId,
        person: Person,
        bytes: u64,
    ) -> Result<bool, StoreError> {
        let look = move |conn: &Connection| {
            Ok(zip(conn, &agent, &id)?.is_none() && has_room(conn, &person, usize::try_from(bytes).ok())?)
        };
        self.db.call("bridge_held_room", look).await
    }

    /// The zip of a held message as it travelled, if it is kept.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn held_zip(&self, agent: AgentName, id: MessageId) -> Result<Option<Vec<u8>>, StoreError> {
        self.db.call("bridge_held_zip", move |conn| zip(conn, &agent, &id)).await
    }

    /// When the first of the held mail of `agent` comes back from the relay after that moment.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn held_back(
        &self,
        agent: AgentName,
        after: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError> {
        let look = move |conn: &Connection| {
            let mut back = conn.prepare_cached(sql::HELD_BACK)?;
            let back: Option<i64> =
                back.query_row(params![agent.as_str(), after.millis()], |row| row.get(0))?;
            Ok(back.map(Timestamp::from_millis))
        };
        self.db.call("bridge_held_back", look).await
    }

    /// Some of the held inbound mail that a decision has set free, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn released(&self) -> Result<Vec<HeldIn>, StoreError> {
        self.db.call("bridge_released", |conn| decisions::released(conn, RELEASE_BATCH)).await
    }

    /// Held inbound mail, each person's oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn held_in(&self) -> Result<Vec<HeldIn>, StoreError> {
        self.db.call("bridge_held_in", |conn| decisions::list(conn, None, decisions::LIST_LIMIT)).await
    }
}

fn zip(conn: &Connection, agent: &AgentName, id: &MessageId) -> Result<Option<Vec<u8>>, StoreError> {
    let key = params![agent.as_str(), id.as_str()];
    Ok(conn.prepare_cached(sql::HELD_ZIP)?.query_row(key, |row| row.get(0)).optional()?)
}

fn has_room(conn: &Connection, person: &Person, bytes: Option<usize>) -> Result<bool, StoreError> {
    let mut sum = conn.prepare_cached(sql::HELD_BYTES_OF)?;
    let kept: i64 = sum.query_row([person.to_string()], |row| row.get(0))?;
    let total = usize::try_from(kept).ok().zip(bytes).and_then(|(kept, bytes)| kept.checked_add(bytes));
    Ok(total.is_some_and(|total| total <= HELD_BYTES_PER_PERSON))
}

fn hold(conn: &Connection, held: &Held) -> Result<Holding, StoreError> {
    if arrivals::is_seen(conn, &held.agent, &held.id)? {
        // Dealt with while it was judged: a copy of it would wait for ever.
        return Ok(Holding::default());
    }
    let person = held.person.to_string();
    // The decision may have been made since this message was judged.
    let goes_on = match (held.waits_for, &held.key) {
        (WaitsFor::Earlier, _) => true,
        (WaitsFor::Acceptance, None) => pins::may_be_unsigned(conn, &held.person)?,
        (WaitsFor::Acceptance, Some(key)) => {
            matches!(pins::state(conn, &held.person, key)?, PinState::Known { .. })
        }
        (WaitsFor::Confirmation, key) => {
            let state = key.as_ref().map(|key| pins::state(conn, &held.person, key)).transpose()?;
            state == Some(PinState::Known { verified: true })
        }
    };
    // It goes on in the order in which it came, and nothing else tells it.
    let latest: Option<i64> =
        conn.prepare_cached(sql::LATEST_HELD_OF)?.query_row([&person], |row| row.get(0))?;
    let since = latest.map_or(held.now.millis(), |latest| held.now.millis().max(latest + 1));
    conn.prepare_cached(sql::INSERT_HELD)?.execute(params![
        held.agent.as_str(),
        held.id.as_str(),
        person,
        held.reason,
        held.envelope.to_string(),
        since,
        held.key,
        goes_on,
        held.leased_until.map_or(0, Timestamp::millis),
    ])?;
    if let Some(zip) = &held.zip
        && has_room(conn, &held.person, Some(zip.len()))?
    {
        conn.prepare_cached(sql::INSERT_HELD_FILES)?.execute(params![
            held.agent.as_str(),
            held.id.as_str(),
            zip
        ])?;
    }
    let count: i64 = conn.prepare_cached(sql::COUNT_HELD_OF)?.query_row([&person], |row| row.get(0))?;
    let mut dropped = Vec::new();
    for row in decisions::list(conn, Some(&held.person), (count - HELD_PER_PERSON).max(0))? {
        let reason = format!(
            "not delivered: {HELD_PER_PERSON} newer messages of {person} wait here until a person accepts the key"
        );
        decisions::drop_held(conn, &row, &reason, held.now)?;
        dropped.push(row.id);
    }
    Ok(Holding { goes_on, dropped })
}
