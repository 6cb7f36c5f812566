//! `/healthz` and `/metrics`: for whoever runs the relay, without a token.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::answer::{Answer, ok};
use super::extract::Nearby;
use crate::domain::metrics;
use crate::relay::{RelayError, Service};

/// The store answers.
pub(super) async fn health(State(service): State<Arc<Service>>) -> Result<Answer<Value>, RelayError> {
    service.check_health().await?;
    Ok(ok(json!({"ok": true})))
}

/// To others than this machine it does not exist, unless the configuration says otherwise.
pub(super) async fn metrics(
    State(service): State<Arc<Service>>,
    Nearby(nearby): Nearby,
) -> Result<Response, RelayError> {
    if !nearby && !service.settings().remote_metrics {
        return Err(RelayError::NoSuchCall);
    }
    let text = service.metrics().to_text(service.held_mailboxes(), service.body_bytes());
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}
