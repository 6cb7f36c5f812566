//! Answers as JSON.

use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::relay::RelayError;

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
        let body = self.body();
        let status = StatusCode::from_u16(body.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, axum::Json(body)).into_response();
        let retry_after = match self {
            Self::TooMany(wait) => Some(wait.as_secs() + 1),
            Self::NoRoom => Some(1),
            _ => None,
        };
        if let Some(secs) = retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(secs));
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
