//! Messages at rest: writing one, reading one, threads, files, cancelling.

use rusqlite::{Connection, Row, params};
use serde_json::value::RawValue;

use super::files::{self, KeptFile};
use super::lanes::Done;
use super::people::inserted;
use super::tx::Tx;
use super::{Readable, Result, Unreadable, all, execute, exists, one, one_readable, stored};
use crate::domain::clock::Timestamp;
use crate::domain::relay::refusal::Refusal;
use crate::proto::redsyn::ids::{Kind, MessageId};
use crate::store::relay::{Files, PersonId, Receipt, Signed, StoredMessage};

statements! {
    INSERT = "
        INSERT INTO messages (id, person, org, kind, from_agent, from_session, from_text, to_text, thread,
            reply_to, ts, ttl, expires, created, body, encrypted, refs, error, sig_key, sig_value, sig_payload,
            sig_node, sig_fingerprint, files_bytes, files_sha256, waiting, topic, ended)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
            ?22, ?23, ?24, ?25, ?26, ?27, iif(?26 = 0, ?14, NULL))
        RETURNING seq";
    INSERT_FILE = "INSERT INTO files (message, org, name, bytes) VALUES (?1, ?2, ?3, ?4)";
    TAKE_PART = "INSERT OR IGNORE INTO participants (person, thread, message) VALUES (?1, ?2, ?3)";
    RECEIPT = "SELECT person, id, thread, to_text, sig_key IS NOT NULL FROM messages WHERE id = ?1";
    MESSAGE = "
        SELECT id, kind, from_text, to_text, thread, reply_to, ts, ttl, expires, body, refs, error, sig_key,
            sig_value, sig_payload, sig_node, sig_fingerprint, files_bytes, files_sha256, topic, encrypted
        FROM messages WHERE seq = ?1";
    THREAD = "
        SELECT message FROM participants WHERE person = ?1 AND thread = ?2 ORDER BY message DESC LIMIT ?3";
    MAY_READ_FILES = "
        SELECT 1 FROM messages
        WHERE messages.id = ?1 AND messages.id_until IS NULL AND (
            EXISTS (SELECT 1 FROM agents JOIN members ON members.person = ?2 AND members.org = agents.org
                WHERE agents.id = messages.from_agent)
            OR EXISTS (SELECT 1 FROM deliveries JOIN agents ON agents.id = deliveries.agent
                JOIN members ON members.person = ?2 AND members.org = agents.org
                WHERE deliveries.message = messages.seq))";
    LEAVE = "DELETE FROM participants WHERE person = ?1 AND thread = ?2 AND message = ?3";
    TO_CANCEL = "
        SELECT seq, kind, state, thread FROM messages WHERE id = ?1 AND person = ?2 AND id_until IS NULL";
    DELIVERIES = "
        SELECT deliveries.seq, deliveries.attempts, agents.person FROM deliveries
        JOIN agents ON agents.id = deliveries.agent WHERE deliveries.message = ?1";
    CLOSE = "UPDATE messages SET state = ?2 WHERE seq = ?1 AND state = 'open'";
}

/// A thread is shown whole, up to what one answer can hold and what others can wait for: then its latest messages.
const THREAD_SHOWN: i64 = 2_000;
const THREAD_BYTES: usize = 16 * 1024 * 1024;

/// Where a request stands. Progress, replies and events stay open for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Open,
    Answered,
    Expired,
    Abandoned,
    Cancelled,
}

impl State {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Answered => "answered",
            Self::Expired => "expired",
            Self::Abandoned => "abandoned",
            Self::Cancelled => "cancelled",
        }
    }
}

impl std::str::FromStr for State {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        let all = [Self::Open, Self::Answered, Self::Expired, Self::Abandoned, Self::Cancelled];
        all.into_iter().find(|state| state.as_str() == text).ok_or(())
    }
}

/// A message to be written.
#[derive(Debug)]
pub(super) struct NewMessage<'a> {
    pub(super) id: &'a MessageId,
    /// `None`: the relay's own.
    pub(super) person: Option<i64>,
    /// The organisation it counts for.
    pub(super) org: i64,
    pub(super) kind: Kind,
    pub(super) from_agent: i64,
    pub(super) from_session: Option<i64>,
    pub(super) from_text: &'a str,
    pub(super) to_text: &'a str,
    pub(super) thread: &'a str,
    pub(super) reply_to: Option<&'a str>,
    pub(super) ts: i64,
    pub(super) ttl_secs: i64,
    pub(super) expires: Timestamp,
    pub(super) body: &'a str,
    pub(super) encrypted: bool,
    pub(super) refs: &'a str,
    pub(super) error: bool,
    pub(super) signed: Option<&'a Signed>,
    pub(super) file: Option<&'a KeptFile>,
    /// How many deliveries it will have.
    pub(super) waiting: i64,
    pub(super) topic: Option<&'a str>,
}

