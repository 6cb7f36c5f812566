//! The order of each conversation on its way in (mapping §6). A relay leases what it hands out, so mail that was taken
//! and not dealt with comes again later than what was sent after it: that must not overtake it.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::inbound::{Conversation, Inbound, Left, left};
use crate::config::redsyn::MappedAgent;
use crate::domain::clock::Timestamp;
use crate::proto::dsh::names::{AgentName, brief};
use crate::proto::redsyn::address::AddressedAgent;
use crate::proto::redsyn::envelope::DeliveredEnvelope;
use crate::proto::redsyn::ids::{Kind, LEASE_DEFAULT_SECS, MessageId};

/// By then the relay has delivered again what was leased to us: the lease, and two held calls.
const AGAIN: Duration = Duration::from_secs(LEASE_DEFAULT_SECS + 60);

/// What has to come before other mail of one agent. Conversations look into it side by side.
#[derive(Debug, Default)]
pub(super) struct Order(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    waiting: HashMap<Conversation, Waits>,
    doubt: Option<Doubt>,
    /// No mail that waits for a person comes back before this; `None`: there is none.
    back: Option<Timestamp>,
}

/// A conversation waits for this message, and no longer than this.
#[derive(Clone, Debug)]
struct Waits {
    first: MessageId,
    until: Timestamp,
}

/// An answer of the relay may have been lost, with mail in it that nobody here knows of.
#[derive(Debug)]
struct Doubt {
    since: Timestamp,
    until: Timestamp,
    /// The conversations of which nothing is missing.
    whole: HashSet<Conversation>,
}

/// Something may be missing since then.
pub(super) struct InDoubt {
    /// In this thread; `None` when nothing of it can be, since the message begins it.
    pub(super) thread: Option<String>,
    since: Timestamp,
}

impl Order {
    /// The process before may have died with mail in its hands.
    pub(super) fn after_start(now: Timestamp) -> Self {
        let order = Self::default();
        order.doubt(now);
        // Only the store knows what is held.
        order.comes_back(now);
        order
    }

    /// A take has failed in a way that does not tell whether the relay has handed something out.
    pub(super) fn doubt(&self, now: Timestamp) {
        self.known().doubt = Some(Doubt { since: now, until: now.plus(AGAIN), whole: HashSet::new() });
    }

    /// `first` has not been dealt with, and comes again.
    pub(super) fn wait_for(&self, conversation: Conversation, first: MessageId, now: Timestamp) {
        let mut known = self.known();
        known.waiting.retain(|_, waits| now < waits.until);
        let again = Waits { first, until: now.plus(AGAIN) };
        let waits = known.waiting.entry(conversation).or_insert_with(|| again.clone());
        if waits.first == again.first {
            *waits = again;
        }
    }

    /// Held mail is leased to us until then.
    pub(super) fn comes_back(&self, until: Timestamp) {
        let mut known = self.known();
        known.back = Some(known.back.map_or(until, |back| back.min(until)));
    }

    /// Before this, no held mail comes back.
    pub(super) fn back(&self) -> Option<Timestamp> {
        self.known().back
    }

    /// What the store says of that.
    pub(super) fn is_back_at(&self, back: Option<Timestamp>) {
        self.known().back = back;
    }

    /// Whether something else must come before `id`.
    pub(super) fn holds_back(&self, conversation: &Conversation, id: &MessageId, now: Timestamp) -> bool {
        let known = self.known();
        known.waiting.get(conversation).is_some_and(|waits| waits.first != *id && now < waits.until)
    }

    /// `id` has been dealt with.
    pub(super) fn came(&self, conversation: &Conversation, id: &MessageId) {
        let mut known = self.known();
        if known.waiting.get(conversation).is_some_and(|waits| waits.first == *id) {
            known.waiting.remove(conversation);
        }
    }

    /// Since when there is doubt about a conversation, if there is any.
    fn in_doubt(&self, conversation: &Conversation, now: Timestamp) -> Option<Timestamp> {
        let known = self.known();
        let doubt = known.doubt.as_ref().filter(|doubt| now < doubt.until)?;
        (!doubt.whole.contains(conversation)).then_some(doubt.since)
    }

    /// Whether something may have come before `envelope` that we have never seen.
    pub(super) fn doubts(&self, envelope: &DeliveredEnvelope, now: Timestamp) -> Option<InDoubt> {
        let thread = envelope.thread.clone()?;
        let since = self.in_doubt(&conversation(envelope), now)?;
        let begins = thread == envelope.id.as_str() || envelope.kind == Kind::Event;
        Some(InDoubt { thread: (!begins).then_some(thread), since })
    }

    fn is_whole(&self, conversation: &Conversation) {
        if let Some(doubt) = &mut self.known().doubt {
            doubt.whole.insert(conversation.clone());
        }
    }

