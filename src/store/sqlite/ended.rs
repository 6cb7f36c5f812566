//! The moment in which a message fails or expires unfinished, inside the transaction that ends it. Whoever must
//! answer for such a message does so here: the bridge, to a sender beyond the machine.

use rusqlite::Connection;

use super::bridge;
use crate::store::StoreError;
use crate::store::local::EndedMessage;
use crate::store::v2::Ended;

pub(crate) fn ended(conn: &Connection, message: &EndedMessage) -> Result<(), StoreError> {
    bridge::ended(conn, message)
}

/// The same for the second generation. Gives whether somebody beyond the machine is told; a sender on this machine
/// gets a notice instead.
pub(crate) fn ended_v2(conn: &Connection, ended: Ended<'_>) -> Result<bool, StoreError> {
    bridge::ended_v2(conn, ended)
}
