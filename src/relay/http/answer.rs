//! What every answer has: JSON, the API date it used, and the relay's own time.

use std::sync::{Arc, OnceLock};

use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, DATE, RETRY_AFTER};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::date::http_date;
use super::extract::client_of;
use crate::proto::redsyn::ids::VERSION_HEADER;
use crate::relay::metrics::Counter;
use crate::relay::{RelayError, Service, versions};

/// The API date of this call, once it is known who calls and what they asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct UsedVersion(Arc<OnceLock<&'static str>>);

impl UsedVersion {
    pub(super) fn set(&self, version: &'static str) {
        // Set once per call; a second value would be the same.
        let _ = self.0.set(version);
    }
}

/// Counts the call before anything else is done for it, and puts `Redsyn-Version` and `Date` on every answer, errors included. Clients correct their clock by the second.
pub(super) async fn frame(State(service): State<Arc<Service>>, mut request: Request, next: Next) -> Response {
    let version = UsedVersion::default();
    request.extensions_mut().insert(version.clone());
    // A HEAD would run its GET and throw the answer away: for an inbox, messages leased to nobody.
    let admitted = match client_of(request.headers(), request.extensions(), service.settings()) {
        Some(address) => service.admit_address(address),
        None => Ok(()),
    };
    let mut response = if let Err(error) = admitted {
        error.into_response()
    } else if request.method() == Method::HEAD {
        RelayError::WrongMethod.into_response()
    } else {
        next.run(request).await
    };
    service.metrics().add(
        match response.status().as_u16() {
            ..400 => Counter::AnswersOk,
            400..500 => Counter::AnswersRefused,
            _ => Counter::AnswersFailed,
        },
        1,
    );
    let used = version.0.get().copied().unwrap_or(versions::NEWEST);
    let headers = response.headers_mut();
    headers.insert(VERSION_HEADER, HeaderValue::from_static(used));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(date) = HeaderValue::from_str(&http_date(service.clock().now())) {
        headers.insert(DATE, date);
    }
    response
}

/// A JSON answer with its status.
#[derive(Debug)]
pub(super) struct Answer<T>(pub(super) StatusCode, pub(super) T);

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        (self.0, axum::Json(self.1)).into_response()
    }
}

pub(super) fn ok<T>(value: T) -> Answer<T> {
    Answer(StatusCode::OK, value)
}

pub(super) fn created_if<T>(created: bool, value: T) -> Answer<T> {
    Answer(if created { StatusCode::CREATED } else { StatusCode::OK }, value)
}

impl IntoResponse for RelayError {
    fn into_response(self) -> Response {
        if let Self::Store(error) = &self {
            tracing::error!(%error, "relay_call_failed");
        }
        let body = self.body();
        let status = StatusCode::from_u16(body.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, axum::Json(body)).into_response();
        if let Self::TooMany(wait) = self {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1));
        }
        response
    }
}

pub(super) async fn no_such_call() -> RelayError {
    RelayError::NoSuchCall
}

pub(super) async fn wrong_method() -> RelayError {
    RelayError::WrongMethod
}
