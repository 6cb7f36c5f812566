//! `POST /messages/<id>/ack`: the receipt of a message, as a message to its sender.

use serde_json::json;

use super::{Service, busy, not_recipient};
use crate::broker::carrier::Route;
use crate::proto::dsh::error::ApiError;
use crate::proto::dsh::json::JsonText;
use crate::proto::dsh::names::{AgentName, DshId, brief};
use crate::proto::dsh::v1::answer;
use crate::proto::dsh::v1::envelope::MessageType;
use crate::proto::dsh::v1::request::Receipt;
use crate::store::local::{Head, NewMessage};

impl Service {
    /// A receipt for the sender of a message. The reference knows ids of hexadecimal digits only here; for messages
    /// from beyond the machine any id will do. `no_route` is the answer for the rest.
    ///
    /// # Errors
    /// `not_found`, `no_such_message`, `forbidden`, `bad_request`, or what the carrier refuses.
    pub async fn receipt(
        &self,
        agent: AgentName,
        (id, hexadecimal): (DshId, bool),
        body: &str,
        no_route: ApiError,
    ) -> Result<answer::ReceiptAccepted, ApiError> {
        let head = self.store.lookup(id.clone()).await.map_err(busy)?;
        let remote = head.as_ref().is_some_and(|head| self.is_remote(&agent, head));
        if !hexadecimal && !remote {
            return Err(no_route);
        }
        let head = head.ok_or_else(ApiError::no_such_message)?;
        if head.inbox.as_ref() != Some(&agent) {
            return Err(not_recipient());
        }
        let receipt = self.receipt_message(&agent, &head, &id, &Receipt::parse(body)?);
        let sent = match head.from.agent() {
            _ if remote => self.carrier.send(receipt).await?,
            Some(sender) => {
                let (wakeups, inbox) = (self.wakeups.clone(), sender.clone());
                self.store.receipt(receipt, sender, move |_| wakeups.wake(&inbox)).await.map_err(busy)?
            }
            // Sent by somebody whom no carrier reaches any more.
            None => return Err(ApiError::no_such_agent()),
        };
        tracing::info!(id = ?brief(sent.id.as_str()), of = ?brief(id.as_str()), %agent, "receipt_accepted");
        Ok(answer::ReceiptAccepted { accepted: true, id: sent.id })
    }

    fn is_remote(&self, agent: &AgentName, head: &Head) -> bool {
        !head.sender_is_registered && self.carrier.route(agent, head.from.as_str()) == Route::Away
    }

    fn receipt_message(&self, agent: &AgentName, head: &Head, id: &DshId, receipt: &Receipt) -> NewMessage {
        let body = match receipt {
            Receipt::Ok => json!({ "status": "ok" }),
            Receipt::Error(error) => json!({ "status": "error", "error": error }),
        };
        let now = self.clock.now();
        let blank =
            NewMessage::new(DshId::new(self.random.uuid_at(now.millis())), agent, head.from.clone(), now);
        NewMessage {
            message_type: MessageType::Ack,
            body: JsonText::from(&body),
            reply_to: Some(JsonText::from(&json!(id))),
            ..blank
        }
    }
}
