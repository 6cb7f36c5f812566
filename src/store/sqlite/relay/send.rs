//! Accepting an envelope: every rule is asked before anything of it is kept, all in one transaction. `request` and
//! `answer` decide where it goes.

use std::time::Duration;

use rusqlite::params;

use super::agents::{self, Own};
use super::files::KeptFile;
use super::lanes::NewDelivery;
use super::messages::{self, NewMessage};
use super::people::inserted;
use super::tx::Tx;
use super::{Result, answer, events, execute, links, one, orgs, request};
use crate::domain::clock::Timestamp;
use crate::domain::relay::plan::{Plan, Plans};
use crate::domain::relay::refusal::{Quota, Refusal};
use crate::proto::redsyn::address::Name;
use crate::proto::redsyn::ids::TTL_DEFAULT_SECS;
use crate::store::relay::{Draft, Receipt, Route, Sent, Signed};

statements! {
    COUNT_MESSAGE = "
        INSERT INTO daily_usage (org, day, messages) VALUES (?1, ?2, 1)
        ON CONFLICT (org, day) DO UPDATE SET messages = messages + 1 RETURNING messages";
    FORGET_DAYS = "DELETE FROM daily_usage WHERE org = ?1 AND day < ?2";
    USE_SPACE = "UPDATE orgs SET files_bytes = files_bytes + ?2 WHERE id = ?1 RETURNING files_bytes";
}

const SECS_PER_DAY: i64 = 24 * 60 * 60;

pub(super) fn send(tx: &mut Tx<'_>, draft: &Draft, file: Option<&KeptFile>, plans: &Plans) -> Result<Sent> {
    if let Some(receipt) = messages::receipt(tx.conn, draft.sender.person, &draft.id)? {
        return Ok(Sent { receipt, duplicate: true });
    }
    let sender = sender(tx, draft)?;
    if let Err(reason) = &draft.signature {
        return Err(Refusal::Signature(reason.clone()).into());
    }
    let plan = plans.get(&agents::plan_of(tx.conn, sender.org)?);
    let outgoing = Outgoing { draft, sender: &sender, file, plan };
    let receipt = match &draft.route {
        Route::Request { to } => request::place(&outgoing, tx, to)?,
        Route::Answer { to_request } => answer::place(&outgoing, tx, to_request)?,
        Route::Event { topic } => events::place(&outgoing, tx, topic)?,
    };
    Ok(Sent { receipt, duplicate: false })
}

/// `from` must be an announced agent of the caller, who must still be in its team.
fn sender(tx: &Tx<'_>, draft: &Draft) -> Result<Own> {
    let address = &draft.from.agent;
    let person = draft.sender.person;
    let Some(agent) = agents::find_own(tx.conn, person, address)? else {
        return Err(match agents::find(tx.conn, address)? {
            Some(agent) if orgs::is_member(tx.conn, person.0, agent.org)? => {
                Refusal::NotYours(address.clone())
            }
            _ => Refusal::NotAnnounced(address.clone()),
        }
        .into());
    };
    if !orgs::is_in_team(tx.conn, person.0, agent.org, agent.team)? {
        return Err(Refusal::NotInTeam(address.team.clone()).into());
    }
    Ok(agent)
}

/// Counts the message and its files against the plan; refused, the count is undone with everything else. To be called
/// when nothing else can refuse the message any more: undoing costs the calls that share its commit, too.
fn count(tx: &Tx<'_>, org: i64, plan: &Plan, file: Option<&KeptFile>) -> Result<()> {
    let day = day(tx.now);
    let messages = inserted(one(tx.conn, COUNT_MESSAGE, [org, day], |row| row.get(0))?)?;
    if messages == 1 {
        execute(tx.conn, FORGET_DAYS, [org, day])?;
    }
    if plan.messages_per_day.is_some_and(|most| messages.unsigned_abs() > most) {
        return Err(Refusal::Quota(Quota::Messages).into());
    }
    if let Some(file) = file {
        let bytes = inserted(one(tx.conn, USE_SPACE, params![org, file.bytes], |row| row.get(0))?)?;
        if plan.files_bytes.is_some_and(|most| bytes.unsigned_abs() > most) {
            return Err(Refusal::Quota(Quota::Files).into());
        }
    }
    Ok(())
}

/// The day a moment lies in, UTC.
pub(super) fn day(now: Timestamp) -> i64 {
    now.secs().div_euclid(SECS_PER_DAY)
}

/// A draft whose sender is settled.
#[derive(Debug)]
pub(super) struct Outgoing<'a> {
    pub(super) draft: &'a Draft,
    pub(super) sender: &'a Own,
    pub(super) file: Option<&'a KeptFile>,
    pub(super) plan: &'a Plan,
}

