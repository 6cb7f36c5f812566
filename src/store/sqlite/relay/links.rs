//! Links between organisations. Each side is a row of its own, so that either finds it by its own name.

use rusqlite::{Connection, params};

use super::audit::{self, Change};
use super::people::inserted;
use super::{Result, agents, all, execute, exists, one, orgs, stored};
use crate::domain::clock::Timestamp;
use crate::domain::relay::link::{ExposeKind, Exposure, LinkRules, patterns_for_agent, patterns_for_topic};
use crate::domain::relay::plan::Plans;
use crate::domain::relay::refusal::{Quota, Refusal};
use crate::proto::redsyn::address::{AgentAddress, Name, TopicAddress};
use crate::store::StoreError;
use crate::store::relay::{LinkRulesChange, LinkSide, LinkState, LinkView, PersonId};

statements! {
    LINK = "
        SELECT links.id, links.state, mine.accepted, theirs.accepted FROM link_sides AS mine
        JOIN links ON links.id = mine.link
        JOIN link_sides AS theirs ON theirs.org = mine.other AND theirs.other = mine.org
        WHERE mine.org = ?1 AND mine.other = ?2";
    SIDE = "SELECT accepted, signed_only, ips FROM link_sides WHERE org = ?1 AND other = ?2";
    ACTIVE_RULES = "
        SELECT link_sides.signed_only, link_sides.ips FROM link_sides
        JOIN links ON links.id = link_sides.link AND links.state = 'active'
        WHERE link_sides.org = ?1 AND link_sides.other = ?2";
    JOINS = "
        SELECT 1 FROM members
        CROSS JOIN link_sides ON link_sides.org = members.org AND link_sides.other = ?2
        CROSS JOIN links ON links.id = link_sides.link AND links.state = 'active'
        WHERE members.person = ?1 LIMIT 1";
    EXPOSURES = "SELECT kind, pattern FROM exposures WHERE org = ?1 AND other = ?2 ORDER BY kind, pattern";
    EXPOSED = "
        SELECT 1 FROM link_sides JOIN links ON links.id = link_sides.link AND links.state = 'active'
        CROSS JOIN exposures ON exposures.org = link_sides.org AND exposures.other = link_sides.other
            AND exposures.kind = 'agent' AND exposures.pattern IN (?3, ?4, ?5, ?6)
        WHERE link_sides.org = ?1 AND link_sides.other = ?2 LIMIT 1";
    EXPOSED_TOPIC = "
        SELECT 1 FROM link_sides JOIN links ON links.id = link_sides.link AND links.state = 'active'
        CROSS JOIN exposures ON exposures.org = link_sides.org AND exposures.other = link_sides.other
            AND exposures.kind = ?3 AND exposures.pattern IN (?4, ?5, ?6)
        WHERE link_sides.org = ?1 AND link_sides.other = ?2 LIMIT 1";
    COUNT_LINKS = "
        SELECT count(*) FROM link_sides JOIN links ON links.id = link_sides.link
        WHERE link_sides.org = ?1
            AND (links.state = 'active' OR links.state = 'proposed' AND link_sides.accepted = 1)";
    INSERT_LINK = "INSERT INTO links (state) VALUES ('proposed') RETURNING id";
    INSERT_SIDE = "INSERT INTO link_sides (org, other, link, accepted) VALUES (?1, ?2, ?3, ?4)";
    SET_STATE = "UPDATE links SET state = ?2 WHERE id = ?1";
    RESET_SIDE = "
        UPDATE link_sides SET accepted = ?3, signed_only = 1, ips = '' WHERE org = ?1 AND other = ?2";
    ACCEPT = "UPDATE link_sides SET accepted = 1 WHERE org = ?1 AND other = ?2";
    SET_RULES = "UPDATE link_sides SET signed_only = ?3, ips = ?4 WHERE org = ?1 AND other = ?2";
    EXPOSE = "INSERT OR IGNORE INTO exposures (org, other, kind, pattern) VALUES (?1, ?2, ?3, ?4)";
    UNEXPOSE = "DELETE FROM exposures WHERE org = ?1 AND other = ?2 AND kind = ?3 AND pattern = ?4";
    UNEXPOSE_ALL = "DELETE FROM exposures WHERE org = ?1 AND other = ?2";
    MY_LINKS = "
        SELECT members.org, mine.handle, link_sides.other, theirs.handle FROM members
        CROSS JOIN link_sides ON link_sides.org = members.org
        CROSS JOIN orgs AS mine ON mine.id = link_sides.org
        CROSS JOIN orgs AS theirs ON theirs.id = link_sides.other
        WHERE members.person = ?1 ORDER BY members.org, link_sides.other";
}

struct Found {
    id: i64,
    state: LinkState,
    accepted: bool,
}

impl std::str::FromStr for LinkState {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        [Self::Proposed, Self::Active, Self::Revoked]
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or(())
    }
}

/// Two organisations of a link, seen from the first.
struct Pair<'a> {
    org: i64,
    other: i64,
    org_name: &'a Name,
    other_name: &'a Name,
}

