//! Organisations, members and teams.

use rusqlite::{Connection, params};

use super::audit::Change;
use super::people::inserted;
use super::{Result, all, execute, exists, one, stored};
use crate::domain::clock::Timestamp;
use crate::domain::relay::refusal::Refusal;
use crate::proto::redsyn::address::Name;
use crate::store::relay::{Home, OrgView, PersonId};

statements! {
    ORG = "SELECT id FROM orgs WHERE handle = ?1";
    INSERT_ORG = "INSERT INTO orgs (handle, creator, version, created) VALUES (?1, ?2, ?3, ?4) RETURNING id";
    MEMBER = "
        SELECT orgs.id, members.handle, members.admin FROM orgs
        JOIN members ON members.person = ?2 AND members.org = orgs.id WHERE orgs.handle = ?1";
    IS_MEMBER = "SELECT 1 FROM members WHERE person = ?1 AND org = ?2";
    MEMBER_CALLED = "SELECT person FROM members WHERE org = ?1 AND handle = ?2";
    INSERT_MEMBER = "INSERT INTO members (org, person, handle, admin) VALUES (?1, ?2, ?3, ?4)";
    TEAM = "SELECT id FROM teams WHERE org = ?1 AND handle = ?2";
    INSERT_TEAM = "INSERT INTO teams (org, handle) VALUES (?1, ?2) RETURNING id";
    IN_TEAM = "SELECT 1 FROM team_members WHERE person = ?1 AND org = ?2 AND team = ?3";
    JOIN_TEAM = "INSERT OR IGNORE INTO team_members (person, org, team) VALUES (?1, ?2, ?3)";
    ORGS_OF = "
        SELECT orgs.id, orgs.handle, members.handle, members.admin, orgs.version FROM members
        JOIN orgs ON orgs.id = members.org WHERE members.person = ?1 ORDER BY members.org";
    TEAMS_OF = "
        SELECT teams.handle FROM team_members JOIN teams ON teams.id = team_members.team
        WHERE team_members.person = ?1 AND team_members.org = ?2 ORDER BY team_members.team";
}

const GENERAL: &str = "general";

/// A person in one of their organisations.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) org: i64,
    pub(super) handle: String,
    pub(super) admin: bool,
}

/// `person` as a member of `org`. An organisation one is not in looks like one that does not exist.
pub(super) fn member(conn: &Connection, person: PersonId, org: &Name) -> Result<Member> {
    let member = one(conn, MEMBER, params![org.as_str(), person.0], |row| {
        Ok(Member { org: row.get(0)?, handle: row.get(1)?, admin: row.get(2)? })
    })?;
    member.ok_or_else(|| Refusal::NoOrg(org.clone()).into())
}

pub(super) fn admin(conn: &Connection, person: PersonId, org: &Name) -> Result<Member> {
    let member = member(conn, person, org)?;
    if member.admin { Ok(member) } else { Err(Refusal::NotAdmin(org.clone()).into()) }
}

pub(super) fn is_member(conn: &Connection, person: i64, org: i64) -> Result<bool> {
    exists(conn, IS_MEMBER, [person, org])
}

pub(super) fn org_called(conn: &Connection, org: &Name) -> Result<Option<i64>> {
    one(conn, ORG, [org.as_str()], |row| row.get(0))
}

pub(super) fn member_called(conn: &Connection, org: i64, handle: &Name) -> Result<Option<i64>> {
    one(conn, MEMBER_CALLED, params![org, handle.as_str()], |row| row.get(0))
}

pub(super) fn team_called(conn: &Connection, org: i64, team: &Name) -> Result<Option<i64>> {
    one(conn, TEAM, params![org, team.as_str()], |row| row.get(0))
}

pub(super) fn is_in_team(conn: &Connection, person: i64, org: i64, team: i64) -> Result<bool> {
    exists(conn, IN_TEAM, [person, org, team])
}

/// The teams of `org` that `person` is in.
pub(super) fn teams_of(conn: &Connection, person: i64, org: i64) -> Result<Vec<Name>> {
    let teams = all(conn, TEAMS_OF, [person, org], |row| row.get::<_, String>(0))?;
    teams.iter().map(|team| stored(team, "team")).collect()
}

pub(super) fn orgs_of(conn: &Connection, person: PersonId) -> Result<Vec<OrgView>> {
    type Found = (i64, String, String, bool, String);
    let rows: Vec<Found> = all(conn, ORGS_OF, [person.0], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
    })?;
    rows.into_iter()
        .map(|(id, org, me, admin, version)| {
            let teams = teams_of(conn, person.0, id)?;
            Ok(OrgView {
                org: stored(&org, "organization")?,
                me: stored(&me, "handle")?,
                admin,
                version,
                teams,
            })
        })
        .collect()
}

