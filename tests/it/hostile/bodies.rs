//! Every endpoint with every body that nobody should send.

use std::collections::BTreeSet;

use super::broker::{ATTACKER, Besieged, By, Wire, id_of};
use super::bytes::{Dice, bodies, values};
use super::endpoints::{ENDPOINTS, Endpoint, Generation};

/// Sends it as its owner and remembers what was accepted.
fn send(besieged: &mut Besieged, wire: &Wire<'_>, accepted: &mut BTreeSet<String>) {
    let (status, answer) = besieged.send(wire, By::Agent(ATTACKER));
    if status < 300 {
        accepted.extend(["id", "message_id"].iter().filter_map(|name| id_of(&answer, name)));
    }
}

fn feed(
    endpoints: impl Iterator<Item = &'static Endpoint> + Clone,
    bodies: impl Fn(&Endpoint) -> Vec<Vec<u8>>,
) {
    for storage in ["sqlite", "jsonl"] {
        let mut besieged = Besieged::on(storage);
        for endpoint in endpoints.clone() {
            let mut accepted = BTreeSet::new();
            for body in bodies(endpoint) {
                send(&mut besieged, &Wire::of(endpoint, body), &mut accepted);
            }
            besieged.nothing_but(&accepted);
            besieged.still_works();
        }
        // Whatever was accepted can be read again.
        besieged.restart();
        besieged.still_works();
    }
}

#[test]
fn no_body_is_too_strange_to_be_answered() {
    feed(ENDPOINTS.iter(), |_| bodies());
}

/// The two generations side by side, for the time it takes.
fn feed_values(generation: Generation) {
    let values = values();
    let endpoints = ENDPOINTS.iter().filter(|endpoint| endpoint.generation == generation);
    feed(endpoints.filter(|endpoint| !endpoint.members.is_empty()), |endpoint| {
        let members = endpoint.members.iter().map(|(name, _)| *name);
        members
            .flat_map(|name| values.iter().map(move |value| (name, value)))
            .filter(|(name, value)| !name.starts_with("wait") || !is_a_time(value))
            .map(|(name, value)| endpoint.body_with(name, value))
            .collect()
    });
}

#[test]
fn no_value_of_a_member_is_too_strange_for_v1() {
    feed_values(Generation::V1);
}

#[test]
fn no_value_of_a_member_is_too_strange_for_v2() {
    feed_values(Generation::V2);
}

/// A pull that waits as long as it may is no use here.
fn is_a_time(value: &[u8]) -> bool {
    str::from_utf8(value).is_ok_and(|text| text.parse::<f64>().is_ok_and(|seconds| seconds > 0.0))
}

#[test]
fn no_name_of_a_member_is_read_twice() {
    feed(ENDPOINTS.iter().filter(|endpoint| !endpoint.members.is_empty()), |endpoint| {
        let (body, first) = (String::from_utf8(endpoint.body()).unwrap(), endpoint.members[0]);
        let (name, value) = first;
        let other = "\"\\ud800\"";
        vec![
            body.replacen('{', &format!("{{\"{name}\":{other},"), 1).into_bytes(),
            body.replacen('{', &format!("{{\"{name}\":{value},\"{name}\":{value},"), 1).into_bytes(),
            body.replacen('{', "{\"__proto__\":{\"to\":\"victim\"},\"constructor\":1,", 1).into_bytes(),
            body.replacen('{', &"{\"x\":1,".replacen("\"x\":1,", &"\"x\":1,".repeat(20_000), 1), 1)
                .into_bytes(),
        ]
    });
}

#[test]
fn arbitrary_and_damaged_bytes_are_answered() {
    feed(ENDPOINTS.iter(), |endpoint| {
        let mut dice = Dice::new(endpoint.target.len() as u64);
        let arbitrary: Vec<_> = (0..20).map(|_| dice.bytes(400)).collect();
        let damaged = (0..60).map(|_| dice.damaged(endpoint.body()));
        arbitrary.into_iter().chain(damaged).collect()
    });
}

/// Neither content types nor encodings change what a body is; the reference looks at none of them.
#[test]
fn content_types_change_nothing() {
    let mut besieged = Besieged::start();
    for endpoint in ENDPOINTS {
        let mut accepted = BTreeSet::new();
        let mut wire = Wire::of(endpoint, endpoint.body());
        let (plain, answer) = besieged.send(&wire, By::Agent(ATTACKER));
        accepted.extend(["id", "message_id"].iter().filter_map(|name| id_of(&answer, name)));
        for content_type in [
            None,
            Some(&b""[..]),
            Some(b"text/plain"),
            Some(b"application/json; charset=utf-16"),
            Some(b"multipart/form-data"),
            Some(b"application/x-www-form-urlencoded"),
            Some(b"\xff\xfe"),
        ] {
            (wire.content_type, wire.body) = (content_type, Some(endpoint.body()));
            let (status, answer) = besieged.send(&wire, By::Agent(ATTACKER));
            assert_eq!(status, plain, "{endpoint:?} {content_type:?}");
            accepted.extend(["id", "message_id"].iter().filter_map(|name| id_of(&answer, name)));
        }
        let stores = endpoint.method == "POST" && endpoint.target.ends_with("/messages");
        assert_eq!(accepted.len(), if stores { 8 } else { 0 }, "{endpoint:?}");
        besieged.nothing_but(&accepted);
        besieged.still_works();
    }
}

/// Who has not signed is told so, whatever the body, and leaves nothing.
#[test]
fn strangers_and_forgers_get_nowhere() {
    let mut besieged = Besieged::start();
    let bodies = bodies();
    for endpoint in ENDPOINTS {
        for by in [By::Nobody, By::Forger] {
            for body in bodies.iter().chain([&endpoint.body()]) {
                let (status, answer) = besieged.send(&Wire::of(endpoint, body.clone()), by);
                let refused = matches!(status, 401 | 403);
                assert_eq!(refused, !endpoint.open, "{endpoint:?} {by:?}: {status} {}", answer.as_json());
            }
        }
        besieged.nothing_but(&BTreeSet::new());
        besieged.still_works();
    }
}

/// Whether there is such a route is said before whether a body is text.
#[test]
fn where_there_is_no_route_no_body_is_wrong() {
    let mut besieged = Besieged::start();
    for (method, target, status) in [
        ("POST", "/nowhere", 404),
        ("PUT", "/bridge/v1/files", 404),
        ("POST", "/bridge/v1/messages/m1/cancel", 404),
        ("POST", "/messages", 400),
    ] {
        for generation in [Generation::V1, Generation::V2] {
            let endpoint = Endpoint { generation, method, target, members: &[], open: false };
            let wire = Wire::of(&endpoint, b"PK\x03\x04\xff\xfe\x80".to_vec());
            let (got, body) = besieged.send(&wire, By::Agent(ATTACKER));
            let is_v1 = generation == Generation::V1;
            assert_eq!(got, if is_v1 { status } else { 404 }, "{method} {target}: {}", body.as_json());
        }
    }
    besieged.nothing_but(&BTreeSet::new());
}
