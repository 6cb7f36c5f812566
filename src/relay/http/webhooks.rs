//! `/agents/{…}/webhook`.

use std::sync::Arc;

use axum::extract::State;
use serde_json::{Value, json};

use super::answer::{Answer, ok};
use super::extract::{AgentPath, Caller, JsonObject};
use crate::relay::{RelayError, Service};

/// The one answer that ever shows the secret.
pub(super) async fn set(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    AgentPath(agent): AgentPath,
    body: JsonObject,
) -> Result<Answer<Value>, RelayError> {
    let webhook = service.set_webhook(&caller, agent, body.text("url")?).await?;
    Ok(ok(json!({"url": webhook.target.as_str(), "secret": webhook.secret.expose()})))
}

pub(super) async fn remove(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    AgentPath(agent): AgentPath,
) -> Result<Answer<Value>, RelayError> {
    service.remove_webhook(&caller, agent).await?;
    Ok(ok(json!({"webhook": null})))
}
