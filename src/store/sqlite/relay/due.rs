//! What time does: leases end, messages expire, and after ten takes a message is abandoned. A request that will
//! not be taken any more is told to whoever sent it, in one error reply.

use std::time::Duration;

use rusqlite::Row;
use serde_json::json;

use super::lanes::{Done, NewDelivery};
use super::messages::{self, NewMessage, State};
use super::tx::Tx;
use super::{Readable, Result, all, one, one_readable};
use crate::domain::clock::Timestamp;
use crate::proto::redsyn::ids::{Kind, TAKES_MAX, TTL_DEFAULT_SECS};
use crate::store::relay::Swept;

statements! {
    LEASES_OF = "
        SELECT seq, agent, lane, attempts, expires FROM deliveries INDEXED BY deliveries_due
        WHERE agent = ?1 AND lease_until IS NOT NULL AND lease_until <= ?2 ORDER BY lease_until LIMIT ?3";
    LEASES = "
        SELECT seq, agent, lane, attempts, expires FROM deliveries
        WHERE lease_until IS NOT NULL AND lease_until <= ?1 ORDER BY lease_until LIMIT ?2";
    EXPIRED = "
        SELECT seq FROM deliveries
        WHERE done IS NULL AND lease_until IS NULL AND expires <= ?1 ORDER BY expires LIMIT ?2";
    NEXT_LEASE = "
        SELECT lease_until FROM deliveries WHERE lease_until IS NOT NULL ORDER BY lease_until LIMIT 1";
    NEXT_EXPIRY = "
        SELECT expires FROM deliveries WHERE done IS NULL AND lease_until IS NULL ORDER BY expires LIMIT 1";
    UNDELIVERED = "
        SELECT messages.seq, messages.kind, messages.id, messages.thread, messages.from_agent,
            messages.from_session, messages.from_text, deliveries.agent, deliveries.session, deliveries.to_text,
            deliveries.attempts, asked.address, asked.org, asker.person
        FROM deliveries JOIN messages ON messages.seq = deliveries.message
        JOIN agents AS asked ON asked.id = deliveries.agent
        JOIN agents AS asker ON asker.id = messages.from_agent
        WHERE deliveries.seq = ?1";
}

/// How many ended leases, and how many expired messages, one transaction deals with: keeps others from waiting.
const AT_ONCE: i64 = 200;

struct Lease {
    seq: i64,
    agent: i64,
    lane: String,
    attempts: u32,
    expires: Timestamp,
}

impl Lease {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: row.get(0)?,
            agent: row.get(1)?,
            lane: row.get(2)?,
            attempts: row.get(3)?,
            expires: Timestamp::from_millis(row.get(4)?),
        })
    }
}

/// Ends the leases of one mailbox that are over, before it is looked at.
pub(super) fn end_leases_of(tx: &mut Tx<'_>, agent: i64) -> Result<()> {
    let ended = all(tx.conn, LEASES_OF, [agent, tx.now.millis(), AT_ONCE], Lease::read)?;
    for lease in ended {
        end_lease(tx, &lease, &mut Swept::default())?;
    }
    Ok(())
}

pub(super) fn sweep(tx: &mut Tx<'_>) -> Result<Swept> {
    let mut swept = Swept::default();
    let leases = all(tx.conn, LEASES, [tx.now.millis(), AT_ONCE], Lease::read)?;
    for lease in &leases {
        end_lease(tx, lease, &mut swept)?;
    }
    let expired = all(tx.conn, EXPIRED, [tx.now.millis(), AT_ONCE], |row| row.get::<_, i64>(0))?;
    for delivery in &expired {
        give_up(tx, *delivery, Done::Expired)?;
        swept.expired += 1;
    }
    swept.next = [NEXT_LEASE, NEXT_EXPIRY]
        .into_iter()
        .filter_map(|sql| one(tx.conn, sql, [], |row| row.get(0)).transpose())
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .min()
        .map(Timestamp::from_millis);
    swept.more = swept.next.is_some_and(|next| next <= tx.now);
    Ok(swept)
}

