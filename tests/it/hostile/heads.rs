//! Methods, targets and headers that nobody should send.

use std::collections::BTreeSet;

use super::broker::{ATTACKER, Besieged, By, Wire, is_no_http, judged};
use super::bytes::Dice;
use super::endpoints::{ENDPOINTS, Endpoint, Generation};
use super::halves::half_closed;

/// Sends a request that may be no HTTP any more. What is answered as HTTP is answered as all else.
#[track_caller]
fn answered(besieged: &mut Besieged, bytes: &[u8], is_head: bool) -> u16 {
    let shown = || String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned();
    let answer = besieged.exchange(bytes, is_head).unwrap_or_else(|| panic!("no answer to {}", shown()));
    if answer.body.is_empty() && !is_head {
        is_no_http(&answer, &shown());
    } else {
        judged(&answer, is_head, &shown);
    }
    answer.status
}

fn send_endpoint() -> &'static Endpoint {
    let mut sends = ENDPOINTS.iter().filter(|endpoint| endpoint.generation == Generation::V1);
    sends.find(|endpoint| endpoint.target == "/messages").unwrap()
}

#[test]
fn every_endpoint_answers_every_method() {
    let mut besieged = Besieged::start();
    for endpoint in ENDPOINTS {
        for method in
            ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW", "get", "POST\u{1}"]
        {
            for by in [By::Agent(ATTACKER), By::Nobody] {
                let wire = Wire { method, ..Wire::of(endpoint, endpoint.body()) };
                let status = answered(&mut besieged, &wire.bytes(by), method == "HEAD");
                // Two endpoints share a path, so some other methods are right; none changes what is stored.
                let known = method == endpoint.method || ["GET", "POST"].contains(&method);
                assert!(known || matches!(status, 400..=404), "{method} {endpoint:?}: {status}");
            }
        }
        for generation in [Generation::V1, Generation::V2] {
            besieged.emptied(generation, "victim");
        }
        besieged.still_works();
    }
}

#[test]
fn targets_that_are_no_paths_are_answered() {
    let mut besieged = Besieged::start();
    let long = format!("/messages/{}/ack", "a".repeat(60_000));
    let longer = format!("/{}", "a".repeat(1_000_000));
    let dots = "/..".repeat(5_000);
    let query = format!("/messages?{}", "since=%00&".repeat(5_000));
    let targets: Vec<&[u8]> = vec![
        b"*",
        b"//",
        b"///",
        b"http://",
        b"http://[::1",
        b"http://user:password@host/peers",
        b"ftp://host/peers",
        b"x:y:z",
        b"peers",
        b"\\peers",
        b"/%",
        b"/%zz",
        b"/%00",
        b"/peers%00",
        b"/peers%2f..%2f",
        b"/%70%65%65%72%73",
        b"/peers?",
        b"/peers#x",
        b"/peers;x=y",
        b"/PEERS",
        b"/peers/",
        b"/messages?limit=1e999&since=",
        b"/messages?limit=-0&limit=9999999999999999999999",
        b"/messages?limit=%ff&since=%ed%a0%80",
        b"/messages?since=%00",
        b"/messages?since=' OR 1=1 --",
        b"/messages?=&&&==&?",
        b"/messages//ack",
        b"/messages/%2e%2e/ack",
        b"/messages/%00/ack",
        b"/messages/%ff%fe/ack",
        b"/messages/\xff/ack",
        b"/messages/\xed\xa0\x80/ack",
        "/messages/🦀/ack".as_bytes(),
        b"/messages/a\x00b/ack",
        b"/messages/a\x7fb/ack",
        b"/messages/a\tb/ack",
        b"/messages/a b/ack",
        b"/bridge/v1/messages/%00/files",
        b"/bridge/v1/messages/%2e%2e%2f%2e%2e%2fetc/files",
        b"/bridge/v1/messages/../../files",
        b"/v1/../v1/pull",
        long.as_bytes(),
        longer.as_bytes(),
        dots.as_bytes(),
        query.as_bytes(),
    ];
    for target in targets {
        for method in ["GET", "POST", "PUT"] {
            for generation in [Generation::V1, Generation::V2] {
                let wire = Wire {
                    generation,
                    method,
                    target: target.to_vec(),
                    ..Wire::of(send_endpoint(), b"{}".to_vec())
                };
                for by in [By::Agent(ATTACKER), By::Nobody] {
                    answered(&mut besieged, &wire.bytes(by), false);
                }
            }
        }
    }
    besieged.nothing_but(&BTreeSet::new());
    besieged.still_works();
}

