//! What a signature of the second generation covers.

use crate::crypto::sha256;

pub const AGENT_HEADER: &str = "x-agent-relay-agent";
pub const KEY_HEADER: &str = "x-agent-relay-key-id";
pub const TIMESTAMP_HEADER: &str = "x-agent-relay-timestamp";
pub const SIGNATURE_HEADER: &str = "x-agent-relay-signature";

/// The parts of a request that are signed.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    /// Lower-case, whatever the header says.
    pub agent: &'a str,
    /// v3 only.
    pub key_id: Option<&'a str>,
    pub timestamp: &'a str,
    pub method: &'a str,
    /// The target of the request line, query included, as it was sent.
    pub target: &'a str,
    pub body: &'a [u8],
}

impl Signed<'_> {
    /// The signed text: one line each, the body as its SHA-256.
    pub fn text(&self) -> String {
        let digest = sha256::hex(self.body);
        let Self { agent, timestamp, method, target, .. } = *self;
        let rest = [timestamp, method, target, &digest];
        let lines = [agent].into_iter().chain(self.key_id).chain(rest);
        lines.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::hmac;

    const SIGNED: Signed<'_> = Signed {
        agent: "test-agent",
        key_id: None,
        timestamp: "1755250000",
        method: "POST",
        target: "/v1/messages",
        body: br#"{"body":"Please review this change","execution_mode":"read","idempotency_key":"dsh:9f2c1a","kind":"request","origin":"dsh","session_ref":"dsh","target":"codex","ttl_seconds":3600}"#,
    };

    #[test]
    fn the_check_vector_of_the_protocol() {
        let tag = hmac::sha256_hex(b"s3cret", &[SIGNED.text().as_bytes()]);
        assert_eq!(tag, "191f619a22bf4d177bfe8f74a1074e5dc4e929e05507269a9584cc2e49513225");
    }

    #[test]
    fn a_key_id_has_a_line_of_its_own() {
        let text = Signed { key_id: Some("k1"), body: b"", ..SIGNED }.text();
        assert!(text.starts_with("test-agent\nk1\n1755250000\nPOST\n/v1/messages\ne3b0c442"), "{text}");
    }
}
