//! Every endpoint of the broker, and the test that none is missing.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use redsyn_bridge::proto::dsh::{v1, v2};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generation {
    V1,
    V2,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Endpoint {
    pub(super) generation: Generation,
    pub(super) method: &'static str,
    pub(super) target: &'static str,
    /// The members of its body, each with a value that it takes; `#` is one that no other request has.
    pub(super) members: &'static [(&'static str, &'static str)],
    /// Answers whoever asks.
    pub(super) open: bool,
}

const fn v1(method: &'static str, target: &'static str, members: Members) -> Endpoint {
    Endpoint { generation: Generation::V1, method, target, members, open: false }
}

const fn v2(target: &'static str, members: Members) -> Endpoint {
    Endpoint { generation: Generation::V2, method: "POST", target, members, open: false }
}

type Members = &'static [(&'static str, &'static str)];

/// In the name of `alpha`; what is sent goes to `victim`.
pub(super) const ENDPOINTS: &[Endpoint] = &[
    Endpoint { open: true, ..v1("GET", "/", &[]) },
    Endpoint { open: true, ..v1("GET", "/healthz", &[]) },
    Endpoint { open: true, ..v1("GET", "/metrics", &[]) },
    v1("POST", "/register", &[("agent", "\"alpha\"")]),
    v1("GET", "/peers", &[]),
    v1(
        "POST",
        "/messages",
        &[
            ("to", "\"victim\""),
            ("from", "\"alpha\""),
            ("id", "#"),
            ("type", "\"message\""),
            ("kind", "\"request\""),
            ("body", "{\"text\":\"hi\"}"),
            ("replyTo", "null"),
            ("rootId", "null"),
            ("parentId", "null"),
            ("ack", "false"),
            ("redsyn", "{}"),
        ],
    ),
    v1("GET", "/messages?since=m1&limit=10", &[]),
    v1("POST", "/messages/0123abcd/ack", &[("status", "\"error\""), ("error", "\"why\"")]),
    v1(
        "POST",
        "/v1/pull",
        &[("agent", "\"alpha\""), ("limit", "3"), ("leaseSeconds", "60"), ("waitSeconds", "0")],
    ),
    v1(
        "POST",
        "/v1/ack",
        &[("messageId", "\"m\""), ("leaseId", "\"l\""), ("outcome", "\"completed\""), ("error", "null")],
    ),
    v1("POST", "/v1/status", &[("messageIds", "[\"m\"]")]),
    v1("POST", "/v1/recent", &[("agent", "\"alpha\""), ("limit", "3")]),
    v1(
        "POST",
        "/v1/messages/query",
        &[
            ("agent", "\"alpha\""),
            ("limit", "3"),
            ("kind", "\"request\""),
            ("status", "\"queued\""),
            ("from", "\"victim\""),
            ("to", "\"alpha\""),
        ],
    ),
    v1("PUT", "/bridge/v1/files", &[]),
    v1("GET", "/bridge/v1/messages/m1/files", &[]),
    v1("POST", "/bridge/v1/messages/m1/cancel", &[]),
    v2(
        "/v1/messages",
        &[
            ("origin", "\"alpha\""),
            ("target", "\"victim\""),
            ("kind", "\"request\""),
            ("body", "\"hi\""),
            ("idempotency_key", "#"),
            ("execution_mode", "\"read\""),
            ("session_ref", "\"s\""),
            ("context", "\"c\""),
            ("topic", "\"t\""),
            ("allow_shared_write", "false"),
            ("ttl_seconds", "600"),
            ("root_id", "\"r\""),
            ("parent_id", "\"p\""),
        ],
    ),
    v2("/v1/pull", &[("agent", "\"alpha\""), ("limit", "3"), ("lease_seconds", "60"), ("wait_seconds", "0")]),
    v2(
        "/v1/ack",
        &[
            ("agent", "\"alpha\""),
            ("message_id", "\"m\""),
            ("outcome", "\"completed\""),
            ("lease_token", "\"l\""),
            ("error", "\"why\""),
        ],
    ),
    v2(
        "/v1/lease/renew",
        &[("agent", "\"alpha\""), ("message_id", "\"m\""), ("lease_token", "\"l\""), ("lease_seconds", "60")],
    ),
    v2("/v1/status", &[("agent", "\"alpha\""), ("message_ids", "[\"m\"]")]),
    v2("/v1/recent", &[("agent", "\"alpha\""), ("limit", "3")]),
    v2(
        "/v1/messages/query",
        &[
            ("agent", "\"alpha\""),
            ("limit", "3"),
            ("message_id", "\"m\""),
            ("root_id", "\"r\""),
            ("origin", "\"alpha\""),
            ("target", "\"victim\""),
            ("kind", "\"request\""),
            ("status", "\"queued\""),
            ("topic", "\"t\""),
            ("since", "0"),
        ],
    ),
    v2("/v1/admin/status", &[("agent", "\"alpha\""), ("limit", "3")]),
    v2("/v1/admin/requeue", &[("message_id", "\"m\"")]),
    v2("/v1/admin/cancel", &[("message_id", "\"m\"")]),
];

impl Endpoint {
    /// Its body with `value` in place of the member's own; all its own when there is no such member.
    pub(super) fn body_with(&self, member: &str, value: &[u8]) -> Vec<u8> {
        let mut body = b"{".to_vec();
        for (at, (name, own)) in self.members.iter().enumerate() {
            body.extend(format!("{}\"{name}\":", if at == 0 { "" } else { "," }).as_bytes());
            match *own {
                _ if *name == member => body.extend(value),
                "#" => body.extend(unique().as_bytes()),
                own => body.extend(own.as_bytes()),
            }
        }
        body.push(b'}');
        body
    }

    pub(super) fn body(&self) -> Vec<u8> {
        self.body_with("", b"")
    }

    fn route(&self) -> String {
        let path = self.target.split('?').next().unwrap();
        let route = match self.generation {
            Generation::V1 => format!("{:?}", v1::route::parse(self.method, self.target).0),
            Generation::V2 => format!("{:?}", v2::route::parse(self.method, path).unwrap()),
        };
        route.split(|letter: char| !letter.is_alphanumeric()).next().unwrap().to_owned()
    }
}

fn unique() -> String {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    format!("\"unique-{}\"", GIVEN.fetch_add(1, Ordering::Relaxed))
}

/// The variants of the `Route` that a source declares.
fn declared(source: &str) -> BTreeSet<String> {
    let (_, declaration) = source.split_once("pub enum Route {").unwrap();
    let (declaration, _) = declaration.split_once("\n}").unwrap();
    let names = declaration.lines().filter_map(|line| line.strip_prefix("    "));
    let names = names.filter(|line| line.starts_with(|letter: char| letter.is_ascii_uppercase()));
    names.map(|line| line.trim_end_matches([',', ' ', '{']).split('(').next().unwrap().to_owned()).collect()
}

/// A route that is added later and is not in the list would be fed nothing here.
#[test]
fn every_endpoint_is_listed() {
    let listed = |generation| -> BTreeSet<String> {
        ENDPOINTS.iter().filter(|one| one.generation == generation).map(Endpoint::route).collect()
    };
    let mut first = declared(include_str!("../../../src/proto/dsh/v1/route.rs"));
    assert!(first.remove("Unknown") && first.len() > 10, "{first:?}");
    assert_eq!(listed(Generation::V1), first);
    let second = declared(include_str!("../../../src/proto/dsh/v2/route.rs"));
    assert!(second.len() > 5, "{second:?}");
    assert_eq!(listed(Generation::V2), second);
}
