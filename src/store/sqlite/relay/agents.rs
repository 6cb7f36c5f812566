//! Agents: announcing one, whose it is, who may see it, which node's key to seal for.

use std::time::Duration;

use rusqlite::{Connection, Row, params};
use serde_json::{Map, Value};

use super::audit::Change;
use super::people::inserted;
use super::{Result, execute, exists, one, orgs, sessions, stored, webhooks};
use crate::crypto::sign::VerifyingKey;
use crate::domain::clock::Timestamp;
use crate::domain::relay::plan::Plans;
use crate::domain::relay::refusal::{Quota, Refusal};
use crate::proto::redsyn::address::AgentAddress;
use crate::proto::redsyn::keys::KeyAnswer;
use crate::proto::redsyn::policy::Policy;
use crate::store::StoreError;
use crate::store::relay::{AgentState, AgentView, Announced, Announcement, Caller, NodeId, PersonId};

statements! {
    AGENT = "
        SELECT agents.id, agents.org, agents.person, agents.address, agents.description,
            agents.adapter, agents.listening, agents.policy, agents.node, nodes.name, agents.last_take
        FROM agents LEFT JOIN nodes ON nodes.id = agents.node WHERE agents.address = ?1 AND agents.removed = 0";
    /// What a call about one's own agent needs of it, without the texts.
    OWN = "
        SELECT id, org, team, node, last_take FROM agents WHERE address = ?1 AND person = ?2 AND removed = 0";
    INSERT_AGENT = "
        INSERT INTO agents (org, team, person, address, created) VALUES (?1, ?2, ?3, ?4, ?5) RETURNING id";
    COUNT_AGENT = "UPDATE orgs SET agents = agents + 1 WHERE id = ?1 RETURNING agents";
    DESCRIBE = "
        UPDATE agents SET description = coalesce(?2, description), adapter = coalesce(?3, adapter)
        WHERE id = ?1";
    LISTEN = "UPDATE agents SET listening = 1, policy = ?2, node = ?3 WHERE id = ?1";
    STOP_LISTENING = "UPDATE agents SET listening = 0 WHERE id = ?1";
    HEARTBEAT = "UPDATE agents SET last_take = ?2, node = ?3 WHERE id = ?1";
    ORG_PLAN = "
        SELECT people.plan FROM orgs JOIN people ON people.id = orgs.creator WHERE orgs.id = ?1";
    NODE_KEY = "SELECT name, public_key, enc_key, enc_sig FROM nodes WHERE id = ?1";
    REMEMBER_KEY = "
        INSERT INTO keys_served (person, agent, node) VALUES (?1, ?2, ?3)
        ON CONFLICT (person, agent) DO UPDATE SET node = excluded.node WHERE node <> excluded.node";
    KEY_SERVED = "SELECT node FROM keys_served WHERE person = ?1 AND agent = ?2";
    SEEN_OVER_LINK = "
        SELECT 1 FROM members
        CROSS JOIN link_sides ON link_sides.org = ?2 AND link_sides.other = members.org
        CROSS JOIN links ON links.id = link_sides.link AND links.state = 'active'
        CROSS JOIN exposures ON exposures.org = link_sides.org AND exposures.other = link_sides.other
            AND exposures.kind = 'agent' AND exposures.pattern IN (?3, ?4, ?5, ?6)
        WHERE members.person = ?1 LIMIT 1";
}

/// How exactly it is known when an agent took last: one that is busy would be written with each take.
const HEARTBEAT_PRECISION: Duration = Duration::from_secs(1);

/// An agent as it is kept.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) id: i64,
    pub(super) org: i64,
    pub(super) person: i64,
    pub(super) node: Option<i64>,
    pub(super) state: AgentState,
}

/// An agent of the caller.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) id: i64,
    pub(super) org: i64,
    pub(super) team: i64,
    node: Option<i64>,
    last_take: Option<Timestamp>,
}

/// The columns of `AGENT`, before their texts are parsed.
pub(super) struct AgentRow {
    agent: (i64, i64, i64, Option<i64>),
    texts: (String, String, String, String),
    listening: bool,
    node: Option<String>,
    last_take: Option<i64>,
}

