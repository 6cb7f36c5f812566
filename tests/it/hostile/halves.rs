//! Requests that come in pieces, or never to their end.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use super::broker::{ATTACKER, Besieged, By, Wire, is_no_http, judged};
use super::endpoints::{Endpoint, Generation};
use crate::golden::client::Connection;

const SEND: Endpoint =
    Endpoint { generation: Generation::V1, method: "POST", target: "/messages", members: &[], open: false };

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_nodelay(true).unwrap();
    // A hang is a failure; no answer takes nearly as long.
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Sends bytes, then the end, and gives all that comes back until the other side ends too.
pub(super) fn half_closed(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(port);
    // It may have heard enough before the end.
    let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write));
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "a hang after {bytes:?}");
    }
    answer
}

fn send(id: &str) -> Vec<u8> {
    let body = format!(r#"{{"to":"victim","id":"{id}","body":{{"text":"half or whole"}}}}"#);
    Wire::of(&SEND, body.into_bytes()).bytes(By::Agent(ATTACKER))
}

#[test]
fn a_request_that_ends_early_stores_nothing() {
    let mut besieged = Besieged::start();
    let whole = send("half");
    for end in (0..whole.len()).step_by(3) {
        let answer = half_closed(besieged.broker.port, &whole[..end]);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    besieged.nothing_but(&BTreeSet::new());
    besieged.still_works();
}

#[test]
fn a_connection_that_breaks_inside_a_body_stores_nothing() {
    let mut besieged = Besieged::start();
    let whole = send("broken");
    let head = whole.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    for end in head..whole.len() {
        connect(besieged.broker.port).write_all(&whole[..end]).unwrap();
    }
    besieged.nothing_but(&BTreeSet::new());
    besieged.still_works();
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let mut besieged = Besieged::start();
    let mut stream = connect(besieged.broker.port);
    for byte in send("slow") {
        stream.write_all(&[byte]).unwrap();
    }
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 201");
    assert_eq!(besieged.emptied(Generation::V1, "victim"), BTreeSet::from(["slow".to_owned()]));
    besieged.still_works();
}

#[test]
fn requests_may_follow_without_waiting() {
    let mut besieged = Besieged::start();
    let refused = Wire::of(&SEND, b"{".to_vec());
    let requests: Vec<u8> = (0..50)
        .flat_map(|number| [send(&format!("p{number}")), refused.bytes(By::Agent(ATTACKER))].concat())
        .collect();
    let mut connection = Connection::open(besieged.broker.port);
    let mut answers = vec![connection.exchange(&requests, false).unwrap()];
    answers.extend((1..100).map(|_| connection.exchange(b"", false).unwrap()));
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [201, 400].repeat(50));
    assert_eq!(besieged.emptied(Generation::V1, "victim").len(), 50);
    besieged.still_works();
}

/// Bodies whose length is told wrongly, or twice: what one server takes for the end of a request, another in front of
/// it may take for the start of the next.
#[test]
fn lengths_that_contradict_each_other_are_refused() {
    let mut besieged = Besieged::start();
    let body = br#"{"to":"victim","id":"smuggled"}"#;
    let wire = Wire::of(&SEND, body.to_vec());
    let chunk = [format!("{:x}\r\n", body.len()).as_bytes(), body, b"\r\n0\r\n\r\n"].concat();
    let length = body.len();
    for (headers, sent) in [
        (format!("content-length: {length}\r\ntransfer-encoding: chunked\r\n"), chunk.clone()),
        (format!("transfer-encoding: chunked\r\ncontent-length: {length}\r\n"), chunk.clone()),
        ("transfer-encoding: chunked, identity\r\n".to_owned(), chunk.clone()),
        ("transfer-encoding: identity\r\n".to_owned(), chunk.clone()),
        ("transfer-encoding: xchunked\r\n".to_owned(), chunk),
        (format!("content-length: {length}\r\ncontent-length: 3\r\n"), body.to_vec()),
        (format!("content-length: {length}, {length}\r\n"), body.to_vec()),
        (format!("content-length: +{length}\r\n"), body.to_vec()),
        ("content-length: \r\n".to_owned(), body.to_vec()),
        ("transfer-encoding: chunked\r\n".to_owned(), b"zz\r\n".to_vec()),
        ("transfer-encoding: chunked\r\n".to_owned(), b"-1\r\n".to_vec()),
        ("transfer-encoding: chunked\r\n".to_owned(), b"ffffffffffffffffff\r\n".to_vec()),
        ("transfer-encoding: chunked\r\n".to_owned(), [b"5;".to_vec(), vec![b'x'; 100_000]].concat()),
    ] {
        let bytes = [&wire.head(By::Agent(ATTACKER)), headers.as_bytes(), b"\r\n", &sent].concat();
        let answer = Connection::open(besieged.broker.port).exchange(&bytes, false);
        let answer = answer.unwrap_or_else(|| panic!("no answer to {headers}"));
        if answer.status == 201 {
            // Chunks win over a length (RFC 9112, 6.3), as for the reference; the connection must not go on.
            assert!(headers.contains("content-length") && headers.contains("chunked\r\n"), "{headers}");
            assert_eq!(answer.header("connection"), Some("close"), "{headers}");
            besieged.emptied(Generation::V1, "victim");
        } else if answer.body.is_empty() {
            is_no_http(&answer, &headers);
        } else {
            judged(&answer, false, &|| headers.clone());
        }
    }
    besieged.nothing_but(&BTreeSet::new());
    besieged.still_works();
}

/// More connections than a shell usually allows a process to have files.
#[test]
#[cfg(unix)]
fn a_thousand_idle_connections_starve_nobody() {
    use std::process::Command;

    use crate::support::process::Process;

    let mut besieged = Besieged::with(|broker| {
        let script = format!(
            "ulimit -S -n 256; exec '{}' serve --config config.yaml",
            env!("CARGO_BIN_EXE_redsyn-bridge")
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).env("RUST_LOG", "off");
        let process = Process::spawn(shell, &broker.folder);
        broker.start_as(process);
    });
    let whole = send("never");
    let idle: Vec<TcpStream> = (0..1_000)
        .map(|number| {
            let mut stream = connect(besieged.broker.port);
            // Nothing, half a head, half a body.
            stream.write_all(&whole[..[0, 40, whole.len() - 5][number % 3]]).unwrap();
            stream
        })
        .collect();
    besieged.still_works();
    drop(idle);
    besieged.nothing_but(&BTreeSet::new());
    besieged.still_works();
}

/// Where the system allows no more.
#[test]
#[cfg(unix)]
fn more_connections_than_files_are_told_once_and_starve_nobody_for_ever() {
    use std::process::Command;

    use crate::support::process::Process;

    let mut besieged = Besieged::with(|broker| {
        let script = format!(
            "ulimit -n 64; exec '{}' serve --config config.yaml",
            env!("CARGO_BIN_EXE_redsyn-bridge")
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).env("RUST_LOG", "warn");
        let process = Process::spawn(shell, &broker.folder);
        broker.start_as(process);
    });
    let idle: Vec<TcpStream> = (0..100).map(|_| connect(besieged.broker.port)).collect();
    let log = besieged.broker.process().wait_for_log("connections_not_accepted");
    assert!(log.last().unwrap().contains("failed=1"), "{log:#?}");
    drop(idle);
    besieged.still_works();
    // What comes after it in the log tells of no second one.
    besieged.broker.process().signal("-TERM");
    let rest = besieged.broker.process().rest_of_log();
    assert!(!rest.iter().any(|line| line.contains("connections_not_accepted")), "{rest:#?}");
}
