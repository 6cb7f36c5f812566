//! `/agents/{…}/sessions`.

use std::sync::Arc;

use axum::extract::State;

use super::answer::{Answer, ok};
use super::extract::{Caller, JsonObject, SessionPath};
use crate::relay::views::SessionJson;
use crate::relay::{RelayError, Service};

pub(super) async fn show(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    SessionPath(agent, session): SessionPath,
) -> Result<Answer<SessionJson>, RelayError> {
    Ok(ok(service.session(&caller, agent, session).await?))
}

pub(super) async fn set_title(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    SessionPath(agent, session): SessionPath,
    body: JsonObject,
) -> Result<Answer<SessionJson>, RelayError> {
    Ok(ok(service.set_session_title(&caller, agent, session, body.text_or_empty("title")?).await?))
}

pub(super) async fn close(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    SessionPath(agent, session): SessionPath,
) -> Result<Answer<SessionJson>, RelayError> {
    Ok(ok(service.close_session(&caller, agent, session).await?))
}
