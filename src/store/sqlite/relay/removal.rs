//! Removing people and nodes. Rows stay: messages refer to them, and a number or a handle must never come to mean
//! somebody else. What goes is everything they could act with.

use rusqlite::{Connection, params};

use super::audit::Change;
use super::tx::Tx;
use super::{Result, all, execute, exists, invites, one, topics, webhooks};
use crate::domain::clock::Timestamp;
use crate::domain::relay::refusal::Refusal;
use crate::store::relay::{NodeId, PersonId};

/// Whoever runs the relay, in the record of changes: people have their organisation before their name there.
const OPERATOR: &str = "operator";

// For operators alone: these may read what they like.
const PERSON: &str = "SELECT 1 FROM people WHERE id = ?1 AND removed = 0";
const CREATED: &str = "SELECT handle FROM orgs WHERE creator = ?1 ORDER BY id LIMIT 1";
const REMOVE_PERSON: &str = "UPDATE people SET removed = 1, email = 'removed p' || id WHERE id = ?1";
const NODES: &str = "SELECT id FROM nodes WHERE person = ?1 AND removed = 0";
const NODE: &str = "SELECT person FROM nodes WHERE id = ?1 AND removed = 0";
/// A random hash is the hash of no token anybody has.
const REMOVE_NODE: &str = "
    UPDATE nodes SET removed = 1, token_hash = randomblob(32), name = name || ' (removed n' || id || ')',
        public_key = NULL, enc_key = NULL, enc_sig = NULL
    WHERE id = ?1";
const AGENTS: &str = "SELECT id, org FROM agents WHERE person = ?1 AND removed = 0";
const REMOVE_AGENT: &str = "UPDATE agents SET removed = 1, listening = 0 WHERE id = ?1";
const ONE_AGENT_LESS: &str = "UPDATE orgs SET agents = agents - 1 WHERE id = ?1";
const LEAVE_TEAMS: &str = "DELETE FROM team_members WHERE person = ?1";
const MEMBER_OF: &str = "
    SELECT orgs.id, orgs.handle || '/' || members.handle FROM members JOIN orgs ON orgs.id = members.org
    WHERE members.person = ?1";
const NO_ADMIN: &str = "UPDATE members SET admin = 0 WHERE person = ?1";

pub(super) fn remove_node(conn: &Connection, node: NodeId, now: Timestamp) -> Result<()> {
    let person = one(conn, NODE, [node.0], |row| row.get(0))?;
    let person = person.ok_or_else(|| Refusal::NoNode(node.to_string()))?;
    execute(conn, REMOVE_NODE, [node.0])?;
    let change = Change { org: None, link: None, person, by: OPERATOR };
    change.record(conn, now, &format!("node {node} was removed with its keys"))
}

/// Their handle in each organisation stays theirs: others have pinned keys for it. What waits for their agents
/// expires, and its senders are told.
pub(super) fn remove_person(tx: &mut Tx<'_>, person: PersonId) -> Result<()> {
    let conn = tx.conn;
    if !exists(conn, PERSON, [person.0])? {
        return Err(Refusal::NoPerson(person.to_string()).into());
    }
    // The plan of an organisation is its creator's.
    if let Some(org) = one(conn, CREATED, [person.0], |row| row.get::<_, String>(0))? {
        return Err(Refusal::Creator(org).into());
    }
    for node in all(conn, NODES, [person.0], |row| row.get(0))? {
        remove_node(conn, NodeId(node), tx.now)?;
    }
    for (agent, org) in
        all(conn, AGENTS, [person.0], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?
    {
        topics::unsubscribe_all(conn, agent)?;
        webhooks::drop_of(tx, agent, org)?;
        execute(conn, REMOVE_AGENT, [agent])?;
        execute(conn, ONE_AGENT_LESS, [org])?;
    }
    invites::drop_of(conn, person)?;
    for (org, who) in all(conn, MEMBER_OF, [person.0], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))? {
        let change = Change { org: Some(org), link: None, person: person.0, by: OPERATOR };
        change.record(conn, tx.now, &format!("{who} was removed from all teams"))?;
    }
    for sql in [LEAVE_TEAMS, NO_ADMIN, REMOVE_PERSON] {
        execute(conn, sql, params![person.0])?;
    }
    Ok(())
}
