//! Requests: who may ask whom, and into which session it falls.

use super::agents::{self, Agent};
use super::send::{Outgoing, Placed};
use super::tx::Tx;
use super::{Result, links, orgs, sessions};
use crate::domain::relay::refusal::Refusal;
use crate::proto::redsyn::address::{AddressedAgent, Session};
use crate::proto::redsyn::policy::Asker;
use crate::store::relay::Receipt;

pub(super) fn place(out: &Outgoing<'_>, tx: &mut Tx<'_>, to: &AddressedAgent) -> Result<Receipt> {
    let agent = reachable(out, tx, to)?;
    check_policy(out, tx, &agent)?;
    let thread = out.draft.thread.as_deref().unwrap_or(out.draft.id.as_str());
    let session = sessions::for_request(tx.conn, &agent, to.session.as_ref(), thread, tx.now)?;
    sessions::join(tx.conn, agent.id, session, out.draft.sender.person.0)?;
    let reserved = if out.draft.encrypted {
        agents::sealed_for(tx.conn, out.draft.sender.person, &agent)?
    } else {
        None
    };
    let from_session = session_of_sender(out, tx)?;
    if let Some(session) = from_session {
        sessions::join(tx.conn, out.sender.id, session, agent.person)?;
    }
    out.keep(
        tx,
        &Placed {
            from_session,
            from_text: &out.draft.from.to_string(),
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
fn reachable(out: &Outgoing<'_>, tx: &Tx<'_>, to: &AddressedAgent) -> Result<Agent> {
    let no_agent = || Refusal::NoAgent(to.agent.clone());
    let agent = agents::find(tx.conn, &to.agent)?.ok_or_else(no_agent)?;
    if agent.org != out.sender.org {
        if !links::exposes_agent(tx.conn, agent.org, out.sender.org, &to.agent)? {
            return Err(no_agent().into());
        }
        out.check_link_rules(tx, agent.org, &to.agent.org)?;
    }
    Ok(agent)
}

fn check_policy(out: &Outgoing<'_>, tx: &Tx<'_>, agent: &Agent) -> Result<()> {
    let teams = if agent.org == out.sender.org {
        orgs::teams_of(tx.conn, out.draft.sender.person.0, agent.org)?
    } else {
        Vec::new()
    };
    let asker = Asker {
        address: &out.draft.from.agent,
        is_owner: agent.person == out.draft.sender.person.0,
        signed: out.is_signed(),
        encrypted: out.draft.encrypted,
    };
    let address = &agent.state.agent;
    agent
        .state
        .policy
        .check(address, asker, |team| teams.contains(team))
        .map_err(|why| Refusal::Policy { agent: address.clone(), why }.into())
}

/// The sender's own session named in `from`, if it exists (A20).
pub(super) fn session_of_sender(out: &Outgoing<'_>, tx: &Tx<'_>) -> Result<Option<i64>> {
    match &out.draft.from.session {
        Some(Session::Id(id)) => {
            Ok(sessions::existing(tx.conn, out.sender.id, id.as_str())?.map(|(number, _)| number))
        }
        _ => Ok(None),
    }
}
