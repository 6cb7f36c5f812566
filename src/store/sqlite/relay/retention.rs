//! Deleting what ended long enough ago. First the message goes, with its deliveries, its place in threads and the
//! conversations it leaves empty; its id stays known until no envelope could wait that long, so that a late retry is
//! still answered with the first message. What somebody may still take has not ended and is never looked at.

use std::time::Duration;

use rusqlite::{Row, params};

use super::tx::Tx;
use super::{Result, all, execute, exists, messages};
use crate::domain::clock::Timestamp;
use crate::proto::redsyn::ids::TTL_MAX_SECS;
use crate::store::relay::Forgotten;

statements! {
    ENDED = "
        SELECT seq, created, person, thread, from_agent, from_session FROM messages
        WHERE ended IS NOT NULL AND ended <= ?1 ORDER BY ended LIMIT ?2";
    DELIVERED = "
        SELECT deliveries.agent, deliveries.session, agents.person FROM deliveries
        JOIN agents ON agents.id = deliveries.agent WHERE deliveries.message = ?1";
    DROP_DELIVERIES = "DELETE FROM deliveries WHERE message = ?1";
    DROP_THREAD = "
        DELETE FROM agent_threads WHERE agent = ?1 AND thread = ?2 AND NOT EXISTS (
            SELECT 1 FROM participants
            JOIN deliveries ON deliveries.message = participants.message AND deliveries.agent = ?1
            WHERE participants.person = ?3 AND participants.thread = ?2)";
    DROP_CONTENT = "
        UPDATE messages SET ended = NULL, id_until = ?2, from_session = NULL, reply_to = NULL, body = '',
            refs = '[]', sig_value = '', sig_payload = '', files_bytes = NULL, files_sha256 = NULL
        WHERE seq = ?1";
    KEEP = "UPDATE messages SET ended = NULL WHERE seq = ?1";
    DROP_MESSAGE = "DELETE FROM messages WHERE seq = ?1";
    KNOWN_LONG_ENOUGH = "
        SELECT seq FROM messages WHERE id_until IS NOT NULL AND id_until <= ?1 ORDER BY id_until LIMIT ?2";
    IS_IN_USE = "
        SELECT 1 WHERE EXISTS (
            SELECT 1 FROM deliveries WHERE agent = ?1 AND session = ?2 AND session IS NOT NULL)
        OR EXISTS (
            SELECT 1 FROM messages WHERE from_agent = ?1 AND from_session = ?2 AND from_session IS NOT NULL)
        OR EXISTS (
            SELECT 1 FROM topic_sessions
            JOIN sessions ON sessions.agent = ?1 AND sessions.number = ?2 AND sessions.open = 1
            WHERE topic_sessions.agent = ?1 AND topic_sessions.session = ?2)";
    DROP_SESSION_PEOPLE = "DELETE FROM session_people WHERE agent = ?1 AND number = ?2";
    DROP_SESSION = "DELETE FROM sessions WHERE agent = ?1 AND number = ?2";
}

/// How many messages one transaction deletes, so that calls get through in between.
const AT_ONCE: i64 = 100;
/// How long an id is known after its message was accepted: as long as any envelope may wait, and so may be retried.
const ID_KNOWN: Duration = Duration::from_secs(TTL_MAX_SECS);

struct Ended {
    seq: i64,
    created: Timestamp,
    /// `None`: the relay's own.
    sender: Option<i64>,
    /// `None`: damaged.
    thread: Option<String>,
    from_agent: i64,
    from_session: Option<i64>,
}

impl Ended {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: row.get(0)?,
            created: Timestamp::from_millis(row.get(1)?),
            sender: row.get(2)?,
            thread: row.get_ref(3)?.as_str().ok().map(str::to_owned),
            from_agent: row.get(4)?,
            from_session: row.get(5)?,
        })
    }
}

/// Deletes a batch of what ended until `ended_until`.
pub(super) fn forget(tx: &Tx<'_>, ended_until: Timestamp) -> Result<Forgotten> {
    let ended = all(tx.conn, ENDED, [ended_until.millis(), AT_ONCE], Ended::read)?;
    for message in &ended {
        drop_content(tx, message)?;
    }
    let known = all(tx.conn, KNOWN_LONG_ENOUGH, [tx.now.millis(), AT_ONCE], |row| row.get::<_, i64>(0))?;
    for seq in &known {
        execute(tx.conn, DROP_MESSAGE, [seq])?;
    }
    let full = |len: usize| i64::try_from(len).is_ok_and(|len| len == AT_ONCE);
    Ok(Forgotten { messages: ended.len() as u64, more: full(ended.len()) || full(known.len()) })
}

fn drop_content(tx: &Tx<'_>, message: &Ended) -> Result<()> {
    let seq = message.seq;
    let Some(thread) = &message.thread else {
        tracing::error!(message = seq, "relay_message_unreadable");
        execute(tx.conn, KEEP, [seq])?;
        return Ok(());
    };
    let delivered: Vec<(i64, Option<i64>, i64)> =
        all(tx.conn, DELIVERED, [seq], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    execute(tx.conn, DROP_DELIVERIES, [seq])?;
    let receivers = delivered.iter().map(|(_, _, person)| *person);
    for person in receivers.chain(message.sender) {
        messages::leave(tx.conn, person, thread, seq)?;
    }
    let id_until = message.created.plus(ID_KNOWN);
    if id_until <= tx.now {
        execute(tx.conn, DROP_MESSAGE, [seq])?;
    } else {
        execute(tx.conn, DROP_CONTENT, [seq, id_until.millis()])?;
    }
    for (agent, session, person) in delivered {
        execute(tx.conn, DROP_THREAD, params![agent, thread, person])?;
        drop_if_empty(tx, agent, session)?;
    }
    drop_if_empty(tx, message.from_agent, message.from_session)
}

/// A conversation ends with its last message. That of a topic that is listened to goes on.
fn drop_if_empty(tx: &Tx<'_>, agent: i64, session: Option<i64>) -> Result<()> {
    let Some(session) = session else { return Ok(()) };
    if exists(tx.conn, IS_IN_USE, [agent, session])? {
        return Ok(());
    }
    execute(tx.conn, DROP_SESSION_PEOPLE, [agent, session])?;
    execute(tx.conn, DROP_SESSION, [agent, session])?;
    Ok(())
}