fn end_lease(tx: &mut Tx<'_>, lease: &Lease, swept: &mut Swept) -> Result<()> {
    swept.leases_ended += 1;
    if lease.attempts >= TAKES_MAX {
        swept.abandoned += 1;
        give_up(tx, lease.seq, Done::Abandoned)
    } else if lease.expires <= tx.now {
        swept.expired += 1;
        give_up(tx, lease.seq, Done::Expired)
    } else {
        tx.release(lease.seq, lease.agent, &lease.lane)
    }
}

/// A delivery nobody will take any more.
struct Undelivered {
    message: i64,
    kind: String,
    id: String,
    thread: String,
    asker: i64,
    asker_session: Option<i64>,
    asker_text: String,
    agent: i64,
    session: Option<i64>,
    to_text: String,
    attempts: u32,
    address: String,
    org: i64,
    asker_person: i64,
}

impl Undelivered {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let address: String = row.get(11)?;
        Ok(Self {
            message: row.get(0)?,
            kind: row.get(1)?,
            id: row.get(2)?,
            thread: row.get(3)?,
            asker: row.get(4)?,
            asker_session: row.get(5)?,
            asker_text: row.get(6)?,
            agent: row.get(7)?,
            session: row.get(8)?,
            // Without its session it still says who was asked.
            to_text: row.get_ref(9)?.as_str().map_or_else(|_| address.clone(), str::to_owned),
            attempts: row.get(10)?,
            address,
            org: row.get(12)?,
            asker_person: row.get(13)?,
        })
    }

    /// The spec's words.
    fn why(&self, how: Done) -> String {
        match how {
            Done::Abandoned => {
                format!(
                    "not delivered: {} took it {} times and never confirmed it",
                    self.address, self.attempts
                )
            }
            Done::Unreadable => {
                format!("not delivered: the relay cannot read it any more, and {} never saw it", self.address)
            }
            _ => format!("not delivered: it expired before {} took it", self.address),
        }
    }
}

/// Ends a delivery that expired, failed too often or is damaged; a request's sender gets an error reply (A34).
pub(super) fn give_up(tx: &mut Tx<'_>, delivery: i64, how: Done) -> Result<()> {
    let state = if how == Done::Expired { State::Expired } else { State::Abandoned };
    // Who sent it may be just what cannot be read: then nobody can be told.
    let lost = one_readable(tx.conn, UNDELIVERED, [delivery], Undelivered::read)?.and_then(Readable::ok);
    if !tx.end(delivery, how)? {
        return Ok(());
    }
    match lost {
        Some(lost)
            if lost.kind == Kind::Request.as_str() && messages::close(tx.conn, lost.message, state)? =>
        {
            tell(tx, &lost, how)
        }
        _ => Ok(()),
    }
}

/// Unsigned, from the agent asked, to whoever asked.
fn tell(tx: &mut Tx<'_>, lost: &Undelivered, how: Done) -> Result<()> {
    let expires = tx.now.plus(Duration::from_secs(TTL_DEFAULT_SECS));
    let body = json!({"type": "text/plain", "text": lost.why(how)}).to_string();
    let id = tx.new_id()?;
    let message = messages::insert(
        tx.conn,
        tx.now,
        &NewMessage {
            id: &id,
            person: None,
            org: lost.org,
            kind: Kind::Reply,
            from_agent: lost.agent,
            from_session: lost.session,
            from_text: &lost.to_text,
            to_text: &lost.asker_text,
            thread: &lost.thread,
            reply_to: Some(&lost.id),
            ts: tx.now.secs(),
            ttl_secs: i64::try_from(TTL_DEFAULT_SECS).unwrap_or(i64::MAX),
            expires,
            body: &body,
            encrypted: false,
            refs: "[]",
            error: true,
            signed: None,
            file: None,
            waiting: 1,
            topic: None,
        },
    )?;
    messages::take_part(tx.conn, lost.asker_person, &lost.thread, message)?;
    tx.enqueue(&NewDelivery {
        message,
        agent: lost.asker,
        session: lost.asker_session,
        thread: &lost.thread,
        to_text: &lost.asker_text,
        reply_to: Some(&lost.id),
        reserved: None,
        expires,
    })
}
