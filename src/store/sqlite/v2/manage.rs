//! What operators do: requeue and cancel.

use rusqlite::Connection;

use super::change::{Stage, change};
use super::deliver::by_id;
use crate::domain::v2::delivery::Status;
use crate::proto::dsh::v2::message::Kind;
use crate::store::StoreError;
use crate::store::v2::{Action, Manage, Managed, StoredMessage};

pub(super) fn manage(conn: &Connection, manage: &Manage) -> Result<Managed, StoreError> {
    let Some(message) = by_id(conn, &manage.id)? else { return Ok(Managed::UnknownMessage) };
    if !manage.is_admin && !is_own(&message, manage) {
        return Ok(Managed::NotAllowed);
    }
    if message.inbox.is_none() {
        // It has left, or is about to: only its carrier can stop it.
        return Ok(Managed::Away);
    }
    let (next, woken) = match manage.action {
        Action::Requeue => (message.delivery.requeue(), message.inbox),
        Action::Cancel => (message.delivery.cancel(manage.now), None),
    };
    match next {
        Ok(delivery) => {
            change(conn, message.seq, &delivery, (Stage::None, manage.now))?;
            Ok(Managed::Done { woken })
        }
        Err(_) => Ok(Managed::OtherState),
    }
}

/// A recipient may requeue a request that it has not completed; an originator may cancel its request.
fn is_own(message: &StoredMessage, manage: &Manage) -> bool {
    let by = match manage.action {
        Action::Requeue if message.delivery.status() == Status::Completed => None,
        Action::Requeue => message.inbox.as_ref(),
        Action::Cancel => Some(&message.message.origin),
    };
    message.message.kind == Kind::Request && by == Some(&manage.agent)
}
