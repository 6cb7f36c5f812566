//! Where servers listen: an address, or the name of a machine.

use std::net::{IpAddr, Ipv4Addr};

/// The longest name that DNS knows.
const LONGEST: usize = 253;

/// The two parts of `host:port`, an IPv6 address without its brackets.
pub(super) fn and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some((host, port.parse().ok()?))
}

/// Whether the text can be an address or a name at all.
pub(super) fn is_one(host: &str) -> bool {
    let label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        !label.is_empty() && label.bytes().all(plain)
    };
    // Digits alone are an address that is not one, such as 127.0.0.
    let digits = host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    host.parse::<IpAddr>().is_ok() || (host.len() <= LONGEST && !digits && host.split('.').all(label))
}

/// Whether only this machine can reach what listens there.
pub(super) fn is_loopback(host: &str) -> bool {
    address(host).is_some_and(|address| address.is_loopback())
}

/// Whether nobody can listen on the same port of the other one, too.
pub(super) fn overlap(one: &str, other: &str) -> bool {
    match (address(one), address(other)) {
        (Some(one), Some(other)) => one == other || one.is_unspecified() || other.is_unspecified(),
        _ => one.eq_ignore_ascii_case(other),
    }
}

fn address(host: &str) -> Option<IpAddr> {
    match host {
        "localhost" => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        host => host.parse().ok(),
    }
}
