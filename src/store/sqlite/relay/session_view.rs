//! One session: who sees how much of it, its title, its end.

use rusqlite::{Connection, params};

use super::agents::{self, Agent};
use super::{Result, all, execute, exists, links, messages, one, orgs, sessions};
use crate::domain::clock::Timestamp;
use crate::domain::relay::refusal::Refusal;
use crate::proto::redsyn::address::AgentAddress;
use crate::store::relay::{PersonId, SessionContent, SessionPage, StoredMessage};

statements! {
    TAKES_PART = "SELECT 1 FROM session_people WHERE agent = ?1 AND number = ?2 AND person = ?3";
    SESSION = "SELECT title, open, created FROM sessions WHERE agent = ?1 AND number = ?2";
    RECEIVED = "
        SELECT message, to_text FROM deliveries WHERE agent = ?1 AND session = ?2 AND session IS NOT NULL
        ORDER BY seq DESC LIMIT ?3";
    SENT = "
        SELECT seq, to_text FROM messages
        WHERE from_agent = ?1 AND from_session = ?2 AND from_session IS NOT NULL ORDER BY seq DESC LIMIT ?3";
    OWN = "
        SELECT 1 FROM messages JOIN participants ON participants.person = ?2
            AND participants.thread = messages.thread AND participants.message = messages.seq
        WHERE messages.seq = ?1";
    CLOSE = "UPDATE sessions SET open = 0 WHERE agent = ?1 AND number = ?2";
}

/// The most messages a session shows: its latest. At 64 KB each, what one answer can hold.
const SHOWN: usize = 200;

/// How much of a session somebody sees.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sight {
    /// The owner: everything.
    All,
    /// Whoever takes part, over a link as long as it is active: the session and their own messages.
    Own,
    /// The rest of the organisation: that it exists.
    Existence,
}

struct Seen {
    agent: Agent,
    number: i64,
    sight: Sight,
}

fn seen(conn: &Connection, viewer: PersonId, address: &AgentAddress, id: &str) -> Result<Seen> {
    let no_agent = || Refusal::NoAgent(address.clone());
    let no_session = || Refusal::NoSession { agent: address.clone(), session: id.to_owned() };
    let agent = agents::find(conn, address)?.ok_or_else(no_agent)?;
    let number = sessions::existing(conn, agent.id, id)?.map(|(number, _)| number);
    let part = match number {
        Some(number) => exists(conn, TAKES_PART, [agent.id, number, viewer.0])?,
        None => false,
    };
    let colleague = orgs::is_member(conn, viewer.0, agent.org)?;
    let sight = if agent.person == viewer.0 {
        Sight::All
    } else if part && (colleague || links::joins(conn, viewer, agent.org)?) {
        Sight::Own
    } else if colleague {
        Sight::Existence
    } else {
        // Whoever sees the agent over a link learns no more of its sessions than whoever does not.
        let known = agents::seen_by(conn, viewer, address).is_ok();
        return Err(if known { no_session() } else { no_agent() }.into());
    };
    let number = number.ok_or_else(no_session)?;
    Ok(Seen { agent, number, sight })
}

pub(super) fn view(
    conn: &Connection,
    viewer: PersonId,
    address: &AgentAddress,
    id: &str,
) -> Result<SessionPage> {
    let seen = seen(conn, viewer, address, id)?;
    let content = match seen.sight {
        Sight::Existence => None,
        Sight::All | Sight::Own => Some(content(conn, viewer, &seen)?),
    };
    Ok(SessionPage { id: sessions::id(seen.number), content })
}

fn content(conn: &Connection, viewer: PersonId, seen: &Seen) -> Result<SessionContent> {
    let row: Option<(String, bool, i64)> =
        one(conn, SESSION, [seen.agent.id, seen.number], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let (title, open, created) = row.unwrap_or_default();
    Ok(SessionContent {
        title,
        open,
        created: Timestamp::from_millis(created),
        messages: shown(conn, viewer, seen)?,
    })
}

/// The session's latest messages in both directions, oldest first.
fn shown(conn: &Connection, viewer: PersonId, seen: &Seen) -> Result<Vec<StoredMessage>> {
    let mut found = Vec::new();
    for sql in [RECEIVED, SENT] {
        let rows = all(conn, sql, params![seen.agent.id, seen.number, SHOWN as i64], |row| {
            // A damaged one is left out, like the messages below.
            let seq: i64 = row.get(0)?;
            Ok(row.get_ref(1)?.as_str().ok().map(|to| (seq, to.to_owned())))
        })?;
        found.extend(rows.into_iter().flatten());
    }
    found.sort();
    // An agent that writes into its own session both sends and receives.
    found.dedup_by_key(|(seq, _)| *seq);
    let from = found.len().saturating_sub(SHOWN);
    let mut out = Vec::new();
    for (seq, to) in found.split_off(from) {
        if seen.sight == Sight::Own && !exists(conn, OWN, [seq, viewer.0])? {
            continue;
        }
        if let Some(mut message) = messages::shown(conn, seq)? {
            message.to = to;
            out.push(message);
        }
    }
    Ok(out)
}

/// Only the owner changes a session.
fn owned(conn: &Connection, person: PersonId, address: &AgentAddress, id: &str) -> Result<Seen> {
    let seen = seen(conn, person, address, id)?;
    if seen.sight == Sight::All { Ok(seen) } else { Err(Refusal::NotYours(address.clone()).into()) }
}

pub(super) fn set_title(
    conn: &Connection,
    person: PersonId,
    address: &AgentAddress,
    id: &str,
    title: &str,
) -> Result<SessionPage> {
    let seen = owned(conn, person, address, id)?;
    sessions::set_title(conn, seen.agent.id, seen.number, title)?;
    view(conn, person, address, id)
}

/// Twice is once.
pub(super) fn close(
    conn: &Connection,
    person: PersonId,
    address: &AgentAddress,
    id: &str,
) -> Result<SessionPage> {
    let seen = owned(conn, person, address, id)?;
    execute(conn, CLOSE, [seen.agent.id, seen.number])?;
    view(conn, person, address, id)
}
