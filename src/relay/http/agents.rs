//! `/agents` and `/directory`.

use std::sync::Arc;

use axum::extract::State;
use serde_json::{Value, json};

use super::answer::{Answer, created_if, ok};
use super::extract::{AgentPath, Caller, JsonObject, Params};
use crate::proto::redsyn::keys::KeyAnswer;
use crate::relay::views::AgentJson;
use crate::relay::{RelayError, Service};

pub(super) async fn announce(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    AgentPath(agent): AgentPath,
    JsonObject(body): JsonObject,
) -> Result<Answer<AgentJson>, RelayError> {
    let (agent, created) = service.announce(&caller, agent, &body).await?;
    Ok(created_if(created, agent))
}

pub(super) async fn show(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    AgentPath(agent): AgentPath,
) -> Result<Answer<AgentJson>, RelayError> {
    Ok(ok(service.agent(&caller, agent).await?))
}

pub(super) async fn key(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    AgentPath(agent): AgentPath,
) -> Result<Answer<KeyAnswer>, RelayError> {
    Ok(ok(service.key(&caller, agent).await?))
}

pub(super) async fn directory(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    params: Params,
) -> Result<Answer<Value>, RelayError> {
    let agents = service.directory(&caller, params.flag("online"), params.flag("sessions")).await?;
    Ok(ok(json!({"agents": agents})))
}
