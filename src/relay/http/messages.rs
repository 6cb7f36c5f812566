//! `/messages` and `/threads`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};

use super::answer::{Answer, ok};
use super::extract::{Caller, CallerIp, IdPath, Json};
use crate::crypto::base64url;
use crate::relay::views::ThreadMessageJson;
use crate::relay::{RelayError, Service};

/// 201 also for a duplicate: the spec names no other status, and `duplicate` says it.
pub(super) async fn send(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    CallerIp(ip): CallerIp,
    Json(envelope): Json,
) -> Result<Answer<Value>, RelayError> {
    let sent = service.send(&caller, ip, envelope).await?;
    let receipt = sent.receipt;
    let mut answer =
        json!({"id": receipt.id, "thread": receipt.thread, "to": receipt.to, "signed": receipt.signed});
    if sent.duplicate {
        answer["duplicate"] = true.into();
    }
    Ok(Answer(StatusCode::CREATED, answer))
}

pub(super) async fn cancel(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    IdPath(id): IdPath,
) -> Result<Answer<Value>, RelayError> {
    service.cancel(&caller, id.clone()).await?;
    Ok(ok(json!({"id": id, "cancelled": true})))
}

pub(super) async fn files(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    IdPath(id): IdPath,
) -> Result<Answer<Value>, RelayError> {
    let zip = service.files(&caller, id).await?;
    Ok(ok(json!({"zip": base64url::zip_encode(&zip)})))
}

#[derive(Debug, Serialize)]
pub(super) struct Thread {
    thread: String,
    items: Vec<ThreadMessageJson>,
}

pub(super) async fn thread(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    IdPath(id): IdPath,
) -> Result<Answer<Thread>, RelayError> {
    let items = service.thread(&caller, id.to_string()).await?;
    Ok(ok(Thread { thread: id.to_string(), items }))
}
