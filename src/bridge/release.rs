//! Held inbound mail that a person's decision has set free: judged again, delivered, then acked, if the relay still
//! has it. The decision lies in the store, so a crash anywhere only makes the next start do the rest.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::events::Event;
use super::inbound::{Inbound, Left};
use super::order::Order;
use crate::proto::dsh::names::{AgentName, brief};
use crate::proto::redsyn::ids::MessageId;

/// How long to wait before what could not be judged, for want of its files say, is tried again.
const AGAIN: Duration = Duration::from_secs(60);

/// Tells the task here that a decision was made.
#[derive(Debug, Default)]
pub struct Decided {
    rung: Notify,
    /// Rejected mail. Acking it only spares the relay another delivery, so nothing is lost with the process.
    rejected: Mutex<Vec<(AgentName, MessageId)>>,
}

impl Decided {
    pub fn ring(&self) {
        self.rung.notify_one();
    }

    pub fn rejected(&self, mail: Vec<(AgentName, MessageId)>) {
        self.rejected.lock().unwrap_or_else(PoisonError::into_inner).extend(mail);
        self.ring();
    }

    fn take_rejected(&self) -> Vec<(AgentName, MessageId)> {
        std::mem::take(&mut *self.rejected.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Inbound {
    /// Runs until `stop`.
    pub(super) async fn run_releases(self: Arc<Self>, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => return,
            () = self.link.up() => {}
        }
        loop {
            let mut done = Acks::default();
            for (agent, id) in self.decided.take_rejected() {
                done.entry(agent).or_default().push(id);
            }
            // What is cut short here is still released in the store.
            let left = tokio::select! {
                () = stop.cancelled() => return,
                left = self.release(&mut done) => left,
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.ack_released(done) => {}
            }
            let again = async {
                if left {
                    self.clock.sleep(AGAIN).await;
                } else {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.decided.rung.notified() => {}
                () = again => {}
            }
        }
    }

    /// Whether something is left to be tried again.
    async fn release(&self, done: &mut Acks) -> bool {
        let order = Order::default();
        loop {
            let released = match self.store.released().await {
                Ok(released) => released,
                Err(error) => {
                    tracing::error!(%error, "released_mail_unreadable");
                    return true;
                }
            };
            let (mut progress, mut left) = (false, false);
            for held in released {
                // An agent that has left the configuration may come back to it.
                let Some(mapped) = self.names.get().agent(&held.agent).cloned() else { continue };
                let item = self.without_the_past(held.envelope);
                tracing::info!(id = ?brief(held.id.as_str()), person = %held.person, "held_mail_released");
                match self.one(&held.agent, &mapped, item, None, &order).await {
                    Ok(Some(id)) => {
                        progress = true;
                        done.entry(held.agent).or_default().push(id);
                    }
                    Ok(None) => left = true,
                    Err(Left) => return true,
                }
            }
            if !progress {
                return left;
            }
        }
    }

    /// The relay's time for it may be over; a person has asked for it now, and the local time counts from here. The
    /// signature does not cover the relay's word.
    fn without_the_past(&self, mut item: Value) -> Value {
        let now = self.client.relay_now().secs();
        if let Some(fields) = item.as_object_mut()
            && fields.get("expires").and_then(Value::as_i64).is_some_and(|expires| expires <= now)
        {
            fields.insert("expires".into(), Value::Null);
        }
        item
    }

    async fn ack_released(&self, done: Acks) {
        for (agent, ids) in done {
            let Some(mapped) = self.names.get().agent(&agent).cloned() else { continue };
            match self.client.ack(&mapped.address, &ids).await {
                Ok(()) => self.events.emit(Event::Acked { ids }),
                // The relay may have given up on it; what it still has comes again, and is acked as seen.
                Err(error) => tracing::info!(%error, count = ids.len(), "released_mail_not_acked"),
            }
        }
    }
}

type Acks = BTreeMap<AgentName, Vec<MessageId>>;
