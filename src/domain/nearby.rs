//! Whether a call comes from this machine itself, and was meant for it.

use std::net::IpAddr;

/// What proxies add to what they forward.
pub const FORWARDING: [&str; 4] = ["x-forwarded-for", "forwarded", "via", "x-real-ip"];

/// Behind a proxy on this machine every call seems to come from it; what such a proxy forwards says so in a header.
pub fn is_nearby(peer: IpAddr, has_header: impl Fn(&str) -> bool) -> bool {
    peer.to_canonical().is_loopback() && !FORWARDING.into_iter().any(has_header)
}

/// Whether the `Host` headers of a request name us as no web page of a stranger can: by an address, as `localhost`, or
/// as `own`, with any port. A page that lets its own name point to this machine is shown our answers by the browser, as
/// if they were its server's; what it cannot do is call us by another name. Programs need not send the header.
pub fn is_called_by_our_name<'a>(hosts: impl IntoIterator<Item = &'a [u8]>, own: &str) -> bool {
    hosts.into_iter().all(|host| std::str::from_utf8(host).is_ok_and(|host| is_ours(host, own)))
}

fn is_ours(host: &str, own: &str) -> bool {
    if let Some(literal) = host.strip_prefix('[') {
        return literal.split_once(']').is_some_and(|(ip, _)| ip.parse::<IpAddr>().is_ok());
    }
    let name = host.split_once(':').map_or(host, |(name, _)| name);
    // An empty one stands for none.
    name.is_empty()
        || name.parse::<IpAddr>().is_ok()
        || [own, "localhost"].iter().any(|ours| name.eq_ignore_ascii_case(ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_of_a_stranger_is_not_ours() {
        let is_ours =
            |hosts: &[&str]| is_called_by_our_name(hosts.iter().map(|host| host.as_bytes()), "broker.lan");
        for ours in [
            "127.0.0.1",
            "127.0.0.1:8787",
            "192.0.2.1:1",
            "[::1]",
            "[::1]:8787",
            "localhost",
            "LocalHost:1",
            "broker.lan",
            "Broker.LAN:8787",
            "",
        ] {
            assert!(is_ours(&[ours]), "{ours}");
            assert!(!is_ours(&[ours, "page.example"]), "{ours}");
        }
        assert!(is_ours(&[]));
        for strange in [
            "page.example",
            "page.example:8787",
            "127.0.0.1.page.example",
            "localhost.page.example:8787",
            "xlocalhost",
            "localhost@page.example",
            "[page.example]",
            "[::1",
            "page.example:127.0.0.1",
            "lan",
        ] {
            assert!(!is_ours(&[strange]), "{strange}");
        }
        assert!(!is_called_by_our_name([&b"\xff"[..]], "broker.lan"));
    }

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