    /// Nothing that holds the lock can leave it half-way.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inbound {
    /// Whether `envelope` has to wait for an earlier one. In doubt, the relay's view of the thread tells what we have
    /// never seen; a relay without that call is believed to have lost nothing. `began`: when the first of a thread in
    /// doubt crossed, as far as the store knows.
    pub(super) async fn comes_too_early(
        &self,
        agent: &AgentName,
        mapped: &MappedAgent,
        envelope: &DeliveredEnvelope,
        order: &Order,
        doubt: Option<InDoubt>,
        began: Option<Timestamp>,
    ) -> Result<bool, Left> {
        let conversation = conversation(envelope);
        let now = self.clock.now();
        if order.holds_back(&conversation, &envelope.id, now) {
            return Ok(true);
        }
        let Some(InDoubt { thread, since }) = doubt else { return Ok(false) };
        let Some(thread) = &thread else {
            order.is_whole(&conversation);
            return Ok(false);
        };
        let failed = |error| left(&envelope.id, &error);
        if began.is_some_and(|began| began > since) {
            order.is_whole(&conversation);
            return Ok(false);
        }
        let first = match self.client.thread(thread).await {
            Ok(items) => {
                let earlier = earlier(&items, mapped, envelope);
                self.store.first_unknown(agent.clone(), earlier).await.map_err(failed)?
            }
            Err(error) if error.is_worth_retrying() => {
                tracing::warn!(id = ?brief(envelope.id.as_str()), %error, "inbound_order_unknown");
                Some(envelope.id.clone())
            }
            Err(_) => None,
        };
        match first {
            Some(first) => {
                order.wait_for(conversation, first, now);
                Ok(true)
            }
            None => {
                order.is_whole(&conversation);
                Ok(false)
            }
        }
    }
}

/// What must stay in order: a remote agent and a thread with it.
pub(super) fn conversation(envelope: &DeliveredEnvelope) -> Conversation {
    (envelope.from.agent.clone(), envelope.thread.clone())
}

/// What the same sender has said to the same agent in the thread before this.
fn earlier(items: &[Value], mapped: &MappedAgent, envelope: &DeliveredEnvelope) -> Vec<MessageId> {
    let text = |item: &Value, name: &str| item.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
    let id = |item: &Value| text(item, "id");
    let Some(at) = items.iter().position(|item| id(item).as_deref() == Some(envelope.id.as_str())) else {
        return Vec::new();
    };
    let agent =
        |item: &Value, name: &str| text(item, name)?.parse().ok().map(|one: AddressedAgent| one.agent);
    let is_of_it = |item: &&Value| {
        // Answers need not say whom they are for.
        let is_for_us = agent(item, "to").is_none_or(|to| to == mapped.address);
        is_for_us && agent(item, "from").as_ref() == Some(&envelope.from.agent)
    };
    let before = items.get(..at).unwrap_or_default().iter();
    before.filter(is_of_it).filter_map(|item| id(item)?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> MessageId {
        text.parse().unwrap()
    }

    #[test]
    fn a_conversation_waits_for_what_it_lacks_and_not_for_ever() {
        let now = Timestamp::from_secs(1000);
        let one: Conversation = ("globex/erp/bob/billing".parse().unwrap(), Some("t1".into()));
        let other: Conversation = (one.0.clone(), Some("t2".into()));
        let order = Order::default();
        order.wait_for(one.clone(), id("q1"), now);
        order.wait_for(one.clone(), id("q2"), now);
        assert!(order.holds_back(&one, &id("q2"), now));
        assert!(!order.holds_back(&one, &id("q1"), now));
        assert!(!order.holds_back(&other, &id("q2"), now));
        assert!(!order.holds_back(&one, &id("q2"), now.plus(AGAIN)), "it never came again");
        order.wait_for(one.clone(), id("q1"), now.plus(AGAIN / 2));
        assert!(
            order.holds_back(&one, &id("q2"), now.plus(AGAIN)),
            "it came again, and has to come once more"
        );
        order.came(&one, &id("q2"));
        assert!(order.holds_back(&one, &id("q2"), now));
        order.came(&one, &id("q1"));
        assert!(!order.holds_back(&one, &id("q2"), now));
    }

    #[test]
    fn held_mail_comes_back_when_the_first_of_it_does() {
        let (now, later) = (Timestamp::from_secs(1000), Timestamp::from_secs(2000));
        assert_eq!(Order::after_start(now).back(), Some(now), "the store is asked first");
        let order = Order::default();
        for until in [later, now, later] {
            order.comes_back(until);
        }
        assert_eq!(order.back(), Some(now));
        order.is_back_at(None);
        assert_eq!(order.back(), None);
    }

    #[test]
    fn doubt_ends_with_the_lease_and_for_each_conversation_that_is_whole() {
        let now = Timestamp::from_secs(1000);
        let one: Conversation = ("globex/erp/bob/billing".parse().unwrap(), Some("t1".into()));
        let order = Order::after_start(now);
        assert_eq!(order.in_doubt(&one, now), Some(now));
        assert_eq!(order.in_doubt(&one, now.plus(AGAIN)), None);
        order.is_whole(&one);
        assert_eq!(order.in_doubt(&one, now), None);
        let later = now.plus(Duration::from_secs(1));
        order.doubt(later);
        assert_eq!(order.in_doubt(&one, later), Some(later), "another answer was lost");
    }
}
