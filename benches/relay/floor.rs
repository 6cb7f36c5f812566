//! What the floor beside the relay checks.

use axum::body::Bytes;
use axum::http::{HeaderMap, Method, Uri};
use redsyn_bridge::store::relay::TokenHash;

pub const TOKEN: &str = "rsn_floor";

pub fn has_token(_: &Method, _: &Uri, headers: &HeaderMap, _: &Bytes) -> bool {
    let header = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
    TokenHash::of(header.trim_start_matches("Bearer ")) == TokenHash::of(TOKEN)
}
