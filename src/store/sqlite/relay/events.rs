//! Events: one copy for each agent that listens to the topic, but not for the one that publishes. Links are asked
//! again for every event and every listener.

use rusqlite::Connection;

use super::lanes::NewDelivery;
use super::request::session_of_sender;
use super::send::{Outgoing, Written};
use super::tx::Tx;
use super::{Result, all, links, messages, orgs, sessions, topics};
use crate::domain::relay::link::ExposeKind;
use crate::domain::relay::refusal::Refusal;
use crate::proto::redsyn::address::TopicAddress;
use crate::store::relay::Receipt;

statements! {
    LISTENING = "
        SELECT agents.id, agents.org, agents.person, agents.address FROM subscriptions
        JOIN agents ON agents.id = subscriptions.agent
        WHERE subscriptions.topic = ?1 AND subscriptions.agent <> ?2";
}

struct Listener {
    agent: i64,
    org: i64,
    person: i64,
    address: String,
}

pub(super) fn place(out: &Outgoing<'_>, tx: &mut Tx<'_>, topic: &TopicAddress) -> Result<Receipt> {
    let owner = publishable(out, tx, topic)?;
    let topic_id = topics::ensure(tx.conn, owner, topic, tx.now)?;
    let mut listeners = listening(tx.conn, topic_id, out.sender.id)?;
    let mut reached = Vec::with_capacity(listeners.len());
    for listener in listeners.drain(..) {
        if hears(out, tx, owner, &listener, topic)? {
            reached.push(listener);
        }
    }
    let thread = out.draft.thread.as_deref().unwrap_or(out.draft.id.as_str());
    let text = topic.to_string();
    let from_session = session_of_sender(out, tx)?;
    let message = out.write(
        tx,
        &Written {
            from_session,
            from_text: &out.draft.from.to_string(),
            to_text: &text,
            thread,
            reply_to: None,
            waiting: i64::try_from(reached.len()).unwrap_or(i64::MAX),
            topic: Some(&text),
        },
    )?;
    for listener in &reached {
        let session = topics::session(tx.conn, topic_id, listener.agent, topic, tx.now)?;
        sessions::join(tx.conn, listener.agent, session, out.draft.sender.person.0)?;
        messages::take_part(tx.conn, listener.person, thread, message)?;
        tx.enqueue(&NewDelivery {
            message,
            agent: listener.agent,
            session: Some(session),
            thread,
            to_text: &format!("{}#{}", listener.address, sessions::id(session)),
            reply_to: None,
            reserved: None,
            expires: out.expires(tx.now),
        })?;
    }
    if reached.is_empty() {
        // Nobody will ever fetch them.
        tx.drop_files(message)?;
    }
    Ok(out.receipt(thread, &text))
}

/// The organisation whose topic it is, when the sender may publish there.
fn publishable(out: &Outgoing<'_>, tx: &Tx<'_>, topic: &TopicAddress) -> Result<i64> {
    let no_topic = || Refusal::NoTopic(topic.clone());
    let owner = orgs::org_called(tx.conn, &topic.org)?.ok_or_else(no_topic)?;
    if owner != out.sender.org {
        if !links::exposes_topic(tx.conn, owner, out.sender.org, ExposeKind::Pub, topic)? {
            return Err(no_topic().into());
        }
        out.check_link_rules(tx, owner, &topic.org)?;
    }
    Ok(owner)
}

fn listening(conn: &Connection, topic: i64, publisher: i64) -> Result<Vec<Listener>> {
    all(conn, LISTENING, [topic, publisher], |row| {
        Ok(Listener { agent: row.get(0)?, org: row.get(1)?, person: row.get(2)?, address: row.get(3)? })
    })
}

/// Whether this event reaches this listener (A43): the topic's owner must still let their side listen, and what
/// comes from another organisation than theirs must pass their rules for that one.
fn hears(
    out: &Outgoing<'_>,
    tx: &Tx<'_>,
    owner: i64,
    listener: &Listener,
    topic: &TopicAddress,
) -> Result<bool> {
    if listener.org != owner && !links::exposes_topic(tx.conn, owner, listener.org, ExposeKind::Sub, topic)? {
        return Ok(false);
    }
    if listener.org == out.sender.org {
        return Ok(true);
    }
    let rules = links::active_rules(tx.conn, listener.org, out.sender.org)?;
    Ok(rules.is_some_and(|rules| rules.check(out.is_signed(), out.draft.sender.ip).is_ok()))
}
