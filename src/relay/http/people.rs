//! `/me` and `/nodes/key`.

use std::sync::Arc;

use axum::extract::State;
use serde_json::{Value, json};

use super::answer::{Answer, ok};
use super::extract::{Caller, JsonObject};
use crate::proto::redsyn::keys::KeyRegistration;
use crate::relay::{RelayError, Service};

pub(super) async fn me(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
) -> Result<Answer<Value>, RelayError> {
    Ok(ok(service.me(&caller).await?))
}

pub(super) async fn register_key(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    JsonObject(body): JsonObject,
) -> Result<Answer<Value>, RelayError> {
    let key: KeyRegistration = serde_json::from_value(Value::Object(body))
        .map_err(|error| RelayError::Invalid(error.to_string()))?;
    let registered = service.register_key(&caller, key).await?;
    Ok(ok(json!({
        "node": caller.node_name,
        "public_key": registered.key.public_key,
        "enc_key": registered.key.enc_key,
        "fingerprint": registered.fingerprint,
    })))
}
