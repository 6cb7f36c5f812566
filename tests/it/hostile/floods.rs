//! Large bodies by the hundred: what they may take of the broker's memory, and who is served meanwhile.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::broker::{ATTACKER, Besieged, By, Wire, judged};
use super::endpoints::{Endpoint, Generation};
use crate::golden::client::{Answer, Connection};

const MB: usize = 1024 * 1024;
/// How many of the largest bodies there is room for.
const ROOM: usize = 64;

const SENDS: [Endpoint; 2] = [
    Endpoint { generation: Generation::V1, method: "POST", target: "/messages", members: &[], open: false },
    Endpoint {
        generation: Generation::V2,
        method: "POST",
        target: "/v1/messages",
        members: &[],
        open: false,
    },
];

/// The head of a request with a large body that waits for leave to send it.
fn head(endpoint: &Endpoint, by: By) -> Vec<u8> {
    let mut head = Wire { body: None, ..Wire::of(endpoint, Vec::new()) }.head(by);
    head.extend(format!("content-length: {MB}\r\nexpect: 100-continue\r\n\r\n").bytes());
    head
}

/// A client that has sent a head and was told to send the body.
fn admitted(port: u16, head: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(head).unwrap();
    let mut leave = [0; 25];
    stream.read_exact(&mut leave).unwrap();
    assert_eq!(String::from_utf8_lossy(&leave), "HTTP/1.1 100 Continue\r\n\r\n");
    stream
}

/// What `GET /metrics` says is reserved for bodies, in bytes.
fn reserved(port: u16) -> usize {
    let request = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let page = Connection::open(port).exchange(request, false).unwrap();
    let page = String::from_utf8(page.body).unwrap();
    let value = page.lines().find_map(|line| line.strip_prefix("redsyn_broker_body_bytes "));
    value.unwrap().parse().unwrap()
}

/// A signed message of the largest size.
fn large(id: &str) -> Vec<u8> {
    let mut body = format!(r#"{{"to":"victim","id":"{id}","body":{{"text":""#).into_bytes();
    body.resize(MB - 3, b'x');
    body.extend(b"\"}}");
    Wire::of(&SENDS[0], body).bytes(By::Agent(ATTACKER))
}

#[track_caller]
fn is_refused(answer: &Answer, status: u16) {
    assert_eq!(answer.status, status);
    judged(answer, false, &|| "a large body".to_owned());
}

#[test]
fn what_strangers_send_is_not_kept() {
    let mut besieged = Besieged::start();
    let port = besieged.broker.port;
    // Each is answered before it was allowed to send, and stays.
    let mut strangers = Vec::new();
    for number in 0..2 * ROOM {
        let mut stranger = Connection::open(port);
        let answer = stranger.exchange(&head(&SENDS[number % 2], By::Nobody), false).unwrap();
        is_refused(&answer, 401);
        strangers.push(stranger);
    }
    assert_eq!(reserved(port), 0);
    assert_eq!(Connection::open(port).exchange(&large("m1"), false).unwrap().status, 201);
    assert_eq!(besieged.emptied(Generation::V1, "victim"), BTreeSet::from(["m1".to_owned()]));
    besieged.still_works();
}

#[test]
fn large_bodies_have_their_room_and_wait_for_it() {
    let mut besieged = Besieged::start();
    let port = besieged.broker.port;
    // Whether the signature holds is known at the end of the body.
    let mut forgers: Vec<TcpStream> =
        (0..ROOM).map(|number| admitted(port, &head(&SENDS[number % 2], By::Forger))).collect();
    assert_eq!(reserved(port), ROOM * MB);
    let busy = Connection::open(port).exchange(&large("m1"), false).unwrap();
    assert_eq!((busy.status, busy.header("retry-after")), (503, Some("1")));
    assert!(String::from_utf8_lossy(&busy.body).contains(r#""code":"busy""#));
    // What is small waits for nobody.
    besieged.still_works();
    let waiting = std::thread::spawn(move || Connection::open(port).exchange(&large("m2"), false).unwrap());
    let mut first = forgers.remove(0);
    first.write_all(&vec![b' '; MB]).unwrap();
    let mut answer = [0; 12];
    first.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 401");
    assert_eq!(waiting.join().unwrap().status, 201);
    drop(forgers);
    while reserved(port) > 0 {}
    besieged.nothing_but(&BTreeSet::from(["m2".to_owned()]));
    besieged.still_works();
}
