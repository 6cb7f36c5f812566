//! The message that tells a sender that nobody did what it asked.

use std::time::Duration;

use super::{Ended, NewMessage};
use crate::domain::v2::delivery::Status;
use crate::proto::dsh::js;
use crate::proto::dsh::names::DshId;
use crate::proto::dsh::v2::message::Kind;

/// Clients know a notice by this beginning.
const MARK: &str = "[Relay]";
const TTL: Duration = Duration::from_secs(3600);
/// How much of the request is repeated, in UTF-16 units.
const QUOTED: usize = 400;

/// A reply in the name of the target. Its key is the target's: one notice for each request, ever.
pub(crate) fn notice(ended: Ended<'_>, id: DshId) -> NewMessage {
    let request = &ended.message.message;
    NewMessage {
        id,
        root_id: request.root_id.clone(),
        parent_id: Some(request.id.to_string()),
        origin: request.target.clone(),
        target: request.origin.clone(),
        kind: Kind::Reply,
        body: text(ended),
        session_ref: request.session_ref.clone(),
        mode: request.mode,
        context: String::new(),
        topic: request.topic.clone(),
        allow_shared_write: false,
        idempotency_key: format!("undelivered:{}", request.id),
        created_at: ended.at,
        expires_at: ended.at.plus(TTL),
    }
}

fn text(ended: Ended<'_>) -> String {
    let (request, delivery) = (&ended.message.message, &ended.message.delivery);
    let target = &request.target;
    let why = match (delivery.status(), delivery.attempts) {
        (Status::Expired, 0) => format!("it expired before {target} took it"),
        (Status::Expired, _) => format!("it expired before {target} confirmed it"),
        (_, 1) => format!("{target} took it once and never confirmed it"),
        (_, times) => format!("{target} took it {times} times and never confirmed it"),
    };
    let error = match delivery.last_error.as_str() {
        "" => String::new(),
        error => format!(" ({error})"),
    };
    let body = js::cut(&request.body, QUOTED);
    let more = if body.len() < request.body.len() { "…" } else { "" };
    format!("{MARK} Not delivered: {why}{error}.\n\nThe message: {body}{more}")
}
