//! The agents somebody reaches: those of their organisations, and what linked ones expose to them.

use rusqlite::{Connection, params};

use super::agents::{Agent, AgentRow};
use super::{Result, all, sessions};
use crate::store::relay::{AgentView, DirectoryQuery, PersonId};

statements! {
    ORGS = "SELECT org FROM members WHERE person = ?1";
    OF_ORG = "
        SELECT agents.id, agents.org, agents.person, agents.address, agents.description,
            agents.adapter, agents.listening, agents.policy, agents.node, nodes.name, agents.last_take
        FROM agents LEFT JOIN nodes ON nodes.id = agents.node
        WHERE agents.org = ?1 AND agents.removed = 0 AND agents.address >= ?2 AND agents.address < ?3
        ORDER BY agents.address LIMIT ?4";
    ONLINE_OF_ORG = "
        SELECT agents.id, agents.org, agents.person, agents.address, agents.description,
            agents.adapter, agents.listening, agents.policy, agents.node, nodes.name, agents.last_take
        FROM agents LEFT JOIN nodes ON nodes.id = agents.node
        WHERE agents.org = ?1 AND agents.removed = 0 AND agents.last_take >= ?2
        ORDER BY agents.last_take LIMIT ?3";
    EXPOSED_TO = "
        SELECT link_sides.org, orgs.handle, exposures.pattern FROM members
        CROSS JOIN link_sides AS mine ON mine.org = members.org
        CROSS JOIN links ON links.id = mine.link AND links.state = 'active'
        CROSS JOIN link_sides ON link_sides.org = mine.other AND link_sides.other = mine.org
        CROSS JOIN orgs ON orgs.id = link_sides.org
        CROSS JOIN exposures ON exposures.org = link_sides.org AND exposures.other = link_sides.other
            AND exposures.kind = 'agent'
        WHERE members.person = ?1";
}

/// The most agents one answer lists: enough for any directory somebody reads, and a bound on its size.
const MOST: i64 = 10_000;

pub(super) fn list(conn: &Connection, viewer: PersonId, query: DirectoryQuery) -> Result<Vec<AgentView>> {
    let mut agents = Vec::new();
    for org in all(conn, ORGS, [viewer.0], |row| row.get::<_, i64>(0))? {
        match query.online_since {
            None => agents.extend(in_range(conn, org, "", "\u{7f}")?),
            Some(since) => agents.extend(online(conn, org, since.millis())?),
        }
    }
    let exposed: Vec<(i64, String, String)> =
        all(conn, EXPOSED_TO, [viewer.0], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    for (org, handle, pattern) in exposed {
        let (from, below) = range_of(&handle, &pattern);
        let mut found = in_range(conn, org, &from, &below)?;
        found.retain(|agent| {
            query.online_since.is_none_or(|since| agent.state.last_take.is_some_and(|last| last >= since))
        });
        agents.extend(found);
    }
    agents.sort_by(|one, other| one.state.agent.cmp(&other.state.agent));
    agents.dedup_by_key(|agent| agent.id);
    agents.into_iter().map(|agent| shown(conn, viewer, agent, query.sessions)).collect()
}

fn shown(conn: &Connection, viewer: PersonId, agent: Agent, with_sessions: bool) -> Result<AgentView> {
    let sessions = if with_sessions {
        sessions::shown_to(conn, viewer, &agent, sessions::LISTED_IN_DIRECTORY)?
    } else {
        Vec::new()
    };
    Ok(AgentView { state: agent.state, sessions })
}

fn in_range(conn: &Connection, org: i64, from: &str, below: &str) -> Result<Vec<Agent>> {
    let rows = all(conn, OF_ORG, params![org, from, below, MOST], AgentRow::read)?;
    rows.into_iter().map(AgentRow::parse).collect()
}

fn online(conn: &Connection, org: i64, since: i64) -> Result<Vec<Agent>> {
    let rows = all(conn, ONLINE_OF_ORG, params![org, since, MOST], AgentRow::read)?;
    rows.into_iter().map(AgentRow::parse).collect()
}

/// The addresses a pattern covers, as a range of texts: `team/*` covers everything that starts with `org/team/`.
fn range_of(org: &str, pattern: &str) -> (String, String) {
    match pattern.strip_suffix('*') {
        // '0' follows '/' in ASCII, so this is the first text that no longer starts with the prefix.
        Some(prefix) => {
            let from = format!("{org}/{prefix}");
            let below = format!("{}0", from.trim_end_matches('/'));
            (from, below)
        }
        None => (format!("{org}/{pattern}"), format!("{org}/{pattern}\u{1}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_covers_exactly_what_it_names() {
        let covers = |pattern: &str, address: &str| {
            let (from, below) = range_of("acme", pattern);
            address >= from.as_str() && address < below.as_str()
        };
        assert!(covers("*", "acme/a/b/c") && covers("*", "acme/zz/zz/zz"));
        assert!(
            covers("a/*", "acme/a/b/c") && !covers("a/*", "acme/a0/b/c") && !covers("a/*", "acme/a-b/c/d")
        );
        assert!(covers("a/b/*", "acme/a/b/c") && !covers("a/b/*", "acme/a/b.c/d"));
        assert!(
            covers("a/b/c", "acme/a/b/c")
                && !covers("a/b/c", "acme/a/b/cc")
                && !covers("a/b/c", "acme/a/b/c-d")
        );
    }
}
