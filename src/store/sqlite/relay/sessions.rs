//! Sessions: which one a message falls into, who takes part, what is shown of them.

use rusqlite::{Connection, params};

use super::agents::Agent;
use super::people::inserted;
use super::{Result, all, execute, one, orgs};
use crate::domain::clock::Timestamp;
use crate::domain::relay::refusal::Refusal;
use crate::proto::redsyn::address::Session;
use crate::store::relay::{PersonId, SessionView};

statements! {
    NEXT_NUMBER = "UPDATE agents SET sessions = sessions + 1 WHERE id = ?1 RETURNING sessions";
    OPEN_SESSION = "INSERT INTO sessions (agent, number, created) VALUES (?1, ?2, ?3)";
    IS_OPEN = "SELECT open FROM sessions WHERE agent = ?1 AND number = ?2";
    OF_THREAD = "
        SELECT agent_threads.session FROM agent_threads
        JOIN sessions ON sessions.agent = agent_threads.agent AND sessions.number = agent_threads.session
        WHERE agent_threads.agent = ?1 AND agent_threads.thread = ?2 AND sessions.open = 1";
    SET_THREAD = "
        INSERT INTO agent_threads (agent, thread, session) VALUES (?1, ?2, ?3)
        ON CONFLICT (agent, thread) DO UPDATE SET session = excluded.session";
    SET_TITLE = "UPDATE sessions SET title = ?3 WHERE agent = ?1 AND number = ?2";
    JOIN_SESSION = "INSERT OR IGNORE INTO session_people (agent, number, person) VALUES (?1, ?2, ?3)";
    SHOWN = "
        SELECT sessions.number, sessions.title, sessions.open, EXISTS (
            SELECT 1 FROM session_people AS part
            WHERE part.agent = sessions.agent AND part.number = sessions.number AND part.person = ?2)
        FROM sessions WHERE sessions.agent = ?1 ORDER BY sessions.number DESC LIMIT ?3";
}

/// How many of an agent's latest sessions are listed with it.
pub(super) const LISTED: i64 = 100;
/// The same in a directory, which may list many agents.
pub(super) const LISTED_IN_DIRECTORY: i64 = 10;

/// The session a request to `agent` falls into; opens one when it must.
pub(super) fn for_request(
    conn: &Connection,
    agent: &Agent,
    asked: Option<&Session>,
    thread: &str,
    now: Timestamp,
) -> Result<i64> {
    let session = match asked {
        Some(Session::New) => open(conn, agent.id, now)?,
        Some(Session::Id(id)) => named(conn, agent, id.as_str())?,
        None => match one(conn, OF_THREAD, params![agent.id, thread], |row| row.get(0))? {
            Some(session) => return Ok(session),
            // The thread is new there, or its session was closed.
            None => open(conn, agent.id, now)?,
        },
    };
    execute(conn, SET_THREAD, params![agent.id, thread, session])?;
    Ok(session)
}

pub(super) fn open(conn: &Connection, agent: i64, now: Timestamp) -> Result<i64> {
    let number = inserted(one(conn, NEXT_NUMBER, [agent], |row| row.get(0))?)?;
    execute(conn, OPEN_SESSION, [agent, number, now.millis()])?;
    Ok(number)
}

/// A session that was named must exist and be open.
fn named(conn: &Connection, agent: &Agent, id: &str) -> Result<i64> {
    let address = || agent.state.agent.clone();
    let number = existing(conn, agent.id, id)?;
    match number {
        None => Err(Refusal::NoSession { agent: address(), session: id.to_owned() }.into()),
        Some((_, false)) => Err(Refusal::SessionClosed { agent: address(), session: id.to_owned() }.into()),
        Some((number, true)) => Ok(number),
    }
}

/// The number of the session called `id`, and whether it is open.
pub(super) fn existing(conn: &Connection, agent: i64, id: &str) -> Result<Option<(i64, bool)>> {
    let Some(number) = number(id) else { return Ok(None) };
    let open = one(conn, IS_OPEN, [agent, number], |row| row.get(0))?;
    Ok(open.map(|open| (number, open)))
}

/// `s42` is 42; nothing else is a session this relay opened.
fn number(id: &str) -> Option<i64> {
    let number: i64 = id.strip_prefix('s')?.parse().ok()?;
    (number > 0 && self::id(number) == id).then_some(number)
}

pub(super) fn id(number: i64) -> String {
    format!("s{number}")
}

pub(super) fn set_title(conn: &Connection, agent: i64, session: i64, title: &str) -> Result<()> {
    execute(conn, SET_TITLE, params![agent, session, title])?;
    Ok(())
}

pub(super) fn join(conn: &Connection, agent: i64, session: i64, person: i64) -> Result<()> {
    execute(conn, JOIN_SESSION, [agent, session, person])?;
    Ok(())
}

/// The owner sees all; who takes part sees theirs; the rest of the organisation sees that they exist (A46).
pub(super) fn shown_to(
    conn: &Connection,
    viewer: PersonId,
    agent: &Agent,
    most: i64,
) -> Result<Vec<SessionView>> {
    let owner = agent.person == viewer.0;
    let colleague = owner || orgs::is_member(conn, viewer.0, agent.org)?;
    let sessions: Vec<(i64, String, bool, bool)> = all(conn, SHOWN, [agent.id, viewer.0, most], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    })?;
    let view = |(number, title, open, part): (i64, String, bool, bool)| {
        let sees_all = owner || part;
        (sees_all || colleague)
            .then(|| SessionView { id: id(number), content: sees_all.then_some((title, open)) })
    };
    Ok(sessions.into_iter().filter_map(view).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_relays_own_spelling_names_a_session() {
        assert_eq!(number("s42"), Some(42));
        for other in ["s0", "s01", "s-1", "s+1", "42", "s", "s99999999999999999999", "S1"] {
            assert_eq!(number(other), None, "{other}");
        }
    }
}
