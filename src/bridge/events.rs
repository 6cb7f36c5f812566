//! What the bridge does, as it does it: one log line each, and a copy for whoever watches (the demo, tests).

use tokio::sync::broadcast;

use crate::proto::dsh::names::brief;
use crate::proto::redsyn::address::AgentAddress;
use crate::proto::redsyn::ids::{Kind, MessageId};

/// How many events a slow watcher may lag behind before it misses some.
const WATCHER_LAG: usize = 256;

/// One step of one message. Ids and addresses, never bodies or keys.
#[derive(Clone, Debug)]
pub enum Event {
    /// The relay answered 201 for an outbound message.
    Accepted { id: MessageId, kind: Kind, to: String, sealed: bool },
    /// A try failed; the next follows.
    Postponed { id: MessageId, kind: Kind, why: String },
    /// It will never arrive; its sender has been told.
    Failed { id: MessageId, kind: Kind, code: &'static str, why: String },
    /// It waits for a person's decision.
    HeldOut { id: MessageId, kind: Kind, why: String },
    /// An inbound message was taken from the relay and its signature checked.
    Checked { id: MessageId, kind: Kind, from: AgentAddress, fingerprint: Option<String>, sealed: bool },
    /// It is in the local store; the agent can take it.
    Delivered { id: MessageId, kind: Kind, agent: String },
    /// The relay knows that we have it.
    Acked { ids: Vec<MessageId> },
    /// Not delivered, and why.
    Refused { id: MessageId, kind: Kind, why: String },
    /// Not delivered until a person decides.
    HeldIn { id: MessageId, kind: Kind, why: String },
}

/// Where events go. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Events {
    watchers: broadcast::Sender<Event>,
}

impl Default for Events {
    fn default() -> Self {
        Self { watchers: broadcast::Sender::new(WATCHER_LAG) }
    }
}

impl Events {
    pub fn watch(&self) -> broadcast::Receiver<Event> {
        self.watchers.subscribe()
    }

    pub(super) fn emit(&self, event: Event) {
        log(&event);
        // Nobody watching is the usual case.
        let _ = self.watchers.send(event);
    }
}

fn log(event: &Event) {
    match event {
        Event::Accepted { id, kind, to, sealed } => {
            tracing::info!(id = ?brief(id.as_str()), %kind, to, sealed, "outbound_accepted")
        }
        Event::Postponed { id, kind, why } => {
            tracing::warn!(id = ?brief(id.as_str()), %kind, why = ?why, "outbound_postponed")
        }
        Event::Failed { id, kind, code, why } => {
            tracing::warn!(id = ?brief(id.as_str()), %kind, code, why = ?why, "outbound_failed")
        }
        Event::HeldOut { id, kind, why } => {
            tracing::warn!(id = ?brief(id.as_str()), %kind, why = ?why, "outbound_held")
        }
        Event::Checked { id, kind, from, fingerprint, sealed } => {
            tracing::info!(id = ?brief(id.as_str()), %kind, %from, fingerprint, sealed, "inbound_checked");
        }
        Event::Delivered { id, kind, agent } => {
            tracing::info!(id = ?brief(id.as_str()), %kind, agent, "inbound_delivered")
        }
        Event::Acked { ids } => tracing::debug!(count = ids.len(), "inbound_acked"),
        Event::Refused { id, kind, why } => {
            tracing::warn!(id = ?brief(id.as_str()), %kind, why = ?why, "inbound_refused")
        }
        Event::HeldIn { id, kind, why } => {
            tracing::warn!(id = ?brief(id.as_str()), %kind, why = ?why, "inbound_held")
        }
    }
}
