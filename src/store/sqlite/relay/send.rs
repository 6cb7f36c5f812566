//! Accepting an envelope: every rule is asked before anything of it is kept, all in one transaction.

use std::net::IpAddr;

use rusqlite::params;

use super::agents::{self, Agent};
use super::files::KeptFile;
use super::lanes::{Done, NewDelivery};
use super::messages::{self, NewMessage, State};
use super::people::inserted;
use super::tx::Tx;
use super::{Result, links, one, orgs, sessions, stored};
use crate::domain::relay::plan::{Plan, Plans};
use crate::domain::relay::refusal::{Quota, Refusal};
use crate::proto::redsyn::address::{AddressedAgent, Session};
use crate::proto::redsyn::ids::{Kind, MessageId, TTL_DEFAULT_SECS};
use crate::proto::redsyn::policy::Asker;
use crate::store::StoreError;
use crate::store::relay::{Draft, Receipt, Route, Sent};

statements! {
    COUNT_MESSAGE = "
        INSERT INTO daily_usage (org, day, messages) VALUES (?1, ?2, 1)
        ON CONFLICT (org, day) DO UPDATE SET messages = messages + 1 RETURNING messages";
    USE_SPACE = "UPDATE orgs SET files_bytes = files_bytes + ?2 WHERE id = ?1 RETURNING files_bytes";
    REQUEST = "
        SELECT messages.seq, messages.state, messages.thread, messages.from_agent, messages.from_session,
            messages.from_text, deliveries.seq, deliveries.agent, deliveries.session, deliveries.to_text
        FROM messages JOIN deliveries ON deliveries.message = messages.seq
        WHERE messages.id = ?1 AND messages.kind = 'request'";
    AGENT_BY_ID = "SELECT address FROM agents WHERE id = ?1";
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
    count(tx, sender.org, plan, file)?;
    let outgoing = Outgoing { draft, sender: &sender, file, plan };
    let receipt = match &draft.route {
        Route::Request { to } => outgoing.request(tx, to)?,
        Route::Answer { to_request } => outgoing.answer(tx, to_request)?,
    };
    Ok(Sent { receipt, duplicate: false })
}

/// `from` must be an announced agent of the caller, who must still be in its team.
fn sender(tx: &Tx<'_>, draft: &Draft) -> Result<Agent> {
    let address = &draft.from.agent;
    let person = draft.sender.person;
    let agent = match agents::find(tx.conn, address)? {
        Some(agent) if agent.person == person.0 => agent,
        Some(agent) if orgs::is_member(tx.conn, person.0, agent.org)? => {
            return Err(Refusal::NotYours(address.clone()).into());
        }
        _ => return Err(Refusal::NotAnnounced(address.clone()).into()),
    };
    if !orgs::is_in_team(tx.conn, person.0, agent.org, agent.team)? {
        return Err(Refusal::NotInTeam(address.team.clone()).into());
    }
    Ok(agent)
}

/// Counts the message and its files against the plan; refused, the count is undone with everything else.
fn count(tx: &Tx<'_>, org: i64, plan: &Plan, file: Option<&KeptFile>) -> Result<()> {
    let day = tx.now.secs().div_euclid(SECS_PER_DAY);
    let messages = inserted(one(tx.conn, COUNT_MESSAGE, [org, day], |row| row.get(0))?)?;
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

/// A draft whose sender and quotas are settled.
struct Outgoing<'a> {
    draft: &'a Draft,
    sender: &'a Agent,
    file: Option<&'a KeptFile>,
    plan: &'a Plan,
}

/// Where a message goes, once that is decided.
struct Placed<'a> {
    from_session: Option<i64>,
    from_text: &'a str,
    to_text: &'a str,
    thread: &'a str,
    reply_to: Option<&'a str>,
    recipient: i64,
    recipient_person: i64,
    recipient_session: Option<i64>,
    reserved: Option<i64>,
}

