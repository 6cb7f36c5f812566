//! What an organisation uses of its plan.

use rusqlite::Connection;

use super::{Result, agents, links, one, orgs, send};
use crate::domain::clock::Timestamp;
use crate::domain::relay::plan::Plans;
use crate::proto::redsyn::address::Name;
use crate::store::relay::{PersonId, Usage};

statements! {
    COUNTS = "SELECT agents, files_bytes, webhooks FROM orgs WHERE id = ?1";
    TODAY = "SELECT messages FROM daily_usage WHERE org = ?1 AND day = ?2";
}

/// For every member.
pub(super) fn of(
    conn: &Connection,
    person: PersonId,
    org: &Name,
    plans: &Plans,
    now: Timestamp,
) -> Result<Usage> {
    let org = orgs::member(conn, person, org)?.org;
    let plan = agents::plan_of(conn, org)?;
    let counts: Option<(i64, i64, i64)> =
        one(conn, COUNTS, [org], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let (agents, files_bytes, webhooks) = counts.unwrap_or_default();
    let messages = one(conn, TODAY, [org, send::day(now)], |row| row.get::<_, i64>(0))?;
    Ok(Usage {
        messages: messages.unwrap_or_default().unsigned_abs(),
        files_bytes: files_bytes.unsigned_abs(),
        agents: agents.unsigned_abs(),
        links: links::count(conn, org)?,
        webhooks: webhooks.unsigned_abs(),
        limits: plans.get(&plan).clone(),
        plan,
    })
}
