//! Where a webhook may point: `https` and a public host name, and at the end of that name only public addresses.
//! Both are asked: the name when it is registered and again before each delivery, the addresses at each delivery.
//! Otherwise whoever registers a webhook could make the relay talk to machines that only the relay reaches.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// The longest target: what any server takes as a request line.
const URL_MAX: usize = 2000;
/// Below this, every port but 443 belongs to another protocol, which a POST could be made to speak.
const FIRST_FREE_PORT: u16 = 1024;
const HTTPS_PORT: u16 = 443;
/// Last labels of names that mean something only inside a network (RFC 6761, 6762, 8375 and custom).
const PRIVATE_SUFFIXES: &[&str] = &[
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "arpa",
    "onion",
    "invalid",
];
/// The one cloud metadata service at an address that is not reserved.
const AZURE_WIRE: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// Why a target is refused; in words for whoever registered it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("url must be an https address of at most {URL_MAX} characters")]
    NotHttps,
    #[error("url must not carry a user name or password")]
    UserInfo,
    #[error("url must name a public host, not an address or a name of a private network")]
    NotPublicName,
    #[error("url must use port 443 or one from {FIRST_FREE_PORT} on")]
    Port,
    /// For the log: what a name resolves to is not for whoever registered it.
    #[error("the host does not resolve to public addresses only")]
    NotPublicAddress,
}

/// A target whose name is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target(Url);

impl Target {
    /// `insecure` takes any `http` and `https` address: for tests alone.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, insecure: bool) -> Result<Self, TargetError> {
        if text.len() > URL_MAX {
            return Err(TargetError::NotHttps);
        }
        // What a URL parser drops or mends, two parsers may read differently.
        if text.chars().any(|letter| letter.is_control() || letter.is_whitespace() || letter == '\\') {
            return Err(TargetError::NotHttps);
        }
        let url = Url::parse(text).map_err(|_| TargetError::NotHttps)?;
        // It is kept as it is written here, which takes more room where letters are escaped.
        if url.as_str().len() > URL_MAX {
            return Err(TargetError::NotHttps);
        }
        if insecure && matches!(url.scheme(), "http" | "https") && url.host().is_some() {
            return Ok(Self(url));
        }
        if url.scheme() != "https" {
            return Err(TargetError::NotHttps);
        }
        if !url.username().is_empty() || url.password().is_some() || authority(text).contains('@') {
            return Err(TargetError::UserInfo);
        }
        match url.host() {
            // The parser has turned numeric forms (0x7f.1, 2130706433, 127.1) into addresses.
            Some(Host::Domain(name)) if is_public_name(name) => {}
            _ => return Err(TargetError::NotPublicName),
        }
        match url.port() {
            None | Some(HTTPS_PORT | FIRST_FREE_PORT..) => Ok(Self(url)),
            Some(_) => Err(TargetError::Port),
        }
    }

    pub fn url(&self) -> &Url {
        &self.0
    }

    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// What stands between `//` and the path.
