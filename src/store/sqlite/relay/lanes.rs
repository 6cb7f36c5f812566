//! The queue of each mailbox. Deliveries wait in lanes; a lane's row names its next delivery and who may take it:
//! anybody, one node (it holds an earlier one, or the next is reserved for it), or nobody until something is
//! confirmed. So a session with an unconfirmed earlier message hands out no later one to another node.

use rusqlite::params;

use super::tx::Tx;
use super::{Readable, Result, execute, exists, one, one_readable};
use crate::domain::clock::Timestamp;

statements! {
    NEXT_FREE = "
        SELECT seq, reserved FROM deliveries
        WHERE agent = ?1 AND lane = ?2 AND done IS NULL AND lease_until IS NULL ORDER BY seq LIMIT 1";
    HAS_LANE = "SELECT 1 FROM lanes WHERE agent = ?1 AND lane = ?2";
    /// The nodes with the lowest and highest id that hold one before a delivery.
    HOLDERS = "
        SELECT
            (SELECT lease_node FROM deliveries
                WHERE agent = ?1 AND lane = ?2 AND lease_until IS NOT NULL AND seq < ?3
                ORDER BY lease_node LIMIT 1),
            (SELECT lease_node FROM deliveries
                WHERE agent = ?1 AND lane = ?2 AND lease_until IS NOT NULL AND seq < ?3
                ORDER BY lease_node DESC LIMIT 1)";
    SET_LANE = "
        INSERT INTO lanes (agent, lane, next_seq, owner) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (agent, lane) DO UPDATE SET next_seq = excluded.next_seq, owner = excluded.owner";
    DROP_LANE = "DELETE FROM lanes WHERE agent = ?1 AND lane = ?2";
    INSERT = "
        INSERT INTO deliveries (message, agent, session, lane, to_text, reply_to, reserved, expires)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    LEASE = "
        UPDATE deliveries SET attempts = attempts + 1, lease_until = ?2, lease_node = ?3
        WHERE seq = ?1 AND expires > ?4 RETURNING message, attempts, to_text";
    RELEASE = "UPDATE deliveries SET lease_until = NULL, lease_node = NULL WHERE seq = ?1";
    DONE = "
        UPDATE deliveries SET done = ?2, lease_until = NULL, lease_node = NULL
        WHERE seq = ?1 AND done IS NULL RETURNING agent, lane, message";
    ONE_LESS_WAITING = "
        UPDATE messages SET waiting = waiting - 1, ended = iif(waiting = 1, ?2, NULL) WHERE seq = ?1
        RETURNING waiting, files_bytes";
    TAKE_FILE = "DELETE FROM files WHERE message = ?1 RETURNING name, org, bytes";
    FREE_SPACE = "UPDATE orgs SET files_bytes = files_bytes - ?2 WHERE id = ?1";
}

/// A lane that every node may take from. Row ids of nodes start at 1.
pub(super) const ANYBODY: i64 = 0;
/// A lane that waits for a confirmation.
const NOBODY: i64 = -1;

/// How a delivery ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    Confirmed,
    Expired,
    Abandoned,
    Cancelled,
    /// Its row, or its message's, is damaged.
    Unreadable,
}

impl Done {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Expired => "expired",
            Self::Abandoned => "abandoned",
            Self::Cancelled => "cancelled",
            Self::Unreadable => "unreadable",
        }
    }
}

/// A delivery to be queued.
#[derive(Debug)]
pub(super) struct NewDelivery<'a> {
    pub(super) message: i64,
    pub(super) agent: i64,
    pub(super) session: Option<i64>,
    pub(super) thread: &'a str,
    pub(super) to_text: &'a str,
    pub(super) reply_to: Option<&'a str>,
    pub(super) reserved: Option<i64>,
    pub(super) expires: Timestamp,
}

/// What a lease gives.
#[derive(Debug)]
pub(super) struct Leased {
    pub(super) message: i64,
    pub(super) attempts: u32,
    pub(super) to_text: String,
}

