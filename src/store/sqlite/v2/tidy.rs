//! What time does to messages, and the end of those that are kept long enough.

use rusqlite::{Connection, params};

use super::change::{Stage, change, tell};
use super::{rows, sql};
use crate::domain::clock::Timestamp;
use crate::domain::random::SharedRandom;
use crate::domain::v2::delivery::{Status, permitted};
use crate::proto::dsh::v2::name::Name;
use crate::store::StoreError;
use crate::store::v2::{Ended, Rules, StoredMessage, Swept};

/// The most messages of each sort that one transaction changes, so that no caller waits long behind it. What is left
/// is the next one's; nobody gets it meanwhile.
const BATCH: u32 = 200;

/// What a tidying did.
#[derive(Debug, Default)]
pub(super) struct Tidied {
    ended: Vec<StoredMessage>,
    /// Whose messages went back to the queue.
    requeued: Vec<Name>,
    changed: usize,
    more: bool,
}

/// Expires, fails and requeues whatever is due, whoever it is for.
pub(super) fn tidy(conn: &Connection, now: Timestamp, max_attempts: u32) -> Result<Tidied, StoreError> {
    let mut tidied = Tidied::default();
    for (due, until) in [
        (sql::PAST_TIME, now.millis()),
        (sql::EXHAUSTED, permitted(max_attempts).into()),
        (sql::LEASE_OVER, now.millis()),
    ] {
        let messages = conn
            .prepare_cached(due)?
            .query_map(params![until, BATCH], rows::message)?
            .collect::<Result<Vec<_>, _>>()?;
        tidied.changed += messages.len();
        tidied.more |= messages.len() == BATCH as usize;
        for message in messages {
            tidied.add(conn, message, max_attempts, now)?;
        }
    }
    Ok(tidied)
}

impl Tidied {
    fn add(
        &mut self,
        conn: &Connection,
        message: StoredMessage,
        max_attempts: u32,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let delivery = message.delivery.tidied(max_attempts, now);
        let status = delivery.status();
        change(conn, message.seq, &delivery, (Stage::of(status), now))?;
        match status {
            Status::Failed | Status::Expired => self.ended.push(StoredMessage { delivery, ..message }),
            Status::Queued => self.requeued.extend(message.inbox),
            Status::Leased | Status::Completed => {}
        }
        Ok(())
    }

    /// Tells the senders of what has ended. Gives everybody who has mail because of the tidying.
    pub(super) fn tell(
        self,
        conn: &Connection,
        now: Timestamp,
        notify: bool,
        random: &SharedRandom,
    ) -> Result<Vec<Name>, StoreError> {
        let mut woken = self.requeued;
        for message in &self.ended {
            woken.extend(tell(conn, Ended { message, at: now }, notify, random)?);
        }
        Ok(woken)
    }
}

/// Tidies up, and deletes what was finished at `too_old` or before.
pub(super) fn sweep(
    conn: &Connection,
    now: Timestamp,
    too_old: Timestamp,
    rules: Rules,
    random: &SharedRandom,
) -> Result<Swept, StoreError> {
    let tidied = tidy(conn, now, rules.max_attempts)?;
    let (changed, more) = (tidied.changed, tidied.more);
    let woken = tidied.tell(conn, now, rules.notify, random)?;
    let old = conn
        .prepare_cached(sql::TOO_OLD)?
        .query_map(params![too_old.millis(), BATCH], |row| row.get(0))?
        .collect::<Result<Vec<i64>, _>>()?;
    for seq in &old {
        conn.prepare_cached(sql::DELETE)?.execute([seq])?;
    }
    Ok(Swept { tidied: changed, deleted: old.len(), more: more || old.len() == BATCH as usize, woken })
}