/// A request that is being answered.
struct Asked {
    seq: i64,
    state: State,
    thread: String,
    asker: i64,
    asker_session: Option<i64>,
    asker_text: String,
    delivery: i64,
    agent: i64,
    session: Option<i64>,
    /// `agent#sN`, as it was delivered.
    address: String,
}

impl Outgoing<'_> {
    fn is_signed(&self) -> bool {
        matches!(self.draft.signature, Ok(Some(_)))
    }

    fn request(&self, tx: &mut Tx<'_>, to: &AddressedAgent) -> Result<Receipt> {
        let agent = self.reachable(tx, to)?;
        self.check_policy(tx, &agent)?;
        let thread = self.draft.thread.as_deref().unwrap_or(self.draft.id.as_str());
        let session = sessions::for_request(tx.conn, &agent, to.session.as_ref(), thread, tx.now)?;
        sessions::join(tx.conn, agent.id, session, self.draft.sender.person.0)?;
        let reserved = if self.draft.encrypted {
            agents::sealed_for(tx.conn, self.draft.sender.person, &agent)?
        } else {
            None
        };
        let from_session = self.sender_session(tx)?;
        if let Some(session) = from_session {
            sessions::join(tx.conn, self.sender.id, session, agent.person)?;
        }
        self.keep(
            tx,
            &Placed {
                from_session,
                from_text: &self.draft.from.to_string(),
                to_text: &format!("{}#{}", to.agent, sessions::id(session)),
                thread,
                reply_to: None,
                recipient: agent.id,
                recipient_person: agent.person,
                recipient_session: Some(session),
                reserved,
            },
        )
    }

    /// The agent asked. Over a link: only one that is exposed, and only within the rules of its side.
    fn reachable(&self, tx: &Tx<'_>, to: &AddressedAgent) -> Result<Agent> {
        let no_agent = || Refusal::NoAgent(to.agent.clone());
        let agent = agents::find(tx.conn, &to.agent)?.ok_or_else(no_agent)?;
        if agent.org != self.sender.org {
            if !agents::is_exposed(tx.conn, &to.agent, agent.org, self.sender.org)? {
                return Err(no_agent().into());
            }
            self.check_link_rules(tx, agent.org, &to.agent)?;
        }
        Ok(agent)
    }

    fn check_link_rules(
        &self,
        tx: &Tx<'_>,
        org: i64,
        recipient: &crate::proto::redsyn::address::AgentAddress,
    ) -> Result<()> {
        let from = &self.sender.state.agent.org;
        let rules = links::active_rules(tx.conn, org, self.sender.org)?
            .ok_or_else(|| Refusal::NoActiveLink { from: from.clone(), to: recipient.org.clone() })?;
        let ip: Option<IpAddr> = self.draft.sender.ip;
        rules
            .check(self.is_signed(), ip)
            .map_err(|why| Refusal::LinkRules { org: recipient.org.clone(), why }.into())
    }

    fn check_policy(&self, tx: &Tx<'_>, agent: &Agent) -> Result<()> {
        let teams = if agent.org == self.sender.org {
            orgs::teams_of(tx.conn, self.draft.sender.person.0, agent.org)?
        } else {
            Vec::new()
        };
        let asker = Asker {
            address: &self.sender.state.agent,
            is_owner: agent.person == self.draft.sender.person.0,
            signed: self.is_signed(),
            encrypted: self.draft.encrypted,
        };
        let address = &agent.state.agent;
        agent
            .state
            .policy
            .check(address, asker, |team| teams.contains(team))
            .map_err(|why| Refusal::Policy { agent: address.clone(), why }.into())
    }

    /// The sender's own session named in `from`, if it exists (A20).
    fn sender_session(&self, tx: &Tx<'_>) -> Result<Option<i64>> {
        match &self.draft.from.session {
            Some(Session::Id(id)) => {
                Ok(sessions::existing(tx.conn, self.sender.id, id.as_str())?.map(|(number, _)| number))
            }
            _ => Ok(None),
        }
    }

    fn answer(&self, tx: &mut Tx<'_>, to_request: &MessageId) -> Result<Receipt> {
        let asked = self.asked(tx, to_request)?;
        let asker = address_of(tx, asked.asker)?;
        let asker_agent = agents::find(tx.conn, &asker)?.ok_or_else(|| Refusal::NoAgent(asker.clone()))?;
        if asker_agent.org != self.sender.org {
            // No exposure: whoever asked may be answered. But the link must stand, and its rules hold (A44).
            self.check_link_rules(tx, asker_agent.org, &asker)?;
        }
        let receipt = self.keep(
            tx,
            &Placed {
                from_session: asked.session,
                from_text: &asked.address,
                to_text: &asked.asker_text,
                thread: &asked.thread,
                reply_to: Some(to_request.as_str()),
                recipient: asked.asker,
                recipient_person: asker_agent.person,
                recipient_session: asked.asker_session,
                reserved: None,
            },
        )?;
        if self.draft.kind == Kind::Reply {
            messages::close(tx.conn, asked.seq, State::Answered)?;
            tx.end(asked.delivery, Done::Confirmed)?;
        }
        Ok(receipt)
    }

    /// The open request being answered. One that was asked of somebody else is not there for this sender.
    fn asked(&self, tx: &Tx<'_>, id: &MessageId) -> Result<Asked> {
        let found = one(tx.conn, REQUEST, [id.as_str()], |row| {
            let state: String = row.get(1)?;
            Ok((
                state,
                Asked {
                    seq: row.get(0)?,
                    state: State::Open,
                    thread: row.get(2)?,
                    asker: row.get(3)?,
                    asker_session: row.get(4)?,
                    asker_text: row.get(5)?,
                    delivery: row.get(6)?,
                    agent: row.get(7)?,
                    session: row.get(8)?,
                    address: row.get(9)?,
                },
            ))
        })?;
        let Some((state, asked)) = found.filter(|(_, asked)| asked.agent == self.sender.id) else {
            return Err(Refusal::NoRequest(id.clone()).into());
        };
        let asked = Asked { state: stored(&state, "state")?, ..asked };
        if asked.state != State::Open {
            return Err(Refusal::RequestClosed { id: id.clone(), state: asked.state.as_str() }.into());
        }
        Ok(asked)
    }

    fn keep(&self, tx: &mut Tx<'_>, placed: &Placed<'_>) -> Result<Receipt> {
        let draft = self.draft;
        let ttl = draft.ttl_secs.unwrap_or(TTL_DEFAULT_SECS).min(self.plan.ttl_secs);
        let expires = tx.now.plus(std::time::Duration::from_secs(ttl));
        let signed = draft.signature.as_ref().ok().and_then(Option::as_ref);
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
                ttl_secs: i64::try_from(ttl).unwrap_or(i64::MAX),
                expires,
                body: &draft.body,
                encrypted: draft.encrypted,
                refs: &draft.refs,
                error: draft.error,
                signed,
                file: self.file,
                waiting: 1,
            },
        )?;
        messages::take_part(tx.conn, draft.sender.person.0, placed.thread, message)?;
        messages::take_part(tx.conn, placed.recipient_person, placed.thread, message)?;
        tx.enqueue(&NewDelivery {
            message,
            agent: placed.recipient,
            session: placed.recipient_session,
            thread: placed.thread,
            to_text: placed.to_text,
            reply_to: placed.reply_to,
            reserved: placed.reserved,
            expires,
        })?;
        Ok(Receipt {
            id: draft.id.clone(),
            thread: placed.thread.to_owned(),
            to: placed.to_text.to_owned(),
            signed: signed.is_some(),
        })
    }
}

fn address_of(tx: &Tx<'_>, agent: i64) -> Result<crate::proto::redsyn::address::AgentAddress> {
    let address = one(tx.conn, AGENT_BY_ID, [agent], |row| row.get::<_, String>(0))?;
    let address = address.ok_or_else(|| StoreError::Damaged("a message has no agent".into()))?;
    stored(&address, "agent address")
}