impl AgentRow {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            agent: (row.get(0)?, row.get(1)?, row.get(2)?, row.get(8)?),
            texts: (row.get(3)?, row.get(4)?, row.get(5)?, row.get(7)?),
            listening: row.get(6)?,
            node: row.get(9)?,
            last_take: row.get(10)?,
        })
    }

    pub(super) fn parse(self) -> Result<Agent> {
        let (id, org, person, node) = self.agent;
        let (address, description, adapter, policy) = self.texts;
        let state = AgentState {
            agent: stored(&address, "agent address")?,
            description,
            adapter,
            listening: self.listening,
            policy: read_policy(&policy)?,
            node: self.node,
            last_take: self.last_take.map(Timestamp::from_millis),
        };
        Ok(Agent { id, org, person, node, state })
    }
}

fn read_policy(text: &str) -> Result<Policy> {
    let damaged = || StoreError::Damaged("a stored policy cannot be read".into());
    let map: Map<String, Value> = serde_json::from_str(text).map_err(|_| damaged())?;
    Ok(Policy::parse(&map).map_err(|_| damaged())?)
}

pub(super) fn find(conn: &Connection, address: &AgentAddress) -> Result<Option<Agent>> {
    one(conn, AGENT, [address.to_string()], AgentRow::read)?.map(AgentRow::parse).transpose()
}

/// The agent at `address`, if it is `person`'s own.
pub(super) fn find_own(conn: &Connection, person: PersonId, address: &AgentAddress) -> Result<Option<Own>> {
    one(conn, OWN, params![address.to_string(), person.0], |row| {
        let last_take: Option<i64> = row.get(4)?;
        Ok(Own {
            id: row.get(0)?,
            org: row.get(1)?,
            team: row.get(2)?,
            node: row.get(3)?,
            last_take: last_take.map(Timestamp::from_millis),
        })
    })
}

/// The agent at `address`, which must be `person`'s own. Somebody else's looks as it does to any other call.
pub(super) fn own(conn: &Connection, person: PersonId, address: &AgentAddress) -> Result<Own> {
    if let Some(own) = find_own(conn, person, address)? {
        return Ok(own);
    }
    seen_by(conn, person, address)?;
    Err(Refusal::NotYours(address.clone()).into())
}

/// The agent at `address`, if `viewer` may know of it.
pub(super) fn seen_by(conn: &Connection, viewer: PersonId, address: &AgentAddress) -> Result<Agent> {
    let none = || Refusal::NoAgent(address.clone());
    let agent = find(conn, address)?.ok_or_else(none)?;
    if agent.person == viewer.0
        || orgs::is_member(conn, viewer.0, agent.org)?
        || over_link(conn, viewer, &agent)?
    {
        Ok(agent)
    } else {
        Err(none().into())
    }
}

fn over_link(conn: &Connection, viewer: PersonId, agent: &Agent) -> Result<bool> {
    let [all, team, user, exact] = crate::domain::relay::link::patterns_for_agent(&agent.state.agent);
    exists(conn, SEEN_OVER_LINK, params![viewer.0, agent.org, all, team, user, exact])
}

/// The name of the plan an organisation is on: its creator's.
pub(super) fn plan_of(conn: &Connection, org: i64) -> Result<String> {
    let plan = one(conn, ORG_PLAN, [org], |row| row.get(0))?;
    plan.ok_or_else(|| StoreError::Damaged("an organization has no creator".into()).into())
}

pub(super) fn announce(
    conn: &Connection,
    caller: &Caller,
    announcement: Announcement,
    plans: &Plans,
    now: Timestamp,
) -> Result<Announced> {
    let Announcement { agent: address, description, adapter, listening } = announcement;
    let place = own_place(conn, caller.person, &address)?;
    let (agent, created) = match find(conn, &address)? {
        Some(agent) if agent.person != caller.person.0 => return Err(Refusal::NotYours(address).into()),
        Some(agent) => (agent, false),
        None => (create(conn, caller, &address, &place, plans, now)?, true),
    };
    execute(conn, DESCRIBE, params![agent.id, description, adapter])?;
    match listening {
        None => {}
        Some(None) => {
            execute(conn, STOP_LISTENING, [agent.id])?;
        }
        Some(Some(policy)) => listen(conn, caller, &agent, &policy, now)?,
    }
    Ok(Announced { view: view(conn, caller.person, &address)?, created })
}

struct Place {
    org: i64,
    team: i64,
}

