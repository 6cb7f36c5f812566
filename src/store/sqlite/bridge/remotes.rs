//! What is known of the world beyond the machine: who has written lately, and which topics are listened to.

use rusqlite::{Connection, params};

use super::rows::damaged;
use super::sql;
use crate::domain::clock::Timestamp;
use crate::proto::redsyn::address::{AgentAddress, TopicAddress};
use crate::store::StoreError;

/// The most agents that are listed; the latest ones.
const REMOTES_MAX: u32 = 200;

pub(super) fn seen(conn: &Connection, address: &AgentAddress, now: Timestamp) -> Result<(), StoreError> {
    conn.prepare_cached(sql::SEE_REMOTE)?.execute(params![address.to_string(), now.millis()])?;
    Ok(())
}

pub(super) fn lately(
    conn: &Connection,
    after: Timestamp,
) -> Result<Vec<(AgentAddress, Timestamp)>, StoreError> {
    let mut remotes = conn.prepare_cached(sql::REMOTES)?;
    let rows = remotes.query_map(params![after.millis(), REMOTES_MAX], |row| {
        Ok((row.get::<_, String>(0)?, Timestamp::from_millis(row.get(1)?)))
    })?;
    rows.map(|row| {
        let (address, at) = row?;
        Ok((address.parse().map_err(|error| damaged("remotes.address", error))?, at))
    })
    .collect()
}

pub(super) fn subscriptions(conn: &Connection) -> Result<Vec<(AgentAddress, TopicAddress)>, StoreError> {
    let mut subscriptions = conn.prepare_cached(sql::SUBSCRIPTIONS)?;
    let rows = subscriptions.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
    rows.map(|row| {
        let (address, topic) = row?;
        Ok((
            address.parse().map_err(|error| damaged("subscriptions.address", error))?,
            topic.parse().map_err(|error| damaged("subscriptions.topic", error))?,
        ))
    })
    .collect()
}

/// Notes that `address` listens to `topic`, or does no more.
pub(super) fn listens(
    conn: &Connection,
    address: &AgentAddress,
    topic: &TopicAddress,
    listens: bool,
) -> Result<(), StoreError> {
    let sql = if listens { sql::ADD_SUBSCRIPTION } else { sql::DROP_SUBSCRIPTION };
    conn.prepare_cached(sql)?.execute([address.to_string(), topic.to_string()])?;
    Ok(())
}
