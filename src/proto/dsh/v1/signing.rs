//! What a v1 signature covers, and how far a clock may be off.

use crate::proto::dsh::js;

pub const AGENT_HEADER: &str = "x-relay-agent";
pub const TIMESTAMP_HEADER: &str = "x-relay-timestamp";
pub const SIGNATURE_HEADER: &str = "x-relay-signature";

/// How far the client's clock may be from ours, in seconds.
pub const MAX_SKEW: f64 = 300.0;

/// The signed text in parts: method, target and timestamp, each with a line end, then the body. The target is the
/// one of the request line, query included, before anything was decoded.
pub fn signed<'a>(method: &'a str, target: &'a str, timestamp: &'a str, body: &'a [u8]) -> [&'a [u8]; 7] {
    [method.as_bytes(), b"\n", target.as_bytes(), b"\n", timestamp.as_bytes(), b"\n", body]
}

/// Whether the timestamp of a request is near enough to `now` (Unix seconds).
pub fn is_recent(timestamp: &str, now: i64) -> bool {
    let distance = (js::number(timestamp) - now as f64).abs();
    distance <= MAX_SKEW
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signed_text_is_that_of_the_protocol() {
        let text = signed("POST", "/messages?x=1", "1712345678", b"{}").concat();
        assert_eq!(text, b"POST\n/messages?x=1\n1712345678\n{}");
    }

    #[test]
    fn three_hundred_seconds_either_way() {
        for (timestamp, fits) in [
            ("1000", true),
            ("700", true),
            ("1300", true),
            ("699", false),
            ("1301", false),
            ("1300.5", false),
            ("x", false),
            ("1e999", false),
        ] {
            assert_eq!(is_recent(timestamp, 1000), fits, "{timestamp}");
        }
    }
}
