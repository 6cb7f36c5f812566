//! The `Date` header from the relay's own clock, so that tests can move it and clients learn it.

use std::time::{Duration, UNIX_EPOCH};

use crate::domain::clock::Timestamp;

/// The last second an HTTP date can say.
const LAST: u64 = 253_402_300_799;

pub(super) fn http_date(now: Timestamp) -> String {
    let secs = u64::try_from(now.secs()).unwrap_or(0).min(LAST);
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(secs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_the_clocks_time() {
        assert_eq!(http_date(Timestamp::from_millis(1_790_000_000_999)), "Mon, 21 Sep 2026 14:13:20 GMT");
        assert_eq!(http_date(Timestamp::from_secs(-5)), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(http_date(Timestamp::from_secs(i64::MAX)), "Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
