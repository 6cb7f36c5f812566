//! `/subscriptions` and `/topics`.

use std::sync::Arc;

use axum::extract::State;
use serde_json::Value;

use super::answer::{Answer, ok};
use super::extract::{Caller, JsonObject};
use crate::relay::topics::Subscription;
use crate::relay::{RelayError, Service};

pub(super) async fn subscribe(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    body: JsonObject,
) -> Result<Answer<Value>, RelayError> {
    let subscription = Subscription::parse(body.text("agent")?, body.text("topic")?)?;
    Ok(ok(service.subscribe(&caller, subscription).await?))
}

pub(super) async fn unsubscribe(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    body: JsonObject,
) -> Result<Answer<Value>, RelayError> {
    let subscription = Subscription::parse(body.text("agent")?, body.text("topic")?)?;
    Ok(ok(service.unsubscribe(&caller, subscription).await?))
}

pub(super) async fn list(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
) -> Result<Answer<Value>, RelayError> {
    Ok(ok(service.topics(&caller).await?))
}