/// Where a message goes, once that is decided.
#[derive(Debug)]
pub(super) struct Placed<'a> {
    pub(super) from_session: Option<i64>,
    pub(super) from_text: &'a str,
    pub(super) to_text: &'a str,
    pub(super) thread: &'a str,
    pub(super) reply_to: Option<&'a str>,
    pub(super) recipient: i64,
    pub(super) recipient_person: i64,
    pub(super) recipient_session: Option<i64>,
    pub(super) reserved: Option<i64>,
}

/// A message as it is written, however many it goes to.
#[derive(Debug)]
pub(super) struct Written<'a> {
    pub(super) from_session: Option<i64>,
    pub(super) from_text: &'a str,
    pub(super) to_text: &'a str,
    pub(super) thread: &'a str,
    pub(super) reply_to: Option<&'a str>,
    /// How many deliveries it will have.
    pub(super) waiting: i64,
    pub(super) topic: Option<&'a str>,
}

impl Outgoing<'_> {
    fn signed(&self) -> Option<&Signed> {
        self.draft.signature.as_ref().ok().and_then(Option::as_ref)
    }

    pub(super) fn is_signed(&self) -> bool {
        self.signed().is_some()
    }

    /// What the side of `org` lets in from the sender over their link.
    pub(super) fn check_link_rules(&self, tx: &Tx<'_>, org: i64, recipient: &Name) -> Result<()> {
        let from = &self.draft.from.agent.org;
        let rules = links::active_rules(tx.conn, org, self.sender.org)?
            .ok_or_else(|| Refusal::NoActiveLink { from: from.clone(), to: recipient.clone() })?;
        rules
            .check(self.is_signed(), self.draft.sender.ip)
            .map_err(|why| Refusal::LinkRules { org: recipient.clone(), why }.into())
    }

    /// How long the message may wait, in seconds: the plan has the last word.
    fn ttl_secs(&self) -> u64 {
        self.draft.ttl_secs.unwrap_or(TTL_DEFAULT_SECS).min(self.plan.ttl_secs)
    }

    pub(super) fn expires(&self, now: Timestamp) -> Timestamp {
        now.plus(Duration::from_secs(self.ttl_secs()))
    }

    /// Counts and writes the message, without queueing it anywhere, and makes its sender part of its thread.
    pub(super) fn write(&self, tx: &Tx<'_>, placed: &Written<'_>) -> Result<i64> {
        count(tx, self.sender.org, self.plan, self.file)?;
        let draft = self.draft;
        let message = messages::insert(
            tx.conn,
            tx.now,
            &NewMessage {
                id: &draft.id,
                person: Some(draft.sender.person.0),
                org: self.sender.org,
                kind: draft.kind,
                from_agent: self.sender.id,
                from_session: placed.from_session,
                from_text: placed.from_text,
                to_text: placed.to_text,
                thread: placed.thread,
                reply_to: placed.reply_to,
                ts: draft.ts.unwrap_or(tx.now.secs()),
                ttl_secs: i64::try_from(self.ttl_secs()).unwrap_or(i64::MAX),
                expires: self.expires(tx.now),
                body: &draft.body,
                encrypted: draft.encrypted,
                refs: &draft.refs,
                error: draft.error,
                signed: self.signed(),
                file: self.file,
                waiting: placed.waiting,
                topic: placed.topic,
            },
        )?;
        messages::take_part(tx.conn, draft.sender.person.0, placed.thread, message)?;
        Ok(message)
    }

    /// Writes the message and queues its one delivery.
    pub(super) fn keep(&self, tx: &mut Tx<'_>, placed: &Placed<'_>) -> Result<Receipt> {
        let written = Written {
            from_session: placed.from_session,
            from_text: placed.from_text,
            to_text: placed.to_text,
            thread: placed.thread,
            reply_to: placed.reply_to,
            waiting: 1,
            topic: None,
        };
        let message = self.write(tx, &written)?;
        messages::take_part(tx.conn, placed.recipient_person, placed.thread, message)?;
        tx.enqueue(&NewDelivery {
            message,
            agent: placed.recipient,
            session: placed.recipient_session,
            thread: placed.thread,
            to_text: placed.to_text,
            reply_to: placed.reply_to,
            reserved: placed.reserved,
            expires: self.expires(tx.now),
        })?;
        Ok(self.receipt(placed.thread, placed.to_text))
    }

    pub(super) fn receipt(&self, thread: &str, to: &str) -> Receipt {
        Receipt {
            id: self.draft.id.clone(),
            thread: thread.to_owned(),
            to: to.to_owned(),
            signed: self.is_signed(),
        }
    }
}
