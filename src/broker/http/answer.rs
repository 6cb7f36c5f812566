//! Answers as HTTP: JSON with a status, never kept by anybody on the way.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::domain::metrics::CONTENT_TYPE;
use crate::proto::dsh::error::{ApiError, Code};

/// A JSON body with its status.
pub(super) struct Answer {
    status: StatusCode,
    body: Vec<u8>,
    content_type: &'static str,
    /// Why it says no.
    refused: Option<Code>,
}

/// When trouble of our own may be over, in seconds.
const RETRY_AFTER: &str = "1";
const JSON: &str = "application/json; charset=utf-8";

impl Answer {
    pub(super) fn ok(body: &impl Serialize) -> Result<Self, ApiError> {
        Self::with(StatusCode::OK, body)
    }

    pub(super) const fn zip(body: Vec<u8>) -> Self {
        Self { status: StatusCode::OK, body, content_type: "application/zip", refused: None }
    }

    pub(super) fn metrics(text: String) -> Self {
        let (status, body) = (StatusCode::OK, text.into_bytes());
        Self { status, body, content_type: CONTENT_TYPE, refused: None }
    }

    /// An error, for whoever asks how we are: it says so in the words of an answer that is well, too.
    pub(super) fn unwell(error: &ApiError) -> Self {
        Self::error(error, &Unwell { ok: false, error: error.body() })
    }

    fn error(error: &ApiError, body: &impl Serialize) -> Self {
        let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        // A code and a text always serialize.
        let body = serde_json::to_vec(body).unwrap_or_default();
        Self { status, body, content_type: JSON, refused: Some(error.code()) }
    }

    pub(super) const fn refused(&self) -> Option<Code> {
        self.refused
    }

    pub(super) fn with(status: StatusCode, body: &impl Serialize) -> Result<Self, ApiError> {
        let body = serde_json::to_vec(body).map_err(|error| {
            tracing::error!(%error, "answer_not_serialized");
            ApiError::busy()
        })?;
        Ok(Self { status, body, content_type: JSON, refused: None })
    }
}

#[derive(Serialize)]
struct Unwell<E> {
    ok: bool,
    #[serde(flatten)]
    error: E,
}

impl From<ApiError> for Answer {
    fn from(error: ApiError) -> Self {
        Self::error(&error, &error.body())
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.refused == Some(Code::Busy) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
        }
        response
    }
}