pub(super) fn insert(conn: &Connection, now: Timestamp, message: &NewMessage<'_>) -> Result<i64> {
    let signed = message.signed;
    let row = params![
        message.id.as_str(),
        message.person,
        message.org,
        message.kind.as_str(),
        message.from_agent,
        message.from_session,
        message.from_text,
        message.to_text,
        message.thread,
        message.reply_to,
        message.ts,
        message.ttl_secs,
        message.expires.millis(),
        now.millis(),
        message.body,
        message.encrypted,
        message.refs,
        message.error,
        signed.map(|signed| &signed.key),
        signed.map(|signed| &signed.value),
        signed.map(|signed| &signed.payload),
        signed.map(|signed| &signed.node),
        signed.map(|signed| &signed.fingerprint),
        message.file.map(|file| file.bytes),
        message.file.map(|file| &file.sha256),
        message.waiting,
        message.topic,
    ];
    let seq = inserted(one(conn, INSERT, row, |row| row.get(0))?)?;
    if let Some(file) = message.file {
        execute(conn, INSERT_FILE, params![seq, message.org, file.name, file.bytes])?;
    }
    Ok(seq)
}

/// From now on `person` sees the message in its thread.
pub(super) fn take_part(conn: &Connection, person: i64, thread: &str, message: i64) -> Result<()> {
    execute(conn, TAKE_PART, params![person, thread, message])?;
    Ok(())
}

/// From now on `person` does not see it there.
pub(super) fn leave(conn: &Connection, person: i64, thread: &str, message: i64) -> Result<()> {
    execute(conn, LEAVE, params![person, thread, message])?;
    Ok(())
}

/// The receipt of the message called `id`. Somebody else's is refused, never shown (A14).
pub(super) fn receipt(conn: &Connection, person: PersonId, id: &MessageId) -> Result<Option<Receipt>> {
    type Found = (Option<i64>, String, String, String, bool);
    let found: Option<Found> = one(conn, RECEIPT, [id.as_str()], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
    })?;
    match found {
        None => Ok(None),
        Some((owner, ..)) if owner != Some(person.0) => Err(Refusal::IdTaken.into()),
        Some((_, id, thread, to, signed)) => Ok(Some(Receipt { id: stored(&id, "id")?, thread, to, signed })),
    }
}

/// Ends a request's life, once.
pub(super) fn close(conn: &Connection, message: i64, state: State) -> Result<bool> {
    Ok(execute(conn, CLOSE, params![message, state.as_str()])? > 0)
}

struct MessageRow {
    id: String,
    kind: String,
    message: StoredMessageTexts,
    numbers: (i64, i64, i64),
    flags: (bool, bool),
    signed: Option<Signed>,
    files: Option<Files>,
}

struct StoredMessageTexts {
    from: String,
    to: String,
    thread: String,
    reply_to: Option<String>,
    body: String,
    refs: String,
    topic: Option<String>,
}

impl MessageRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let signed = |key: String| {
            Ok::<_, rusqlite::Error>(Signed {
                key,
                value: row.get(13)?,
                payload: row.get(14)?,
                node: row.get(15)?,
                fingerprint: row.get(16)?,
            })
        };
        let files = |bytes: i64| {
            Ok::<_, rusqlite::Error>(Files { bytes: bytes.unsigned_abs(), sha256: row.get(18)? })
        };
        Ok(Self {
            id: row.get(0)?,
            kind: row.get(1)?,
            message: StoredMessageTexts {
                from: row.get(2)?,
                to: row.get(3)?,
                thread: row.get(4)?,
                reply_to: row.get(5)?,
                body: row.get(9)?,
                refs: row.get(10)?,
                topic: row.get(19)?,
            },
            numbers: (row.get(6)?, row.get(7)?, row.get(8)?),
            flags: (row.get(11)?, row.get(20)?),
            signed: row.get::<_, Option<String>>(12)?.map(signed).transpose()?,
            files: row.get::<_, Option<i64>>(17)?.map(files).transpose()?,
        })
    }

    fn parse(self) -> Readable<StoredMessage> {
        let StoredMessageTexts { from, to, thread, reply_to, body, refs, topic } = self.message;
        let (ts, ttl_secs, expires) = self.numbers;
        let (error, encrypted) = self.flags;
        Ok(StoredMessage {
            id: self.id.parse().map_err(|_| unreadable("id"))?,
            kind: self.kind.parse().map_err(|_| unreadable("kind"))?,
            from,
            to,
            thread,
            reply_to,
            ts,
            ttl_secs,
            expires: Timestamp::from_millis(expires),
            body: RawValue::from_string(body).map_err(|_| unreadable("body"))?,
            encrypted,
            refs: RawValue::from_string(refs).map_err(|_| unreadable("refs"))?,
            files: self.files,
            error,
            signed: self.signed,
            topic,
        })
    }
}

