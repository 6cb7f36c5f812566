//! Stored messages of the second generation as the wire shows them.

use crate::broker::view::stages;
use crate::domain::clock::Timestamp;
use crate::domain::v2::delivery::State;
use crate::proto::dsh::js;
use crate::proto::dsh::v2::answer::{Delivered, Queue, Seconds, Status, Summary};
use crate::store::v2::{self, StoredMessage};

/// How much of a body a preview shows, in UTF-16 units.
const PREVIEW: usize = 120;

pub(super) fn seconds(at: Timestamp) -> Seconds {
    Seconds::from_millis(at.millis())
}

/// A message that has just been leased; `None` for any other.
pub(super) fn delivered(stored: StoredMessage) -> Option<Delivered> {
    let State::Leased(lease) = stored.delivery.state else { return None };
    let message = stored.message;
    Some(Delivered {
        message_id: message.id,
        root_id: message.root_id,
        parent_id: message.parent_id,
        origin: message.origin,
        target: message.target,
        kind: message.kind,
        body: message.body,
        session_ref: message.session_ref,
        created_at: seconds(message.created_at),
        expires_at: seconds(message.expires_at),
        execution_mode: message.mode,
        context: message.context,
        topic: message.topic,
        allow_shared_write: message.allow_shared_write,
        lease_token: lease.id.as_str().to_owned(),
        lease_until: seconds(lease.until),
        redsyn: stored.redsyn,
    })
}

pub(super) fn summary(stored: StoredMessage) -> Summary {
    let status = stored.delivery.status().as_str();
    let StoredMessage { message, delivery, .. } = stored;
    Summary {
        message_id: message.id,
        origin: message.origin,
        target: message.target,
        kind: message.kind,
        status,
        attempts: delivery.attempts,
        last_error: delivery.last_error,
        created_at: seconds(message.created_at),
        expires_at: seconds(message.expires_at),
        completed_at: delivery.completed_at.map(seconds),
        topic: message.topic,
        body: None,
        body_preview: None,
        stages: None,
    }
}

pub(super) fn with_body(stored: StoredMessage) -> Summary {
    let body = Some(stored.message.body.clone());
    Summary { body, ..summary(stored) }
}

pub(super) fn with_preview(stored: StoredMessage) -> Summary {
    let body_preview = Some(js::cut(&stored.message.body, PREVIEW).to_owned());
    Summary { body_preview, ..summary(stored) }
}

pub(super) fn status((id, found): (String, Option<StoredMessage>)) -> Status {
    let Some(stored) = found else { return Status::not_found(id) };
    let stages = Some(Box::new(stages(stored.message.created_at, stored.stages)));
    Status::Known(Box::new(Summary { stages, ..summary(stored) }))
}

pub(super) fn queue(queue: v2::Queue) -> Queue {
    let v2::Queue { queued, leased, completed, failed, expired, oldest_queued_at } = queue;
    Queue { queued, leased, completed, failed, expired, oldest_queued_at: oldest_queued_at.map(seconds) }
}
