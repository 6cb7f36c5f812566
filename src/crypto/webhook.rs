//! The `Redsyn-Signature` header of a webhook delivery (section Webhooks):
//! `t=<unix seconds>,v1=<hex HMAC-SHA256 of "<t>.<body>">`. The key is the secret's text in UTF-8, as it was given.

use super::hmac;
use super::secret::Secret;

/// How far `t` may be from the receiver's clock, in seconds; exactly this far still counts.
pub const WINDOW_SECS: u64 = 300;

/// More digits than this are no time of ours, and would overflow.
const MAX_TIME_DIGITS: usize = 15;

/// The header for a delivery made at `t` (Unix seconds).
pub fn header(secret: &Secret, t: i64, body: &[u8]) -> String {
    let t = t.to_string();
    let v1 = hmac::sha256_hex(secret.expose().as_bytes(), &[t.as_bytes(), b".", body]);
    format!("t={t},v1={v1}")
}

/// Whether the header was made with `secret` over `body`, at most five minutes from `now` (Unix seconds).
/// Parts nobody knows are ignored and their order is free; of a part that appears twice the last one counts.
pub fn verify(secret: &Secret, header: &str, body: &[u8], now: i64) -> bool {
    let mut t = None;
    let mut v1 = None;
    for part in header.split(',') {
        match part.trim().split_once('=') {
            Some(("t", value)) => t = Some(value),
            Some(("v1", value)) => v1 = Some(value),
            _ => {}
        }
    }
    let (Some(t), Some(v1)) = (t, v1) else { return false };
    let Some(sent) = parse_time(t) else { return false };
    now.abs_diff(sent) <= WINDOW_SECS
        && hmac::verify_hex(secret.expose().as_bytes(), &[t.as_bytes(), b".", body], &v1.to_ascii_lowercase())
}

fn parse_time(text: &str) -> Option<i64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit()) && text.len() <= MAX_TIME_DIGITS;
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_790_000_000;

    fn secret() -> Secret {
        Secret::new("whsec_test".to_owned())
    }

    #[test]
    fn what_is_made_is_verified() {
        let made = header(&secret(), NOW, b"{}");
        assert!(made.starts_with("t=1790000000,v1="));
        assert!(verify(&secret(), &made, b"{}", NOW));
        assert!(!verify(&secret(), &made, b"{} ", NOW));
        assert!(!verify(&Secret::new("whsec_other".to_owned()), &made, b"{}", NOW));
    }

    #[test]
    fn the_window_includes_its_edges() {
        let made = header(&secret(), NOW, b"");
        for (now, expected) in [(300, true), (-300, true), (301, false), (-301, false)] {
            assert_eq!(verify(&secret(), &made, b"", NOW + now), expected, "{now}");
        }
    }

    #[test]
    fn the_header_is_read_by_parts() {
        let made = header(&secret(), NOW, b"x");
        let v1 = made.split_once(",v1=").unwrap().1;
        for good in
            [format!("v1={v1},t={NOW}"), format!("t={NOW},v0=1,v1={v1},later"), format!("t={NOW}, v1={v1}")]
        {
            assert!(verify(&secret(), &good, b"x", NOW), "{good}");
        }
        for bad in [
            String::new(),
            format!("t={NOW}"),
            format!("v1={v1}"),
            format!("t=,v1={v1}"),
            format!("t=now,v1={v1}"),
            format!("t=+{NOW},v1={v1}"),
            format!("t=-{NOW},v1={v1}"),
            format!("t={NOW}.0,v1={v1}"),
            format!("t=99999999999999999999,v1={v1}"),
        ] {
            assert!(!verify(&secret(), &bad, b"x", NOW), "{bad}");
        }
    }
}