impl Pair<'_> {
    fn find(&self, conn: &Connection) -> Result<Option<Found>> {
        let found: Option<(i64, String, bool)> =
            one(conn, LINK, [self.org, self.other], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        found
            .map(|(id, state, accepted)| Ok(Found { id, state: stored(&state, "link")?, accepted }))
            .transpose()
    }

    fn view(&self, conn: &Connection) -> Result<LinkView> {
        let found = self.find(conn)?.ok_or_else(|| self.no_link())?;
        let mine = side(conn, self.org, self.other, self.org_name)?;
        let theirs = side(conn, self.other, self.org, self.other_name)?;
        Ok(LinkView {
            org: self.org_name.clone(),
            other: self.other_name.clone(),
            state: found.state,
            sides: [mine, theirs],
            log: audit::of_link(conn, found.id)?,
        })
    }

    fn no_link(&self) -> Refusal {
        Refusal::NoLink(self.org_name.clone(), self.other_name.clone())
    }

    /// The link, unless it was revoked: then it is as if there were none.
    fn living(&self, conn: &Connection) -> Result<Found> {
        let found = self.find(conn)?.filter(|found| found.state != LinkState::Revoked);
        found.ok_or_else(|| self.no_link().into())
    }
}

/// Whoever changes a link.
struct Admin<'a> {
    person: PersonId,
    by: String,
    pair: Pair<'a>,
}

impl<'a> Admin<'a> {
    /// `unknown` is the refusal for another organisation that does not exist.
    fn new(
        conn: &Connection,
        person: PersonId,
        org: &'a Name,
        other: &'a Name,
        unknown: Refusal,
    ) -> Result<Self> {
        let admin = orgs::admin(conn, person, org)?;
        let other_id = orgs::org_called(conn, other)?.ok_or(unknown)?;
        let pair = Pair { org: admin.org, other: other_id, org_name: org, other_name: other };
        Ok(Self { person, by: format!("{org}/{}", admin.handle), pair })
    }

    /// For a link that should be there: whether there is such an organisation at all, its absence does not tell.
    fn of_link(conn: &Connection, person: PersonId, org: &'a Name, other: &'a Name) -> Result<Self> {
        Self::new(conn, person, org, other, Refusal::NoLink(org.clone(), other.clone()))
    }

    fn record(&self, conn: &Connection, link: i64, now: Timestamp, what: &str) -> Result<()> {
        let change =
            Change { org: Some(self.pair.org), link: Some(link), person: self.person.0, by: &self.by };
        change.record(conn, now, &format!("{} {what}", self.pair.org_name))
    }
}