pub(super) fn create(
    conn: &Connection,
    creator: PersonId,
    org: &Name,
    me: &Name,
    version: &str,
    now: Timestamp,
) -> Result<i64> {
    if org_called(conn, org)?.is_some() {
        return Err(Refusal::Taken(org.to_string()).into());
    }
    let row = params![org.as_str(), creator.0, version, now.millis()];
    let id = inserted(one(conn, INSERT_ORG, row, |row| row.get(0))?)?;
    execute(conn, INSERT_MEMBER, params![id, creator.0, me.as_str(), true])?;
    let general = inserted(one(conn, INSERT_TEAM, params![id, GENERAL], |row| row.get(0))?)?;
    execute(conn, JOIN_TEAM, [creator.0, id, general])?;
    let by = format!("{org}/{me}");
    Change { org: Some(id), link: None, person: creator.0, by: &by }.record(
        conn,
        now,
        &format!("{by} created {org}"),
    )?;
    Ok(id)
}

pub(super) fn create_team(
    conn: &Connection,
    person: PersonId,
    org: &Name,
    team: &Name,
    now: Timestamp,
) -> Result<()> {
    let admin = admin(conn, person, org)?;
    if team_called(conn, admin.org, team)?.is_some() {
        return Err(Refusal::Taken(format!("{org}/{team}")).into());
    }
    add_team(conn, admin.org, team, person)?;
    record(conn, &admin, person, org, now, &format!("created the team {team}"))
}

/// Makes a team with its first member.
fn add_team(conn: &Connection, org: i64, team: &Name, first: PersonId) -> Result<i64> {
    let id = inserted(one(conn, INSERT_TEAM, params![org, team.as_str()], |row| row.get(0))?)?;
    execute(conn, JOIN_TEAM, [first.0, org, id])?;
    Ok(id)
}

pub(super) fn add_team_member(
    conn: &Connection,
    person: PersonId,
    org: &Name,
    team: &Name,
    who: &Name,
    now: Timestamp,
) -> Result<()> {
    let admin = admin(conn, person, org)?;
    let no_team = || Refusal::NoTeam { org: org.clone(), team: team.clone() };
    let team_id = team_called(conn, admin.org, team)?.ok_or_else(no_team)?;
    let no_member = || Refusal::NoMember { org: org.clone(), who: who.clone() };
    let member = member_called(conn, admin.org, who)?.ok_or_else(no_member)?;
    execute(conn, JOIN_TEAM, [member, admin.org, team_id])?;
    record(conn, &admin, person, org, now, &format!("put {who} into the team {team}"))
}

pub(super) fn record(
    conn: &Connection,
    admin: &Member,
    person: PersonId,
    org: &Name,
    now: Timestamp,
    what: &str,
) -> Result<()> {
    let by = format!("{org}/{}", admin.handle);
    Change { org: Some(admin.org), link: None, person: person.0, by: &by }.record(
        conn,
        now,
        &format!("{by} {what}"),
    )
}

/// Makes a person a member, in one team.
pub(super) fn add_member(conn: &Connection, person: PersonId, org: i64, me: &Name, team: i64) -> Result<()> {
    execute(conn, INSERT_MEMBER, params![org, person.0, me.as_str(), false])?;
    execute(conn, JOIN_TEAM, [person.0, org, team])?;
    Ok(())
}

/// The organisation, membership and team of an embedded relay, each made when missing.
pub(super) fn ensure_home(conn: &Connection, person: PersonId, home: &Home, now: Timestamp) -> Result<()> {
    let org = match org_called(conn, &home.org)? {
        None => create(conn, person, &home.org, &home.user, &home.version, now)?,
        Some(org) => org,
    };
    match member_called(conn, org, &home.user)? {
        Some(member) if member == person.0 => {}
        Some(_) => return Err(Refusal::Taken(format!("{}/{}", home.org, home.user)).into()),
        None if is_member(conn, person.0, org)? => {
            return Err(Refusal::NoMember { org: home.org.clone(), who: home.user.clone() }.into());
        }
        None => {
            execute(conn, INSERT_MEMBER, params![org, person.0, home.user.as_str(), false])?;
        }
    }
    match team_called(conn, org, &home.team)? {
        None => add_team(conn, org, &home.team, person).map(|_| ()),
        Some(team) => execute(conn, JOIN_TEAM, [person.0, org, team]).map(|_| ()),
    }
}
