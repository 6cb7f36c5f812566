//! Invitations: an admin names an e-mail address and a team; whoever has that address joins with their own token.

use rusqlite::{Connection, params};

use super::orgs::{self, Member};
use super::{Result, all, execute, one, stored};
use crate::domain::clock::Timestamp;
use crate::domain::relay::refusal::Refusal;
use crate::proto::redsyn::address::Name;
use crate::proto::redsyn::email::Email;
use crate::store::StoreError;
use crate::store::relay::{Invite, PersonId};

statements! {
    INVITE = "
        INSERT INTO invites (org, email, team, created) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (email, org) DO UPDATE SET team = excluded.team";
    IS_MEMBER_BY_EMAIL = "
        SELECT 1 FROM people JOIN members ON members.person = people.id AND members.org = ?2
        WHERE people.email = ?1";
    OF_EMAIL = "
        SELECT orgs.handle, teams.handle, invites.created FROM invites JOIN orgs ON orgs.id = invites.org
        JOIN teams ON teams.id = invites.team WHERE invites.email = ?1 ORDER BY invites.org";
    EMAIL_OF = "SELECT email FROM people WHERE id = ?1";
    TAKE = "DELETE FROM invites WHERE email = ?1 AND org = ?2 RETURNING team";
    DROP_OF = "DELETE FROM invites WHERE email = ?1";
    TEAM_CALLED = "SELECT handle FROM teams WHERE id = ?1";
}

// For operators alone: reads everything on purpose.
const ALL: &str = "
    SELECT orgs.handle, teams.handle, invites.created, invites.email FROM invites
    JOIN orgs ON orgs.id = invites.org JOIN teams ON teams.id = invites.team
    ORDER BY invites.created, invites.email";

pub(super) fn invite(
    conn: &Connection,
    person: PersonId,
    org: &Name,
    email: &Email,
    team: &Name,
    now: Timestamp,
) -> Result<()> {
    let admin = orgs::admin(conn, person, org)?;
    let no_team = || Refusal::NoTeam { org: org.clone(), team: team.clone() };
    let team_id = orgs::team_called(conn, admin.org, team)?.ok_or_else(no_team)?;
    if super::exists(conn, IS_MEMBER_BY_EMAIL, params![email.as_str(), admin.org])? {
        return Err(Refusal::MemberAlready(org.clone()).into());
    }
    execute(conn, INVITE, params![admin.org, email.as_str(), team_id, now.millis()])?;
    orgs::record(conn, &admin, person, org, now, &format!("invited {email} into the team {team}"))
}

/// Uses up the invitation. Without one, the organisation reads like one that does not exist.
pub(super) fn join(
    conn: &Connection,
    person: PersonId,
    org: &Name,
    me: &Name,
    now: Timestamp,
) -> Result<Name> {
    let no_org = || Refusal::NoOrg(org.clone());
    let org_id = orgs::org_called(conn, org)?.ok_or_else(no_org)?;
    if orgs::is_member(conn, person.0, org_id)? {
        return Err(Refusal::MemberAlready(org.clone()).into());
    }
    let email = email_of(conn, person)?.ok_or_else(no_org)?;
    let team: i64 = one(conn, TAKE, params![email.as_str(), org_id], |row| row.get(0))?.ok_or_else(no_org)?;
    if orgs::member_called(conn, org_id, me)?.is_some() {
        return Err(Refusal::Taken(format!("{org}/{me}")).into());
    }
    orgs::add_member(conn, person, org_id, me, team)?;
    let handle: Option<String> = one(conn, TEAM_CALLED, [team], |row| row.get(0))?;
    let handle: Name =
        stored(&handle.ok_or_else(|| StoreError::Damaged("an invitation has no team".into()))?, "team")?;
    let member = Member { org: org_id, handle: me.to_string(), admin: false };
    orgs::record(conn, &member, person, org, now, &format!("joined the team {handle}"))?;
    Ok(handle)
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<(String, String, i64)> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
}

fn parse(email: String, (org, team, since): (String, String, i64)) -> Result<Invite> {
    Ok(Invite {
        org: stored(&org, "organization")?,
        team: stored(&team, "team")?,
        email,
        since: Timestamp::from_millis(since),
    })
}

pub(super) fn of_person(conn: &Connection, person: PersonId) -> Result<Vec<Invite>> {
    let Some(email) = email_of(conn, person)? else { return Ok(Vec::new()) };
    let rows = all(conn, OF_EMAIL, [email.as_str()], read)?;
    rows.into_iter().map(|row| parse(email.to_string(), row)).collect()
}

/// Nobody can be invited any more under the address of somebody who was removed.
pub(super) fn drop_of(conn: &Connection, person: PersonId) -> Result<()> {
    if let Some(email) = email_of(conn, person)? {
        execute(conn, DROP_OF, [email.as_str()])?;
    }
    Ok(())
}

/// Read as it is typed: an address that an older version kept twice, in two spellings, is one here.
fn email_of(conn: &Connection, person: PersonId) -> Result<Option<Email>> {
    let email: Option<String> = one(conn, EMAIL_OF, [person.0], |row| row.get(0))?;
    Ok(email.and_then(|email| email.parse().ok()))
}

pub(super) fn list(conn: &Connection) -> Result<Vec<Invite>> {
    let rows = all(conn, ALL, [], |row| Ok((row.get::<_, String>(3)?, read(row)?)))?;
    rows.into_iter().map(|(email, row)| parse(email, row)).collect()
}
