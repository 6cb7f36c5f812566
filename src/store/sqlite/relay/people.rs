//! People, their nodes, and the keys of nodes.

use rusqlite::{Connection, params};

use super::audit::Change;
use super::{Result, all, execute, one, orgs};
use crate::crypto::sign::VerifyingKey;
use crate::domain::clock::Timestamp;
use crate::domain::relay::refusal::Refusal;
use crate::proto::redsyn::email::Email;
use crate::proto::redsyn::keys::KeyRegistration;
use crate::store::StoreError;
use crate::store::relay::{Caller, Home, NodeId, NodeSummary, Person, PersonId, PersonSummary, TokenHash};

statements! {
    INSERT_PERSON = "INSERT INTO people (email, plan, created) VALUES (?1, ?2, ?3) RETURNING id";
    PERSON_BY_EMAIL = "SELECT id, email, plan FROM people WHERE email = ?1";
    PERSON_EXISTS = "SELECT 1 FROM people WHERE id = ?1 AND removed = 0";
    INSERT_NODE = "INSERT INTO nodes (person, name, token_hash, created) VALUES (?1, ?2, ?3, ?4) RETURNING id";
    NODE_BY_NAME = "SELECT id FROM nodes WHERE person = ?1 AND name = ?2";
    REPLACE_TOKEN = "UPDATE nodes SET token_hash = ?2 WHERE id = ?1";
    CALLER = "
        SELECT nodes.id, nodes.name, nodes.public_key, people.id, people.email FROM nodes
        JOIN people ON people.id = nodes.person WHERE nodes.token_hash = ?1 AND nodes.removed = 0";
    PINNED_VERSION = "
        SELECT orgs.version FROM members JOIN orgs ON orgs.id = members.org
        WHERE members.person = ?1 ORDER BY members.org LIMIT 1";
    NODE_KEY = "SELECT public_key, enc_key, enc_sig, person FROM nodes WHERE id = ?1";
    SET_NODE_KEY = "UPDATE nodes SET public_key = ?2, enc_key = ?3, enc_sig = ?4 WHERE id = ?1";
}

// For operators alone: these read everything on purpose.
const ALL_PEOPLE: &str = "SELECT id, email, plan FROM people WHERE removed = 0 ORDER BY id";
const NODES_OF: &str = "
    SELECT id, name, public_key IS NOT NULL, created FROM nodes WHERE person = ?1 AND removed = 0 ORDER BY id";

pub(super) fn create_person(
    conn: &Connection,
    email: &Email,
    plan: &str,
    now: Timestamp,
) -> Result<PersonId> {
    if by_email(conn, email)?.is_some() {
        return Err(Refusal::Taken(email.to_string()).into());
    }
    inserted(one(conn, INSERT_PERSON, params![email.as_str(), plan, now.millis()], |row| row.get(0))?)
        .map(PersonId)
}

/// What `RETURNING id` gave; an insert always gives it.
pub(super) fn inserted(id: Option<i64>) -> Result<i64> {
    id.ok_or_else(|| StoreError::Other("an insert returned no id".into()).into())
}

pub(super) fn by_email(conn: &Connection, email: &Email) -> Result<Option<Person>> {
    one(conn, PERSON_BY_EMAIL, [email.as_str()], |row| {
        Ok(Person { id: PersonId(row.get(0)?), email: row.get(1)?, plan: row.get(2)? })
    })
}

pub(super) fn list(conn: &Connection) -> Result<Vec<PersonSummary>> {
    let people = all(conn, ALL_PEOPLE, [], |row| {
        Ok(Person { id: PersonId(row.get(0)?), email: row.get(1)?, plan: row.get(2)? })
    })?;
    people
        .into_iter()
        .map(|person| {
            let nodes = all(conn, NODES_OF, [person.id.0], |row| {
                Ok(NodeSummary {
                    id: NodeId(row.get(0)?),
                    name: row.get(1)?,
                    has_key: row.get(2)?,
                    created: Timestamp::from_millis(row.get(3)?),
                })
            })?;
            Ok(PersonSummary { person, nodes })
        })
        .collect()
}

