//! From one state to the next, inside the transaction of whoever decided it, and what follows when a message ends.

use rusqlite::{Connection, params};

use super::create::insert_message;
use super::sql;
use crate::domain::clock::Timestamp;
use crate::domain::random::SharedRandom;
use crate::domain::v2::delivery::{Delivery, State, Status};
use crate::proto::dsh::names::DshId;
use crate::proto::dsh::v2::message::Kind;
use crate::proto::dsh::v2::name::Name;
use crate::store::StoreError;
use crate::store::sqlite::ended;
use crate::store::v2::{Ended, StoredMessage, notice::notice};

/// The stage that a change reaches, if it reaches one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Leased,
    Acked,
    Failed,
    None,
}

impl Stage {
    /// Of a change that an acknowledgement or a tidying made.
    pub(super) const fn of(status: Status) -> Self {
        match status {
            Status::Completed => Self::Acked,
            Status::Failed | Status::Expired => Self::Failed,
            Status::Queued | Status::Leased => Self::None,
        }
    }
}

/// Writes the new state of a message.
pub(super) fn change(
    conn: &Connection,
    seq: i64,
    delivery: &Delivery,
    (stage, now): (Stage, Timestamp),
) -> Result<(), StoreError> {
    let lease = match &delivery.state {
        State::Leased(lease) => Some(lease),
        _ => None,
    };
    let at = |reached: Stage| (stage == reached).then_some(now.millis());
    conn.prepare_cached(sql::CHANGE)?.execute(params![
        seq,
        delivery.status().as_str(),
        delivery.attempts,
        lease.map(|lease| lease.id.as_str()),
        lease.map(|lease| lease.until.millis()),
        delivery.last_error,
        delivery.completed_at.map(Timestamp::millis),
        at(Stage::Leased),
        at(Stage::Acked),
        at(Stage::Failed),
    ])?;
    Ok(())
}

/// A request that failed or expired: its sender is told, once. Gives the agent that has mail because of it.
pub(super) fn tell(
    conn: &Connection,
    ended: Ended<'_>,
    notify: bool,
    random: &SharedRandom,
) -> Result<Option<Name>, StoreError> {
    let StoredMessage { seq, message, is_notified, .. } = ended.message;
    if ended::ended_v2(conn, ended)? {
        // Nobody of that name waits here, but what it is told can be carried now.
        return Ok(Some(message.origin.clone()));
    }
    if !notify || *is_notified || message.kind != Kind::Request {
        return Ok(None);
    }
    let notice = notice(ended, DshId::new(random.hex::<16>()));
    let inbox = notice.target.clone();
    let created = insert_message(conn, &notice, Some(&inbox))?;
    conn.prepare_cached(sql::NOTIFIED)?.execute(params![seq, ended.at.millis()])?;
    Ok((!created.duplicate).then_some(inbox))
}