impl Tx<'_> {
    pub(super) fn enqueue(&mut self, delivery: &NewDelivery<'_>) -> Result<()> {
        // Without a session, the messages of one thread keep their order.
        let lane = match delivery.session {
            Some(session) => format!("#{session}"),
            None => format!("/{}", delivery.thread),
        };
        let row = params![
            delivery.message,
            delivery.agent,
            delivery.session,
            lane,
            delivery.to_text,
            delivery.reply_to,
            delivery.reserved,
            delivery.expires.millis(),
        ];
        execute(self.conn, INSERT, row)?;
        let seq = self.conn.last_insert_rowid();
        self.due_at(delivery.expires);
        self.wake(delivery.agent);
        // Behind another that waits, it is neither next nor anybody's yet.
        if !exists(self.conn, HAS_LANE, params![delivery.agent, lane])? {
            self.set_lane(delivery.agent, &lane, seq, delivery.reserved)?;
        }
        Ok(())
    }

    /// Makes `seq` the next delivery of a lane. Gives its owner.
    fn set_lane(&self, agent: i64, lane: &str, seq: i64, reserved: Option<i64>) -> Result<i64> {
        let owner = self.owner_of(agent, lane, seq, reserved)?;
        execute(self.conn, SET_LANE, params![agent, lane, seq, owner])?;
        Ok(owner)
    }

    /// Brings a lane's row up to date. Gives the next delivery and its owner, if any waits.
    pub(super) fn refresh_lane(&mut self, agent: i64, lane: &str) -> Result<Option<(i64, i64)>> {
        let next: Option<(i64, Option<i64>)> =
            one(self.conn, NEXT_FREE, params![agent, lane], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let Some((next, reserved)) = next else {
            execute(self.conn, DROP_LANE, params![agent, lane])?;
            return Ok(None);
        };
        let owner = self.set_lane(agent, lane, next, reserved)?;
        Ok(Some((next, owner)))
    }

    /// Who may take the delivery `seq` of a lane: `ANYBODY`, one node, or nobody for now.
    pub(super) fn owner_of(&self, agent: i64, lane: &str, seq: i64, reserved: Option<i64>) -> Result<i64> {
        let holders =
            one(self.conn, HOLDERS, params![agent, lane, seq], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (lowest, highest) = holders.unwrap_or_default();
        Ok(owner(lowest, highest, reserved))
    }

    /// Leases a delivery that waits, unless it has expired.
    pub(super) fn lease(
        &mut self,
        seq: i64,
        until: Timestamp,
        node: i64,
    ) -> Result<Option<Readable<Leased>>> {
        self.due_at(until);
        one_readable(self.conn, LEASE, params![seq, until.millis(), node, self.now.millis()], |row| {
            Ok(Leased { message: row.get(0)?, attempts: row.get(1)?, to_text: row.get(2)? })
        })
    }

    /// Puts a delivery whose lease ended back into the queue.
    pub(super) fn release(&mut self, seq: i64, agent: i64, lane: &str) -> Result<()> {
        execute(self.conn, RELEASE, [seq])?;
        self.refresh_lane(agent, lane)?;
        self.wake(agent);
        Ok(())
    }

    /// Ends a delivery, and with the last one of a message its files. False when it had ended before. A message that
    /// cannot be read never ends: it stays with its files until somebody has repaired it or taken it away.
    pub(super) fn end(&mut self, seq: i64, how: Done) -> Result<bool> {
        let ended: Option<(i64, String, i64)> = one(self.conn, DONE, params![seq, how.as_str()], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
        let Some((agent, lane, message)) = ended else { return Ok(false) };
        if self.refresh_lane(agent, &lane)?.is_some() {
            // The lane may have opened for another node.
            self.wake(agent);
        }
        if how == Done::Unreadable {
            return Ok(true);
        }
        let left: Option<(i64, Option<i64>)> =
            one(self.conn, ONE_LESS_WAITING, [message, self.now.millis()], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        if let Some((..=0, Some(_))) = left {
            self.drop_files(message)?;
        }
        Ok(true)
    }

    /// Drops the files of a message that nobody will fetch any more.
    pub(super) fn drop_files(&mut self, message: i64) -> Result<()> {
        let file: Option<(String, i64, i64)> =
            one(self.conn, TAKE_FILE, [message], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        if let Some((name, org, bytes)) = file {
            execute(self.conn, FREE_SPACE, [org, bytes])?;
            self.drop_file(name);
        }
        Ok(())
    }
}

/// Who may take the next delivery of a lane, given the nodes with the lowest and highest id that hold earlier ones.
fn owner(lowest: Option<i64>, highest: Option<i64>, reserved: Option<i64>) -> i64 {
    match (lowest.or(reserved), highest.or(reserved), reserved) {
        (None, None, None) => ANYBODY,
        (Some(low), Some(high), None) if low == high => low,
        (Some(low), Some(high), Some(reserved)) if low == high && low == reserved => low,
        _ => NOBODY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_belongs_to_whoever_holds_or_is_meant() {
        assert_eq!(owner(None, None, None), ANYBODY);
        assert_eq!(owner(None, None, Some(7)), 7);
        assert_eq!(owner(Some(7), Some(7), None), 7);
        assert_eq!(owner(Some(7), Some(7), Some(7)), 7);
        assert_eq!(owner(Some(7), Some(7), Some(8)), NOBODY);
        assert_eq!(owner(Some(7), Some(8), None), NOBODY);
    }
}
