//! Topics and who listens to them. A topic exists from its first publication or subscription on.

use rusqlite::{Connection, params};

use super::people::inserted;
use super::{Result, agents, all, execute, links, one, orgs, sessions, stored};
use crate::domain::clock::Timestamp;
use crate::domain::relay::link::ExposeKind;
use crate::domain::relay::refusal::Refusal;
use crate::proto::redsyn::address::{AgentAddress, TopicAddress};
use crate::store::relay::{PersonId, TopicView};

statements! {
    TOPIC = "SELECT id FROM topics WHERE address = ?1";
    INSERT_TOPIC = "INSERT INTO topics (org, address, created) VALUES (?1, ?2, ?3) RETURNING id";
    SUBSCRIBE = "INSERT OR IGNORE INTO subscriptions (topic, agent) VALUES (?1, ?2)";
    UNSUBSCRIBE = "DELETE FROM subscriptions WHERE topic = ?1 AND agent = ?2";
    UNSUBSCRIBE_ALL = "DELETE FROM subscriptions WHERE agent = ?1";
    TOPICS_OF = "
        SELECT topics.id, topics.address, topics.org FROM members CROSS JOIN topics ON topics.org = members.org
        WHERE members.person = ?1 ORDER BY members.org, topics.address LIMIT ?2";
    LISTENERS = "
        SELECT agents.address, agents.org FROM subscriptions JOIN agents ON agents.id = subscriptions.agent
        WHERE subscriptions.topic = ?1 LIMIT ?2";
    SESSION_OF = "
        SELECT topic_sessions.session, sessions.open FROM topic_sessions
        JOIN sessions ON sessions.agent = topic_sessions.agent AND sessions.number = topic_sessions.session
        WHERE topic_sessions.topic = ?1 AND topic_sessions.agent = ?2";
    SET_SESSION = "
        INSERT INTO topic_sessions (topic, agent, session) VALUES (?1, ?2, ?3)
        ON CONFLICT (topic, agent) DO UPDATE SET session = excluded.session";
}

/// The most topics of one answer, and the most listeners of each: a bound on its size.
const MOST: i64 = 10_000;

/// The topic's number, made at its first use.
pub(super) fn ensure(conn: &Connection, org: i64, topic: &TopicAddress, now: Timestamp) -> Result<i64> {
    let address = topic.to_string();
    match one(conn, TOPIC, [&address], |row| row.get(0))? {
        Some(id) => Ok(id),
        None => inserted(one(conn, INSERT_TOPIC, params![org, address, now.millis()], |row| row.get(0))?),
    }
}

/// One of the caller's agents listens from now on. A topic that is not shown to them reads like one of an
/// organisation that does not exist.
pub(super) fn subscribe(
    conn: &Connection,
    person: PersonId,
    agent: &AgentAddress,
    topic: &TopicAddress,
    now: Timestamp,
) -> Result<()> {
    let agent = agents::own(conn, person, agent)?;
    let no_topic = || Refusal::NoTopic(topic.clone());
    let owner = orgs::org_called(conn, &topic.org)?.ok_or_else(no_topic)?;
    if owner != agent.org && !links::exposes_topic(conn, owner, agent.org, ExposeKind::Sub, topic)? {
        return Err(no_topic().into());
    }
    let topic = ensure(conn, owner, topic, now)?;
    execute(conn, SUBSCRIBE, [topic, agent.id])?;
    Ok(())
}

/// Not listening is what was asked for, so whoever does not listen has what they want.
pub(super) fn unsubscribe(
    conn: &Connection,
    person: PersonId,
    agent: &AgentAddress,
    topic: &TopicAddress,
) -> Result<()> {
    let agent = agents::own(conn, person, agent)?;
    if let Some(topic) = one(conn, TOPIC, [topic.to_string()], |row| row.get::<_, i64>(0))? {
        execute(conn, UNSUBSCRIBE, [topic, agent.id])?;
    }
    Ok(())
}

/// An agent that is gone listens to nothing.
pub(super) fn unsubscribe_all(conn: &Connection, agent: i64) -> Result<()> {
    execute(conn, UNSUBSCRIBE_ALL, [agent])?;
    Ok(())
}

/// The topics of the viewer's organisations, with who listens to them.
pub(super) fn list(conn: &Connection, viewer: PersonId) -> Result<Vec<TopicView>> {
    let topics: Vec<(i64, String, i64)> =
        all(conn, TOPICS_OF, [viewer.0, MOST], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    topics
        .into_iter()
        .map(|(id, address, owner)| {
            let topic = stored(&address, "topic")?;
            Ok(TopicView { listeners: listeners(conn, id, owner, &topic)?, topic })
        })
        .collect()
}

/// Those who hear it: a subscription from elsewhere outlives its link and its exposure, and is not seen meanwhile.
fn listeners(conn: &Connection, id: i64, owner: i64, topic: &TopicAddress) -> Result<Vec<AgentAddress>> {
    let mut out = Vec::new();
    let agents = all(conn, LISTENERS, [id, MOST], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
    for (agent, org) in agents {
        if org == owner || links::exposes_topic(conn, owner, org, ExposeKind::Sub, topic)? {
            out.push(stored(&agent, "agent address")?);
        }
    }
    Ok(out)
}

/// The session in which an agent hears a topic. Closed, it gets another.
pub(super) fn session(
    conn: &Connection,
    topic: i64,
    agent: i64,
    address: &TopicAddress,
    now: Timestamp,
) -> Result<i64> {
    let found: Option<(i64, bool)> =
        one(conn, SESSION_OF, [topic, agent], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if let Some((session, true)) = found {
        return Ok(session);
    }
    let session = sessions::open(conn, agent, now)?;
    sessions::set_title(conn, agent, session, &address.to_string())?;
    execute(conn, SET_SESSION, [topic, agent, session])?;
    Ok(session)
}