fn unreadable(what: &str) -> Unreadable {
    Unreadable(format!("a stored {what} cannot be read"))
}

pub(super) fn read(conn: &Connection, seq: i64) -> Result<Option<Readable<StoredMessage>>> {
    let row = one_readable(conn, MESSAGE, [seq], MessageRow::read)?;
    Ok(row.map(|row| row.and_then(MessageRow::parse)))
}

/// The same for whoever only looks: one that cannot be read is left out.
pub(super) fn shown(conn: &Connection, seq: i64) -> Result<Option<StoredMessage>> {
    let found = read(conn, seq)?;
    Ok(found.and_then(|read| {
        read.inspect_err(|Unreadable(why)| tracing::debug!(message = seq, why, "relay_message_not_shown"))
            .ok()
    }))
}

/// The latest messages of a thread that `viewer` sent or received, oldest first (A45).
pub(super) fn thread(conn: &Connection, viewer: PersonId, thread: &str) -> Result<Vec<StoredMessage>> {
    let seqs = all(conn, THREAD, params![viewer.0, thread, THREAD_SHOWN], |row| row.get::<_, i64>(0))?;
    if seqs.is_empty() {
        return Err(Refusal::NoThread(thread.to_owned()).into());
    }
    let (mut messages, mut bytes) = (Vec::new(), 0);
    for seq in seqs {
        let Some(message) = shown(conn, seq)? else { continue };
        let payload = message.signed.as_ref().map_or(0, |signed| signed.payload.len());
        bytes += message.body.get().len() + message.refs.get().len() + payload;
        if bytes > THREAD_BYTES {
            break;
        }
        messages.push(message);
    }
    messages.reverse();
    Ok(messages)
}

/// The name of the file to download, for members of the sender's and the recipients' organisations (A35).
pub(super) fn file_for(conn: &Connection, viewer: PersonId, id: &MessageId) -> Result<String> {
    if !exists(conn, MAY_READ_FILES, params![id.as_str(), viewer.0])? {
        return Err(Refusal::NoMessage(id.clone()).into());
    }
    files::name_of(conn, id.as_str())?.ok_or_else(|| Refusal::NoFiles(id.clone()).into())
}

/// Withdraws a request nobody took: its recipient never sees it, in the thread neither. Twice is once (A36).
pub(super) fn cancel(tx: &mut Tx<'_>, person: PersonId, id: &MessageId) -> Result<()> {
    let found: Option<(i64, String, String, String)> =
        one(tx.conn, TO_CANCEL, params![id.as_str(), person.0], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })?;
    let (seq, kind, state, thread) = found.ok_or_else(|| Refusal::NoMessage(id.clone()))?;
    if stored::<Kind>(&kind, "kind")? != Kind::Request {
        return Err(Refusal::NotARequest.into());
    }
    let deliveries: Vec<(i64, i64, i64)> =
        all(tx.conn, DELIVERIES, [seq], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    match stored::<State>(&state, "state")? {
        State::Cancelled => return Ok(()),
        State::Open if deliveries.iter().all(|(_, attempts, _)| *attempts == 0) => {}
        State::Open => return Err(Refusal::TakenAlready(id.clone()).into()),
        closed => return Err(Refusal::RequestClosed { id: id.clone(), state: closed.as_str() }.into()),
    }
    close(tx.conn, seq, State::Cancelled)?;
    for (delivery, _, recipient) in deliveries {
        tx.end(delivery, Done::Cancelled)?;
        if recipient != person.0 {
            leave(tx.conn, recipient, &thread, seq)?;
        }
    }
    Ok(())
}
