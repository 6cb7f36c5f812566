//! Telling the relay what has been dealt with. An ack that fails is tried again while the mail is leased to us: after
//! that the relay delivers again, which would only cost it another take and us another ack.

use super::events::Event;
use super::inbound::Inbound;
use crate::config::redsyn::MappedAgent;
use crate::domain::backoff::full_jitter;
use crate::domain::clock::Timestamp;
use crate::proto::redsyn::ids::MessageId;

/// How many ids one call names at the most: several full takes, and fewer than relays refuse.
const AT_ONCE: usize = 500;

/// What one agent's pump has dealt with and the relay does not know of yet. It is lost with the process: then the mail
/// comes again, and is acked as seen.
#[derive(Debug)]
pub(super) struct Owed {
    /// Each with the end of its lease.
    ids: Vec<(MessageId, Timestamp)>,
    failures: u32,
    next: Timestamp,
}

impl Owed {
    pub(super) const fn nothing() -> Self {
        Self { ids: Vec::new(), failures: 0, next: Timestamp::from_millis(0) }
    }

    /// `done` is leased to us until then, and dealt with.
    pub(super) fn add(&mut self, done: Vec<MessageId>, until: Timestamp) {
        self.ids.retain(|(id, _)| !done.contains(id));
        self.ids.extend(done.into_iter().map(|id| (id, until)));
    }
}

impl Inbound {
    /// Acks what is owed. What comes again before the next try is not owed any more.
    pub(super) async fn ack(&self, mapped: &MappedAgent, owed: &mut Owed) {
        let ids: Vec<MessageId> = owed.ids.iter().map(|(id, _)| id.clone()).take(AT_ONCE).collect();
        match self.client.ack(&mapped.address, &ids).await {
            Ok(()) => {
                owed.ids.drain(..ids.len());
                owed.failures = 0;
                self.link.found();
                self.events.emit(Event::Acked { ids });
            }
            Err(error) => {
                self.link.lost(&error);
                tracing::warn!(%error, count = ids.len(), "inbound_ack_failed");
                if error.is_worth_retrying() {
                    owed.failures = owed.failures.saturating_add(1);
                    let pause = full_jitter(owed.failures, error.retry_after(), &*self.random);
                    let next = self.clock.now().plus(pause);
                    owed.ids.retain(|(_, until)| next < *until);
                    owed.next = next;
                } else {
                    *owed = Owed::nothing();
                }
            }
        }
    }

    /// Goes on acking what is owed. Never resolves, and is dropped for whatever else does: an ack that is cut short so
    /// is still owed.
    pub(super) async fn ack_again(&self, mapped: &MappedAgent, owed: &mut Owed) {
        while !owed.ids.is_empty() {
            self.clock.sleep_until(owed.next).await;
            self.ack(mapped, owed).await;
        }
        std::future::pending().await
    }
}