pub(super) fn create_node(
    conn: &Connection,
    person: PersonId,
    name: &str,
    token: TokenHash,
    now: Timestamp,
) -> Result<NodeId> {
    if !super::exists(conn, PERSON_EXISTS, [person.0])? {
        return Err(Refusal::NoPerson(person.to_string()).into());
    }
    if node_by_name(conn, person, name)?.is_some() {
        return Err(Refusal::Taken(name.to_owned()).into());
    }
    let id =
        one(conn, INSERT_NODE, params![person.0, name, token.as_bytes(), now.millis()], |row| row.get(0))?;
    inserted(id).map(NodeId)
}

fn node_by_name(conn: &Connection, person: PersonId, name: &str) -> Result<Option<NodeId>> {
    one(conn, NODE_BY_NAME, params![person.0, name], |row| row.get(0).map(NodeId))
}

pub(super) fn ensure_home(
    conn: &Connection,
    home: &Home,
    token: TokenHash,
    now: Timestamp,
) -> Result<NodeId> {
    let person = match by_email(conn, &home.email)? {
        Some(person) => person.id,
        None => create_person(conn, &home.email, &home.plan, now)?,
    };
    orgs::ensure_home(conn, person, home, now)?;
    match node_by_name(conn, person, &home.node)? {
        None => create_node(conn, person, &home.node, token, now),
        Some(node) => {
            execute(conn, REPLACE_TOKEN, params![node.0, token.as_bytes()])?;
            Ok(node)
        }
    }
}

pub(super) fn caller(conn: &Connection, token: TokenHash) -> Result<Option<Caller>> {
    let caller = one(conn, CALLER, [token.as_bytes().as_slice()], |row| {
        Ok(Caller {
            node: NodeId(row.get(0)?),
            node_name: row.get(1)?,
            public_key: row.get(2)?,
            person: PersonId(row.get(3)?),
            email: row.get(4)?,
            version: None,
        })
    })?;
    let Some(mut caller) = caller else { return Ok(None) };
    caller.version = one(conn, PINNED_VERSION, [caller.person.0], |row| row.get(0))?;
    Ok(Some(caller))
}

/// Replaces the node's keys. The same signing key again needs no `rotate`; a new one drops an `enc_key` that it
/// does not vouch for (A49).
pub(super) fn register_key(
    conn: &Connection,
    node: NodeId,
    key: KeyRegistration,
    now: Timestamp,
) -> Result<KeyRegistration> {
    type Known = (Option<String>, Option<String>, Option<String>, i64);
    let known =
        one(conn, NODE_KEY, [node.0], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    let (public_key, enc_key, enc_sig, person): Known =
        known.ok_or(StoreError::Other("the node is gone".into()))?;
    let same_key = public_key.as_deref().is_some_and(|known| is_same_key(known, &key.public_key));
    if public_key.is_some() && !same_key && !key.rotate {
        return Err(Refusal::OtherKey.into());
    }
    let known_enc_key = enc_key.clone();
    let (enc_key, enc_sig) = match (&key.enc_key, &key.enc_sig) {
        (Some(enc_key), Some(enc_sig)) => (Some(enc_key.clone()), Some(enc_sig.clone())),
        _ if same_key => (enc_key, enc_sig),
        _ => (None, None),
    };
    execute(conn, SET_NODE_KEY, params![node.0, key.public_key, enc_key, enc_sig])?;
    let by = PersonId(person).to_string();
    let change = Change { org: None, link: None, person, by: &by };
    if !same_key {
        change.record(conn, now, &format!("node {node} registered a signing key"))?;
    } else if enc_key != known_enc_key {
        change.record(conn, now, &format!("node {node} registered an encryption key"))?;
    }
    Ok(KeyRegistration { public_key: key.public_key, enc_key, enc_sig, rotate: false })
}

/// Keys are compared as bytes: base64url may come with or without padding (A1).
fn is_same_key(one: &str, other: &str) -> bool {
    match (one.parse::<VerifyingKey>(), other.parse::<VerifyingKey>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}