fn side(conn: &Connection, org: i64, other: i64, name: &Name) -> Result<LinkSide> {
    let row: Option<(bool, bool, String)> =
        one(conn, SIDE, [org, other], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let (accepted, signed_only, ips) =
        row.ok_or_else(|| StoreError::Damaged("a link lacks a side".into()))?;
    let exposures: Vec<(String, String)> =
        all(conn, EXPOSURES, [org, other], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let exposes = exposures
        .iter()
        .map(|(kind, pattern)| Exposure::parse(kind, pattern))
        .collect::<std::result::Result<_, _>>()
        .map_err(|_| StoreError::Damaged("a stored exposure cannot be read".into()))?;
    Ok(LinkSide { org: name.clone(), accepted, rules: read_rules(signed_only, &ips)?, exposes })
}

fn read_rules(signed_only: bool, ips: &str) -> Result<LinkRules> {
    let ips =
        LinkRules::parse_ips(ips).map_err(|_| StoreError::Damaged("stored ips cannot be read".into()))?;
    Ok(LinkRules { signed_only, ips })
}

/// What `org` lets in from `other`, when their link is active.
pub(super) fn active_rules(conn: &Connection, org: i64, other: i64) -> Result<Option<LinkRules>> {
    let row: Option<(bool, String)> =
        one(conn, ACTIVE_RULES, [org, other], |row| Ok((row.get(0)?, row.get(1)?)))?;
    row.map(|(signed_only, ips)| read_rules(signed_only, &ips)).transpose()
}

/// Whether an active link joins one of a person's organisations with `org`.
pub(super) fn joins(conn: &Connection, person: PersonId, org: i64) -> Result<bool> {
    exists(conn, JOINS, [person.0, org])
}

pub(super) fn exposes_agent(conn: &Connection, org: i64, other: i64, agent: &AgentAddress) -> Result<bool> {
    let [every, team, user, exact] = patterns_for_agent(agent);
    exists(conn, EXPOSED, params![org, other, every, team, user, exact])
}

/// Whether `org`, whose topic it is, lets `other` publish to it or listen to it.
pub(super) fn exposes_topic(
    conn: &Connection,
    org: i64,
    other: i64,
    kind: ExposeKind,
    topic: &TopicAddress,
) -> Result<bool> {
    let [every, team, exact] = patterns_for_topic(topic);
    exists(conn, EXPOSED_TOPIC, params![org, other, kind.as_str(), every, team, exact])
}

/// The links that count for an organisation's plan (A53).
pub(super) fn count(conn: &Connection, org: i64) -> Result<u64> {
    let links = one(conn, COUNT_LINKS, [org], |row| row.get::<_, i64>(0))?;
    Ok(links.unwrap_or_default().unsigned_abs())
}

pub(super) fn propose_or_accept(
    conn: &Connection,
    person: PersonId,
    org: &Name,
    other: &Name,
    plans: &Plans,
    now: Timestamp,
) -> Result<(LinkView, bool)> {
    let admin = Admin::new(conn, person, org, other, Refusal::NoOrg(other.clone()))?;
    let pair = &admin.pair;
    let found = pair.find(conn)?;
    let waiting = match &found {
        Some(
            Found { state: LinkState::Active, .. } | Found { state: LinkState::Proposed, accepted: true, .. },
        ) => {
            return Ok((pair.view(conn)?, false));
        }
        Some(found) if found.state == LinkState::Proposed => Some(found.id),
        _ => None,
    };
    let links = count(conn, pair.org)?;
    let most = plans.get(&agents::plan_of(conn, pair.org)?).links;
    if most.is_some_and(|most| links >= most) {
        return Err(Refusal::Quota(Quota::Links).into());
    }
    if let Some(link) = waiting {
        execute(conn, ACCEPT, [pair.org, pair.other])?;
        execute(conn, SET_STATE, params![link, LinkState::Active.as_str()])?;
        admin.record(conn, link, now, "accepted the link")?;
        return Ok((pair.view(conn)?, false));
    }
    let link = propose(conn, pair, found.map(|found| found.id))?;
    admin.record(conn, link, now, "proposed the link")?;
    Ok((pair.view(conn)?, true))
}

/// A new proposal, also after a revocation, starts with nothing exposed and the default rules (A55).
fn propose(conn: &Connection, pair: &Pair<'_>, revoked: Option<i64>) -> Result<i64> {
    let sides = [(pair.org, pair.other, true), (pair.other, pair.org, false)];
    let Some(link) = revoked else {
        let link = inserted(one(conn, INSERT_LINK, [], |row| row.get(0))?)?;
        for (org, other, accepted) in sides {
            execute(conn, INSERT_SIDE, params![org, other, link, accepted])?;
        }
        return Ok(link);
    };
    execute(conn, SET_STATE, params![link, LinkState::Proposed.as_str()])?;
    for (org, other, accepted) in sides {
        execute(conn, RESET_SIDE, params![org, other, accepted])?;
        execute(conn, UNEXPOSE_ALL, [org, other])?;
    }
    Ok(link)
}

pub(super) fn expose(
    conn: &Connection,
    person: PersonId,
    (org, other): (&Name, &Name),
    exposure: &Exposure,
    on: bool,
    now: Timestamp,
) -> Result<LinkView> {
    let admin = Admin::of_link(conn, person, org, other)?;
    let pair = &admin.pair;
    let link = pair.living(conn)?;
    let (sql, verb) = if on { (EXPOSE, "exposes") } else { (UNEXPOSE, "no longer exposes") };
    let changed =
        execute(conn, sql, params![pair.org, pair.other, exposure.kind.as_str(), exposure.pattern])?;
    if changed > 0 {
        admin.record(conn, link.id, now, &format!("{verb} {} {}", exposure.kind, exposure.pattern))?;
    }
    pair.view(conn)
}

pub(super) fn set_rules(
    conn: &Connection,
    person: PersonId,
    (org, other): (&Name, &Name),
    change: LinkRulesChange,
    now: Timestamp,
) -> Result<LinkView> {
    let admin = Admin::of_link(conn, person, org, other)?;
    let pair = &admin.pair;
    let link = pair.living(conn)?;
    let mut rules = side(conn, pair.org, pair.other, org)?.rules;
    change.apply(&mut rules);
    execute(conn, SET_RULES, params![pair.org, pair.other, rules.signed_only, rules.ips_text()])?;
    let what = format!("set its rules: signed_only {}, ips {:?}", rules.signed_only, rules.ips_text());
    admin.record(conn, link.id, now, &what)?;
    pair.view(conn)
}

pub(super) fn revoke(
    conn: &Connection,
    person: PersonId,
    org: &Name,
    other: &Name,
    now: Timestamp,
) -> Result<LinkView> {
    let admin = Admin::of_link(conn, person, org, other)?;
    let link = admin.pair.living(conn)?;
    execute(conn, SET_STATE, params![link.id, LinkState::Revoked.as_str()])?;
    admin.record(conn, link.id, now, "revoked the link")?;
    admin.pair.view(conn)
}

pub(super) fn links_of(conn: &Connection, person: PersonId) -> Result<Vec<LinkView>> {
    let rows: Vec<(i64, String, i64, String)> =
        all(conn, MY_LINKS, [person.0], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    rows.into_iter()
        .map(|(org, org_name, other, other_name)| {
            let (org_name, other_name) =
                (stored(&org_name, "organization")?, stored(&other_name, "organization")?);
            Pair { org, other, org_name: &org_name, other_name: &other_name }.view(conn)
        })
        .collect()
}