fn authority(text: &str) -> &str {
    let rest = text.split_once("//").map_or("", |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

fn is_public_name(name: &str) -> bool {
    // A trailing dot names the same host and would slip past a comparison.
    if name.ends_with('.') || name.len() > 253 {
        return false;
    }
    let Some((_, last)) = name.rsplit_once('.') else { return false };
    // What ends in a number is an address to some resolver or other.
    let numeric = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
    !numeric && !PRIVATE_SUFFIXES.contains(&last)
}

/// All of them or none: of a mixed answer, a client might pick the private one.
///
/// # Errors
/// When there is none, or one is not public.
pub fn check_addresses(addresses: &[IpAddr]) -> Result<(), TargetError> {
    if !addresses.is_empty() && addresses.iter().all(|address| is_public(*address)) {
        Ok(())
    } else {
        Err(TargetError::NotPublicAddress)
    }
}

/// Whether an address belongs to a machine on the public Internet, also behind the forms of IPv6 that carry one of
/// IPv4.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let reserved = match (a, b, c) {
        // This network, private, loopback, link-local (with cloud metadata), multicast and what lies above it.
        (0 | 10 | 127 | 224..=255, _, _) | (169, 254, _) | (172, 16..=31, _) | (192, 168, _) => true,
        // Carrier NAT, protocol assignments, documentation, 6to4 relays, AS112, benchmarks.
        (100, 64..=127, _) | (192, 0, 0 | 2) | (192, 31, 196) | (192, 52, 193) | (192, 88, 99) => true,
        (192, 175, 48) | (198, 18 | 19, _) | (198, 51, 100) | (203, 0, 113) => true,
        _ => false,
    };
    !reserved && address != AZURE_WIRE
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    match segments {
        // ::ffff:a.b.c.d and 64:ff9b::a.b.c.d (NAT64): as public as what they carry.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let [a, b] = high.to_be_bytes();
            let [c, d] = low.to_be_bytes();
            is_public_v4(Ipv4Addr::new(a, b, c, d))
        }
        // Protocol assignments with Teredo and ORCHID, documentation, 6to4: all inside 2000::/3.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // Everything public lies here; loopback, unique local, link-local and multicast do not.
        [0x2000..=0x3fff, ..] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &[&str] = &[
        "",
        "https://",
        "https:///x",
        "https:hooks",
        "hooks.acme.example",
        "//hooks.acme.example/x",
        "http://hooks.acme.example/",
        "ftp://hooks.acme.example/",
        "file:///etc/passwd",
        "gopher://hooks.acme.example/",
        "javascript:alert(1)",
        "https://localhost/",
        "https://LOCALHOST/",
        "https://localhost./",
        "https://a.localhost/",
        "https://printer/",
        "https://printer.local/",
        "https://db.internal/",
        "https://metadata.google.internal/computeMetadata/v1/",
        "https://router.lan/",
        "https://nas.home.arpa/",
        "https://dc.corp/",
        "https://hooks.acme.example./",
        "https://127.0.0.1/",
        "https://127.1/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0x7f.0.0.1/",
        "https://0177.0.0.1/",
        "https://0/",
        "https://10.0.0.1/",
        "https://169.254.169.254/latest/meta-data/",
        "https://8.8.8.8/",
        "https://1.2.3.4.5/",
        "https://hooks.acme.0x7f/",
        "https://１２７.0.0.1/",
        "https://127。0。0。1/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[64:ff9b::7f00:1]/",
        "https://[fd00:ec2::254]/",
        "https://[fe80::1%25eth0]/",
        "https://[2606:4700::1111]/",
        "https://user@hooks.acme.example/",
        "https://user:secret@hooks.acme.example/",
        "https://@hooks.acme.example/",
        "https://hooks.acme.example@127.0.0.1/",
        "https://hooks.acme.example:22/",
        "https://hooks.acme.example:25/",
        "https://hooks.acme.example:80/",
        "https://hooks.acme.example:0/",
        "https://hooks.acme.example:99999/",
        "https://hooks.acme.example:-1/",
        "https://hooks acme.example/",
        " https://hooks.acme.example/",
        "https://hooks.acme.example/\r\nX: y",
        "https://hooks.acme\t.example/",
        "https:\\\\hooks.acme.example\\",
        "https://hooks.acme.example\\@127.0.0.1/",
        "https://hooks.%00.example/",
    ];

    /// It was taken, kept as it is escaped, and then refused at every push.
    #[test]
    fn a_target_is_not_too_long_once_it_is_escaped() {
        let short = format!("https://hooks.acme.example/{}", "ñ".repeat(320));
        let target = Target::parse(&short, false).unwrap();
        assert_eq!(Target::parse(target.as_str(), false), Ok(target));
        let long = format!("https://hooks.acme.example/{}", "ñ".repeat(400));
        assert!(long.len() < URL_MAX);
        assert_eq!(Target::parse(&long, false), Err(TargetError::NotHttps));
    }

    #[test]
    fn hostile_targets_are_refused() {
        assert!(HOSTILE.len() >= 40);
        for target in HOSTILE {
            assert!(Target::parse(target, false).is_err(), "{target:?}");
        }
        let long = format!("https://hooks.acme.example/{}", "x".repeat(URL_MAX));
        assert_eq!(Target::parse(&long, false), Err(TargetError::NotHttps));
    }

    #[test]
    fn public_names_are_taken_as_they_are() {
        for target in [
            "https://hooks.acme.example/redsyn?x=1",
            "https://hooks.acme.example:443/",
            "https://hooks.acme.example:8443/a@b",
            "https://xn--mxico-bsa.example/",
            "HTTPS://Hooks.Acme.Example/",
        ] {
            assert!(Target::parse(target, false).is_ok(), "{target}");
        }
    }

    #[test]
    fn tests_may_point_anywhere_on_the_web() {
        assert!(Target::parse("http://127.0.0.1:8080/", true).is_ok());
        assert!(Target::parse("ftp://127.0.0.1/", true).is_err());
    }

    const PRIVATE: &[&str] = &[
        "0.0.0.0",
        "0.1.2.3",
        "10.1.2.3",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::8.8.8.8",
        "100::1",
        "2001::1",
        "2001:2::1",
        "2001:20::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:808:808::1",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ];

    #[test]
    fn private_addresses_are_known_in_every_form() {
        for address in PRIVATE {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        let public =
            ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"];
        for address in public {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn one_private_address_spoils_the_answer() {
        let of = |texts: &[&str]| -> Vec<IpAddr> { texts.iter().map(|text| text.parse().unwrap()).collect() };
        assert!(check_addresses(&of(&["8.8.8.8", "2606:4700::1111"])).is_ok());
        for bad in [&[][..], &["10.0.0.1"], &["8.8.8.8", "127.0.0.1"], &["::1", "8.8.8.8"]] {
            assert_eq!(check_addresses(&of(bad)), Err(TargetError::NotPublicAddress), "{bad:?}");
        }
    }
}