/// Checks that `address` is one `person` may use: their handle, in a team they are in.
fn own_place(conn: &Connection, person: PersonId, address: &AgentAddress) -> Result<Place> {
    let member = orgs::member(conn, person, &address.org)?;
    if member.handle != address.user.as_str() {
        return Err(Refusal::NotYours(address.clone()).into());
    }
    let no_team = || Refusal::NoTeam { org: address.org.clone(), team: address.team.clone() };
    let team = orgs::team_called(conn, member.org, &address.team)?.ok_or_else(no_team)?;
    if !orgs::is_in_team(conn, person.0, member.org, team)? {
        return Err(Refusal::NotInTeam(address.team.clone()).into());
    }
    Ok(Place { org: member.org, team })
}

fn create(
    conn: &Connection,
    caller: &Caller,
    address: &AgentAddress,
    place: &Place,
    plans: &Plans,
    now: Timestamp,
) -> Result<Agent> {
    let count = inserted(one(conn, COUNT_AGENT, [place.org], |row| row.get(0))?)?;
    let plan = plan_of(conn, place.org)?;
    if plans.get(&plan).agents.is_some_and(|most| count.unsigned_abs() > most) {
        return Err(Refusal::Quota(Quota::Agents).into());
    }
    let row = params![place.org, place.team, caller.person.0, address.to_string(), now.millis()];
    inserted(one(conn, INSERT_AGENT, row, |row| row.get(0))?)?;
    find(conn, address)?.ok_or_else(|| StoreError::Other("an insert was not seen".into()).into())
}

fn listen(conn: &Connection, caller: &Caller, agent: &Agent, policy: &Policy, now: Timestamp) -> Result<()> {
    execute(conn, LISTEN, params![agent.id, policy.to_value().to_string(), caller.node.0])?;
    if *policy != agent.state.policy {
        let by = agent.state.agent.person().to_string();
        let change = Change { org: Some(agent.org), link: None, person: caller.person.0, by: &by };
        change.record(
            conn,
            now,
            &format!("{by} changed the policy of {}: {}", agent.state.agent, policy.to_value()),
        )?;
    }
    Ok(())
}

/// A take is a sign of life, and makes `node` the one that listened last (A40).
pub(super) fn heartbeat(conn: &Connection, agent: &Own, node: NodeId, now: Timestamp) -> Result<()> {
    let known = agent.node == Some(node.0)
        && agent.last_take.is_some_and(|last| last <= now && now.since(last) < HEARTBEAT_PRECISION);
    if !known {
        execute(conn, HEARTBEAT, params![agent.id, now.millis(), node.0])?;
    }
    Ok(())
}

pub(super) fn view(conn: &Connection, viewer: PersonId, address: &AgentAddress) -> Result<AgentView> {
    let agent = seen_by(conn, viewer, address)?;
    let sessions = sessions::shown_to(conn, viewer, &agent, sessions::LISTED)?;
    Ok(AgentView { state: agent.state, sessions })
}

pub(super) fn serve_key(conn: &Connection, asker: PersonId, address: &AgentAddress) -> Result<KeyAnswer> {
    let agent = seen_by(conn, asker, address)?;
    let no_key = || Refusal::NoKey(address.clone());
    if webhooks::has(conn, agent.id)? {
        return Err(no_key().into());
    }
    let node = agent.node.ok_or_else(no_key)?;
    type Found = (String, Option<String>, Option<String>, Option<String>);
    let found: Option<Found> =
        one(conn, NODE_KEY, [node], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    let Some((name, Some(signing_key), Some(enc_key), Some(enc_sig))) = found else {
        return Err(no_key().into());
    };
    let fingerprint = stored::<VerifyingKey>(&signing_key, "signing key")?.fingerprint();
    execute(conn, REMEMBER_KEY, [asker.0, agent.id, node])?;
    Ok(KeyAnswer { node: name, signing_key, enc_key, enc_sig, fingerprint })
}

/// The node a request sealed by `sender` is for: whose key the relay last gave them, else the one that listened
/// last (A48).
pub(super) fn sealed_for(conn: &Connection, sender: PersonId, agent: &Agent) -> Result<Option<i64>> {
    let served = one(conn, KEY_SERVED, [sender.0, agent.id], |row| row.get(0))?;
    // A webhook has no node: what was sealed for it without asking is pushed as it is.
    if served.is_none() && webhooks::has(conn, agent.id)? { Ok(None) } else { Ok(served.or(agent.node)) }
}
