//! What the floor beside the broker checks.

use axum::body::Bytes;
use axum::http::{HeaderMap, Method, Uri};
use redsyn_bridge::crypto::hmac;

use crate::agent::SECRET;

pub fn is_signed(method: &Method, uri: &Uri, headers: &HeaderMap, body: &Bytes) -> bool {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let parts: [&[u8]; 7] = [
        method.as_str().as_bytes(),
        b"\n",
        target.as_bytes(),
        b"\n",
        header("x-relay-timestamp").as_bytes(),
        b"\n",
        body,
    ];
    hmac::verify_hex(SECRET.as_bytes(), &parts, header("x-relay-signature"))
}
