//! `POST /v1/messages`: a request that the lists allow, or a reply to what was received.

use std::time::Duration;

use super::V2;
use crate::broker::carrier::Route;
use crate::broker::service::{busy, names_files, no_files_here};
use crate::proto::dsh::error::{ApiError, Code};
use crate::proto::dsh::names::{DshId, brief};
use crate::proto::dsh::v2::message::Kind;
use crate::proto::dsh::v2::name::Name;
use crate::proto::dsh::v2::request::{Content, Create};
use crate::proto::dsh::v2::{PROTOCOL_VERSION, answer};
use crate::store::v2::NewMessage;

impl V2 {
    /// # Errors
    /// `forbidden` by the lists, for the name of a contact or for a reply that is not the caller's to give,
    /// `no_such_message`, `busy`.
    pub async fn create(&self, agent: Name, mut request: Create) -> Result<answer::Created, ApiError> {
        self.is_no_contact(&agent)?;
        let redsyn = request.redsyn.take();
        let mut message = self.message(agent, request).await?;
        let route = self.carrier.route_v2(&message.origin, &message.target);
        if route != Route::Away && self.carrier.parcels().is_some() && names_files(redsyn.as_ref()) {
            return Err(no_files_here());
        }
        if let Route::LocalAs(own) = &route {
            message.target = Name::of(own.as_str());
        }
        let (agent, inbox, kind) = (message.origin.clone(), message.target.clone(), message.kind.as_str());
        let created = match route {
            Route::Away => self.carrier.send_v2(message, redsyn).await?,
            Route::Local | Route::LocalAs(_) => {
                let (bell, to) = (self.bell.clone(), inbox.clone());
                self.store.create(message, to.clone(), move |_| bell.wake(&to)).await.map_err(busy)?
            }
        };
        if !created.duplicate {
            self.pulse().created();
        }
        tracing::info!(
            id = ?brief(created.id.as_str()),
            from = ?brief(agent.as_str()),
            to = ?brief(inbox.as_str()),
            kind,
            duplicate = created.duplicate,
            "v2_message_accepted"
        );
        Ok(answer::Created {
            message_id: created.id,
            created: !created.duplicate,
            protocol_version: PROTOCOL_VERSION,
            conflict: created.conflict,
        })
    }

    async fn message(&self, agent: Name, request: Create) -> Result<NewMessage, ApiError> {
        let Create { target, body, context, idempotency_key, ttl_seconds, content, .. } = request;
        let created_at = self.clock.now();
        let expires_at = created_at.plus(Duration::from_secs(ttl_seconds.into()));
        let id = DshId::new(self.random.hex::<16>());
        match content {
            Content::Request { mode, session_ref, topic, allow_shared_write, root_id, parent_id } => {
                let known_as = self.carrier.known_as_v2(&agent, &target);
                if !self.access.get().acl_v2.allows(&agent, &target, &known_as, mode) {
                    let text = format!("target is not allowed for {} mode", mode.as_str());
                    return Err(ApiError::new(Code::Forbidden, text));
                }
                let root_id = root_id.unwrap_or_else(|| self.random.hex::<16>());
                let (origin, kind) = (agent, Kind::Request);
                Ok(NewMessage {
                    id,
                    root_id,
                    parent_id,
                    origin,
                    target,
                    kind,
                    body,
                    session_ref,
                    mode,
                    context,
                    topic,
                    allow_shared_write,
                    idempotency_key,
                    created_at,
                    expires_at,
                })
            }
            Content::Reply { parent_id } => {
                let parent = self.store.lookup(parent_id).await.map_err(busy)?.ok_or_else(no_parent)?;
                let answered = parent.message;
                if parent.inbox.as_ref() != Some(&agent) || answered.origin != target {
                    return Err(ApiError::new(Code::Forbidden, "reply is not authorized for this message"));
                }
                Ok(NewMessage {
                    id,
                    parent_id: Some(answered.id.to_string()),
                    origin: agent,
                    target,
                    kind: Kind::Reply,
                    body,
                    context,
                    allow_shared_write: false,
                    idempotency_key,
                    created_at,
                    expires_at,
                    // The conversation stays what it was.
                    ..answered
                })
            }
        }
    }
}

fn no_parent() -> ApiError {
    ApiError::new(Code::NoSuchMessage, "parent relay message was not found")
}
