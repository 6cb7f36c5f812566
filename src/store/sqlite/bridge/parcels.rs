//! Files on their way: uploads that wait for a message, zips of the outbox, files of messages; and the withdrawal of
//! what is on its way.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use super::generations::{Stage, reach};
use super::rows::{self, Direction};
use super::sql;
use crate::domain::clock::Timestamp;
use crate::proto::dsh::names::AgentName;
use crate::proto::dsh::v2::name::Name;
use crate::proto::redsyn::ids::{Kind, MessageId};
use crate::store::StoreError;
use crate::store::bridge::generation::Generation;
use crate::store::bridge::{Upload, Withdrawal};

/// How long an upload waits for a message that names it.
const UPLOAD_KEPT: Duration = Duration::from_secs(60 * 60);
/// How many uploads of one agent wait at once; one more drops the oldest. With 5 MB each, nobody fills a disk.
const UPLOADS_MAX: i64 = 16;
/// How long an entry rests that its sender wants back: longer than the relay is waited for.
const REST: Duration = Duration::from_secs(5 * 60);

pub(super) fn upload(conn: &Connection, upload: &Upload) -> Result<(), StoreError> {
    let agent = upload.agent.as_str();
    let until = upload.now.plus(UPLOAD_KEPT).millis();
    conn.prepare_cached(sql::INSERT_UPLOAD)?.execute(params![agent, upload.sha256, upload.zip, until])?;
    conn.prepare_cached(sql::DROP_UPLOADS)?.execute(params![agent, UPLOADS_MAX])?;
    Ok(())
}

pub(super) fn uploaded(
    conn: &Connection,
    agent: &AgentName,
    sha256: &str,
    now: Timestamp,
) -> Result<Option<Vec<u8>>, StoreError> {
    let found = params![agent.as_str(), sha256, now.millis()];
    Ok(conn.prepare_cached(sql::UPLOAD)?.query_row(found, |row| row.get(0)).optional()?)
}

/// The zip that goes with an entry of the outbox; `None` when the entry has been settled meanwhile.
pub(super) fn outbox_zip(conn: &Connection, seq: i64) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(conn.prepare_cached(sql::OUTBOX_ZIP)?.query_row([seq], |row| row.get(0)).optional()?)
}

/// The files of a message, for who sent or received it. `Ok(None)`: no such message, `Ok(Some(None))`: no files.
pub(super) fn files(
    conn: &Connection,
    agent: &AgentName,
    local_id: &str,
) -> Result<Option<Option<Vec<u8>>>, StoreError> {
    let found = params![local_id, agent.as_str()];
    let files: Option<Option<Vec<u8>>> =
        conn.prepare_cached(sql::FILES)?.query_row(found, |row| row.get(0)).optional()?;
    if files.is_some() {
        return Ok(files);
    }
    let name = Name::of(agent.as_str());
    let found = params![local_id, name.as_str()];
    Ok(conn.prepare_cached(sql::V2_FILES)?.query_row(found, |row| row.get(0)).optional()?)
}

/// Stops an entry of the outbox, so that it does not leave while the relay is asked to forget it.
pub(super) fn withdraw(
    conn: &Connection,
    agent: &AgentName,
    local_id: &str,
    generation: Generation,
    now: Timestamp,
) -> Result<Withdrawal, StoreError> {
    let Some(row) = rows::by_local(conn, agent, local_id, generation)?.filter(|row| !row.is_inbound) else {
        return Ok(Withdrawal::Unknown);
    };
    if row.kind != Kind::Request || row.is_closed {
        return Ok(Withdrawal::TooLate);
    }
    let stopped = conn
        .prepare_cached(sql::STOP_OUTBOX)?
        .query_row(params![row.id.as_str(), agent.as_str(), now.plus(REST).millis()], |stopped| {
            stopped.get::<_, i64>(0)
        })
        .optional()?;
    if let Some(seq) = stopped {
        conn.prepare_cached(sql::STOP_PARCEL)?.execute([seq])?;
    }
    Ok(Withdrawal::Asked { id: row.id, entry: stopped })
}

/// The relay has it, and somebody has taken it, or nobody knows: it goes on.
pub(super) fn go_on(conn: &Connection, seq: i64, now: Timestamp) -> Result<(), StoreError> {
    conn.prepare_cached(sql::GO_ON)?.execute(params![seq, now.millis()])?;
    conn.prepare_cached(sql::GO_ON_PARCEL)?.execute([seq])?;
    Ok(())
}

pub(super) fn all_go_on(conn: &Connection, now: Timestamp) -> Result<(), StoreError> {
    conn.prepare_cached(sql::STOPPED_GO_ON)?.execute([now.millis()])?;
    conn.prepare_cached(sql::STOPPED_PARCELS_GO_ON)?.execute([])?;
    Ok(())
}

/// Nobody will ever get it.
pub(super) fn withdrawn(
    conn: &Connection,
    agent: &AgentName,
    id: &MessageId,
    now: Timestamp,
) -> Result<(), StoreError> {
    conn.prepare_cached(sql::DELETE_OUTBOX_ID)?.execute(params![id.as_str(), agent.as_str()])?;
    rows::close(conn, agent, id, Direction::Out)?;
    if let Some(row) = rows::by_id(conn, agent, id, Direction::Out)? {
        reach(conn, row.generation, Stage::Failed, &row.local_id, now)?;
    }
    Ok(())
}
