//! Whether a call comes from this machine itself.

use std::net::IpAddr;

/// What proxies add to what they forward.
pub const FORWARDING: [&str; 4] = ["x-forwarded-for", "forwarded", "via", "x-real-ip"];

/// Behind a proxy on this machine every call seems to come from it; what such a proxy forwards says so in a header.
pub fn is_nearby(peer: IpAddr, has_header: impl Fn(&str) -> bool) -> bool {
    peer.to_canonical().is_loopback() && !FORWARDING.into_iter().any(has_header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forwarded_comes_from_elsewhere() {
        let is_nearby = |peer: &str, header: &str| is_nearby(peer.parse().unwrap(), |name| name == header);
        for peer in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(is_nearby(peer, "accept"), "{peer}");
            for header in FORWARDING {
                assert!(!is_nearby(peer, header), "{peer} {header}");
            }
        }
        for peer in ["192.0.2.1", "10.0.0.1", "::", "::ffff:192.0.2.1", "2001:db8::1"] {
            assert!(!is_nearby(peer, "accept"), "{peer}");
        }
    }
}
