//! Progress and replies: to whoever sent the request. A reply closes it.

use rusqlite::params;

use super::lanes::Done;
use super::messages::{self, State};
use super::send::{Outgoing, Placed};
use super::tx::Tx;
use super::{Result, agents, one, stored};
use crate::domain::relay::refusal::Refusal;
use crate::proto::redsyn::address::AgentAddress;
use crate::proto::redsyn::ids::{Kind, MessageId};
use crate::store::relay::Receipt;

statements! {
    REQUEST = "
        SELECT messages.state, asker.address, messages.seq, messages.thread, messages.from_session,
            messages.from_text, deliveries.seq, deliveries.session, deliveries.to_text
        FROM messages JOIN deliveries ON deliveries.message = messages.seq AND deliveries.agent = ?2
        JOIN agents AS asker ON asker.id = messages.from_agent
        WHERE messages.id = ?1 AND messages.kind = 'request'";
}

/// A request that is being answered.
struct Asked {
    seq: i64,
    thread: String,
    asker: AgentAddress,
    asker_session: Option<i64>,
    asker_text: String,
    delivery: i64,
    session: Option<i64>,
    /// `agent#sN`, as it was delivered.
    delivered_to: String,
}

pub(super) fn place(out: &Outgoing<'_>, tx: &mut Tx<'_>, to_request: &MessageId) -> Result<Receipt> {
    let asked = asked(out, tx, to_request)?;
    let asker = agents::find(tx.conn, &asked.asker)?.ok_or_else(|| Refusal::NoAgent(asked.asker.clone()))?;
    if asker.org != out.sender.org {
        // No exposure: whoever asked may be answered. But the link must stand, and its rules hold (A44).
        out.check_link_rules(tx, asker.org, &asked.asker.org)?;
    }
    let receipt = out.keep(
        tx,
        &Placed {
            from_session: asked.session,
            from_text: &asked.delivered_to,
            to_text: &asked.asker_text,
            thread: &asked.thread,
            reply_to: Some(to_request.as_str()),
            recipient: asker.id,
            recipient_person: asker.person,
            recipient_session: asked.asker_session,
            reserved: None,
        },
    )?;
    if out.draft.kind == Kind::Reply {
        messages::close(tx.conn, asked.seq, State::Answered)?;
        tx.end(asked.delivery, Done::Confirmed)?;
    }
    Ok(receipt)
}

/// The open request being answered. One that was asked of somebody else is not there for this sender.
fn asked(out: &Outgoing<'_>, tx: &Tx<'_>, id: &MessageId) -> Result<Asked> {
    let found = one(tx.conn, REQUEST, params![id.as_str(), out.sender.id], |row| {
        let (state, asker): (String, String) = (row.get(0)?, row.get(1)?);
        let read = |asker| {
            Ok::<_, rusqlite::Error>(Asked {
                asker,
                seq: row.get(2)?,
                thread: row.get(3)?,
                asker_session: row.get(4)?,
                asker_text: row.get(5)?,
                delivery: row.get(6)?,
                session: row.get(7)?,
                delivered_to: row.get(8)?,
            })
        };
        Ok((state, stored(&asker, "agent address").map(read)))
    })?;
    let (state, asked) = found.ok_or_else(|| Refusal::NoRequest(id.clone()))?;
    match stored(&state, "state")? {
        State::Open => Ok(asked??),
        closed => Err(Refusal::RequestClosed { id: id.clone(), state: closed.as_str() }.into()),
    }
}
