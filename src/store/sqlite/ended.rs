//! The moment in which a message fails or expires unfinished, inside the transaction that ends it. Whoever must
//! answer for such a message does so here: the bridge, to a sender beyond the machine.

use rusqlite::Connection;

use super::bridge;
use crate::store::StoreError;
use crate::store::local::EndedMessage;

pub(crate) fn ended(conn: &Connection, message: &EndedMessage) -> Result<(), StoreError> {
    bridge::ended(conn, message)
}
