//! The floor of one server: checks who calls, and inserts one row for each request.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};

use crate::common::floor::Rows;

/// Whether a request comes from whom it should: what the server beside the floor checks of each as well.
pub type Check = fn(&Method, &Uri, &HeaderMap, &Bytes) -> bool;

pub fn router(rows: Rows, check: Check) -> Router {
    Router::new().fallback(insert).with_state((rows, check))
}

async fn insert(
    State((rows, check)): State<(Rows, Check)>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    if !check(&method, &uri, &headers, &body) {
        return StatusCode::UNAUTHORIZED;
    }
    rows.insert(body).await;
    StatusCode::CREATED
}