#[test]
fn headers_without_measure_are_answered() {
    let mut besieged = Besieged::start();
    let headers =
        |name: &str, value: &[u8], count: usize| vec![(name.as_bytes().to_vec(), value.to_vec()); count];
    let mut cases = vec![
        headers("x", b"", 90),
        headers("x", b"", 5_000),
        headers("x", &[b'y'; 8_000], 1),
        headers("x", &[b'y'; 100_000], 1),
        headers("x", &[b'y'; 1_000_000], 1),
        headers("x", b"\xff\xed\xa0\x80", 3),
        headers("x", b"a\x00b", 1),
        headers("x", b"a\rb", 1),
        headers("x y", b"", 1),
        headers("", b"x", 1),
        headers("x\u{e9}", b"", 1),
        headers(" x", b"folded", 1),
        headers("host", b"\xff", 2),
        headers("transfer-encoding", b"gzip", 1),
        headers("connection", b"upgrade", 1),
        headers("upgrade", b"h2c", 1),
        headers("expect", b"a miracle", 1),
        headers("content-encoding", b"gzip", 1),
        headers("content-length", b"-1", 1),
        headers("content-length", b"18446744073709551616", 1),
        headers("content-length", b"1e3", 1),
    ];
    // Those that say who calls, repeated and spoilt.
    for family in ["x-relay", "x-agent-relay"] {
        for what in ["agent", "key-id", "timestamp", "signature"] {
            for value in [
                &b""[..],
                b" ",
                b"alpha",
                b"\xff\xfe\xfd",
                b"../..",
                b"1e999",
                b"-0",
                b"99999999999999999999999999",
                b"NaN",
                b"0x",
                &[b'a'; 9_000],
                &[b'f'; 64],
                &[b'f'; 63],
            ] {
                cases.push(headers(&format!("{family}-{what}"), value, 1));
                cases.push(headers(&format!("{family}-{what}"), value, 2));
            }
        }
    }
    for headers in cases {
        for by in [By::Nobody, By::Agent(ATTACKER)] {
            let endpoint = send_endpoint();
            // A body that is refused, signed or not.
            let wire = Wire { headers: headers.clone(), ..Wire::of(endpoint, b"{}".to_vec()) };
            let status = answered(&mut besieged, &wire.bytes(by), false);
            assert!(status >= 400, "{:?}", headers[0]);
        }
    }
    besieged.nothing_but(&BTreeSet::new());
    besieged.still_works();
}

/// Bytes that are no HTTP end the connection, with a status or without, and nothing else.
#[test]
fn what_is_no_http_ends_its_connection() {
    let mut besieged = Besieged::start();
    let mut dice = Dice::new(7);
    let mut cases: Vec<Vec<u8>> = [
        &b"\r\n\r\n\r\n"[..],
        b"\n",
        b"GET\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\nx\r\n\r\n",
        b"GET / HTTP/1.1\r\n: y\r\n\r\n",
        b"GET  /  HTTP/1.1\r\n\r\n",
        b"*1\r\n$4\r\nPING\r\n",
    ]
    .iter()
    .map(|bytes| bytes.to_vec())
    .collect();
    cases.extend((0..60).map(|_| dice.bytes(2_000)));
    cases.extend((0..60).map(|_| {
        let request = Wire::of(send_endpoint(), b"{}".to_vec()).bytes(By::Nobody);
        dice.damaged(request)
    }));
    for bytes in cases {
        let answer = half_closed(besieged.broker.port, &bytes);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1."), "{answer} {bytes:?}");
        assert!(!answer.contains(" 5"), "{answer} {bytes:?}");
    }
    besieged.nothing_but(&BTreeSet::new());
    besieged.still_works();
}

/// What a connection may hold in memory. The Node broker takes heads of 16 KiB.
#[test]
fn a_head_may_be_as_long_as_the_reference_takes_it_and_not_much_longer() {
    let mut besieged = Besieged::start();
    for (length, status) in [(16 * 1024, 200), (40 * 1024, 431)] {
        let padding = "x".repeat(length - 50);
        let head = format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {padding}\r\n\r\n");
        assert_eq!(besieged.exchange(head.as_bytes(), false).unwrap().status, status, "{length}");
    }
    besieged.still_works();
}
