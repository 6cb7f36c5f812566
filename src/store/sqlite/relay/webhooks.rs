//! Webhooks. A push holds its delivery like a take does: while it is under way, and after a failure until the next
//! try, so that its session waits behind it and a crash only means that it is pushed again.

use rusqlite::{Connection, params};

use super::lanes::{ANYBODY, Done};
use super::tx::Tx;
use super::{Result, agents, all, due, execute, inbox, one, stored};
use crate::crypto::secret::Secret;
use crate::domain::clock::Timestamp;
use crate::domain::relay::plan::Plans;
use crate::domain::relay::refusal::{Quota, Refusal};
use crate::proto::redsyn::address::AgentAddress;
use crate::proto::redsyn::ids::TAKES_MAX;
use crate::store::relay::{PersonId, Push, PushId, Pushed, Webhook};

statements! {
    WEBHOOK = "
        SELECT webhooks.url, webhooks.secret, orgs.version FROM webhooks
        JOIN agents ON agents.id = webhooks.agent JOIN orgs ON orgs.id = agents.org
        WHERE webhooks.agent = ?1";
    HAS = "SELECT 1 FROM webhooks WHERE agent = ?1";
    SET = "
        INSERT INTO webhooks (agent, url, secret, created) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (agent) DO UPDATE SET url = excluded.url, secret = excluded.secret";
    REMOVE = "DELETE FROM webhooks WHERE agent = ?1";
    COUNT = "UPDATE orgs SET webhooks = webhooks + ?2 WHERE id = ?1 RETURNING webhooks";
    LANES = "
        SELECT next_seq, lane FROM lanes WHERE agent = ?1 AND owner = ?2 ORDER BY next_seq LIMIT ?3";
    HELD = "
        SELECT agent, attempts FROM deliveries
        WHERE seq = ?1 AND lease_node = ?2 AND lease_until IS NOT NULL AND done IS NULL";
    WAIT = "UPDATE deliveries SET lease_until = ?2 WHERE seq = ?1";
    RELEASED = "
        SELECT seq, lane FROM deliveries
        WHERE agent = ?1 AND lease_until IS NOT NULL AND lease_node = ?2";
    ACCEPTED = "UPDATE agents SET last_take = ?2 WHERE id = ?1";
}

// Once, at start.
const ALL: &str = "SELECT agents.address FROM webhooks JOIN agents ON agents.id = webhooks.agent";

/// Whoever holds a delivery that is being pushed. No node has this number.
const PUSHER: i64 = -2;

pub(super) fn has(conn: &Connection, agent: i64) -> Result<bool> {
    super::exists(conn, HAS, [agent])
}

pub(super) fn all_agents(conn: &Connection) -> Result<Vec<AgentAddress>> {
    let agents = all(conn, ALL, [], |row| row.get::<_, String>(0))?;
    agents.iter().map(|agent| stored(agent, "agent address")).collect()
}

/// A second one replaces the first, secret included (A52).
pub(super) fn set(
    tx: &mut Tx<'_>,
    person: PersonId,
    address: &AgentAddress,
    webhook: &Webhook,
    plans: &Plans,
) -> Result<()> {
    let agent = agents::own(tx.conn, person, address)?;
    if !has(tx.conn, agent.id)? {
        let count = one(tx.conn, COUNT, [agent.org, 1], |row| row.get::<_, i64>(0))?.unwrap_or_default();
        let most = plans.get(&agents::plan_of(tx.conn, agent.org)?).webhooks;
        if most.is_some_and(|most| count.unsigned_abs() > most) {
            return Err(Refusal::Quota(Quota::Webhooks).into());
        }
    }
    let row = params![agent.id, webhook.target.as_str(), webhook.secret.expose(), tx.now.millis()];
    execute(tx.conn, SET, row)?;
    // What waits for its next try goes to the new address at once.
    release_held(tx, agent.id)?;
    tx.wake(agent.id);
    Ok(())
}

/// Back to the mailbox.
pub(super) fn remove(tx: &mut Tx<'_>, person: PersonId, address: &AgentAddress) -> Result<()> {
    let agent = agents::own(tx.conn, person, address)?;
    drop_of(tx, agent.id, agent.org)
}

pub(super) fn drop_of(tx: &mut Tx<'_>, agent: i64, org: i64) -> Result<()> {
    if execute(tx.conn, REMOVE, [agent])? > 0 {
        one(tx.conn, COUNT, [org, -1], |_| Ok(()))?;
        release_held(tx, agent)?;
    }
    Ok(())
}

/// Gives back what is held for a next try. A push that is under way may still arrive; its message then comes twice,
/// which is what its id is for.
fn release_held(tx: &mut Tx<'_>, agent: i64) -> Result<()> {
    let held: Vec<(i64, String)> =
        all(tx.conn, RELEASED, [agent, PUSHER], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (seq, lane) in held {
        tx.release(seq, agent, &lane)?;
    }
    Ok(())
}

/// Holds up to `most` deliveries of an agent until `until` and gives them, at most one of each session.
pub(super) fn claim(
    tx: &mut Tx<'_>,
    address: &AgentAddress,
    most: usize,
    until: Timestamp,
) -> Result<Vec<Push>> {
    let Some(agent) = agents::find(tx.conn, address)? else { return Ok(Vec::new()) };
    let webhook: Option<(String, String, String)> =
        one(tx.conn, WEBHOOK, [agent.id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let Some((url, secret, version)) = webhook else { return Ok(Vec::new()) };
    let secret = Secret::new(secret);
    due::end_leases_of(tx, agent.id)?;
    let limit = i64::try_from(most).unwrap_or(i64::MAX);
    let lanes: Vec<(i64, String)> =
        all(tx.conn, LANES, [agent.id, ANYBODY, limit], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut pushes = Vec::new();
    for (seq, lane) in lanes {
        let Some(leased) = tx.lease(seq, until, PUSHER)? else {
            due::give_up(tx, seq, Done::Expired)?;
            // The lane may have another one: look again.
            tx.wake(agent.id);
            continue;
        };
        if let Some(delivered) = inbox::delivered(tx, seq, leased)? {
            let (url, secret, version) = (url.clone(), secret.clone(), version.clone());
            pushes.push(Push { delivery: PushId(seq), delivered, url, secret, version });
        }
        tx.refresh_lane(agent.id, &lane)?;
    }
    Ok(pushes)
}

/// Settles a push, unless its delivery ended or went elsewhere meanwhile.
pub(super) fn settle(tx: &mut Tx<'_>, PushId(seq): PushId, how: Pushed) -> Result<()> {
    let held: Option<(i64, u32)> = one(tx.conn, HELD, [seq, PUSHER], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let Some((agent, attempts)) = held else { return Ok(()) };
    match how {
        Pushed::Taken => {
            execute(tx.conn, ACCEPTED, [agent, tx.now.millis()])?;
            tx.end(seq, Done::Confirmed)?;
        }
        Pushed::Failed { .. } if attempts >= TAKES_MAX => due::give_up(tx, seq, Done::Abandoned)?,
        Pushed::Failed { again } => {
            execute(tx.conn, WAIT, [seq, again.millis()])?;
            tx.due_at(again);
        }
    }
    tx.wake(agent);
    Ok(())
}
