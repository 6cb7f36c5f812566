//! Our relay, fed the same: whatever is no call of the protocol is answered in the protocol's form.

use redsyn_bridge::domain::metrics;
use redsyn_bridge::proto::redsyn::error::ErrorBody;

use super::broker::is_no_http;
use super::bytes::{Dice, bodies, values};
use crate::golden::client::{Answer, Connection};
use crate::support::world::{Member, World};

/// What the protocol says may be refused.
const REFUSALS: [u16; 9] = [400, 401, 403, 404, 405, 409, 413, 422, 429];
/// Members of all bodies.
const MEMBERS: [&str; 34] = [
    "v",
    "id",
    "ts",
    "kind",
    "from",
    "to",
    "thread",
    "reply_to",
    "ttl",
    "body",
    "refs",
    "encrypted",
    "sig",
    "public_key",
    "enc_key",
    "enc_sig",
    "rotate",
    "handle",
    "me",
    "email",
    "role",
    "other",
    "pattern",
    "on",
    "allow",
    "trust",
    "signed_only",
    "url",
    "title",
    "ids",
    "agent",
    "topic",
    "require_signature",
    "ip_allow",
];

/// Each call of the router as method and path, so that none is forgotten here.
fn calls() -> Vec<(String, String)> {
    let source = include_str!("../../../src/relay/http/mod.rs");
    let source: String = source.split_whitespace().collect();
    let (_, routes) = source.split_once("letcalls=Router::new()").unwrap();
    let (routes, _) = routes.split_once("Router::new()").unwrap();
    let mut calls =
        vec![("GET".to_owned(), "/healthz".to_owned()), ("GET".to_owned(), "/metrics".to_owned())];
    for route in routes.split(".route(").skip(1) {
        let (path, handlers) = route.trim_matches('"').split_once('"').unwrap();
        for method in ["get", "put", "post", "delete"] {
            if handlers.contains(&format!("{method}(")) {
                calls.push((method.to_uppercase(), format!("/redsyn/v1{path}")));
            }
        }
    }
    assert!(calls.len() > 30, "{calls:?}");
    calls
}

struct Client {
    port: u16,
    token: String,
    connection: Option<Connection>,
}

impl Client {
    fn send(&mut self, method: &str, target: &[u8], known: bool, body: &[u8]) -> u16 {
        let credentials =
            if known { format!("authorization: Bearer {}\r\n", self.token) } else { String::new() };
        let length = body.len();
        let rest = format!(" HTTP/1.1\r\nhost: localhost\r\n{credentials}content-length: {length}\r\n\r\n");
        let bytes = [method.as_bytes(), b" ", target, rest.as_bytes(), body].concat();
        let mut connection = self.connection.take().unwrap_or_else(|| Connection::open(self.port));
        let shown = || {
            let target = String::from_utf8_lossy(target);
            format!("{method} {target} {known} {}", String::from_utf8_lossy(&body[..length.min(300)]))
        };
        let answer = connection.exchange(&bytes, false).unwrap_or_else(|| panic!("no answer to {}", shown()));
        if answer.header("connection") != Some("close") {
            self.connection = Some(connection);
        }
        judged(&answer, &shown);
        answer.status
    }
}

/// JSON, or numbers; and an error of the protocol when it is one.
#[track_caller]
pub(super) fn judged(answer: &Answer, what: &impl Fn() -> String) {
    if answer.body.is_empty() && answer.status >= 300 {
        return is_no_http(answer, &what());
    }
    let text = str::from_utf8(&answer.body).unwrap_or_else(|_| panic!("no text for {}", what()));
    if answer.status < 300 {
        let is_metrics = answer.header("content-type") == Some(metrics::CONTENT_TYPE);
        assert!(is_metrics || serde_json::from_str::<serde_json::Value>(text).is_ok(), "{text}: {}", what());
        return;
    }
    assert!(REFUSALS.contains(&answer.status), "{} {text}: {}", answer.status, what());
    assert_eq!(answer.header("content-type"), Some("application/json"), "{}", what());
    let error: ErrorBody = serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}: {}", what()));
    assert!(error.status == answer.status && !error.error.is_empty(), "{text}: {}", what());
}

fn in_the_name_of(ana: &Member, path: &str) -> String {
    let mut path = path.to_owned();
    for (name, value) in [
        ("org", ana.org),
        ("team", ana.team),
        ("user", ana.user),
        ("agent", ana.agent),
        ("session", "1"),
        ("other", "globex"),
        ("id", "m1"),
    ] {
        path = path.replace(&format!("{{{name}}}"), value);
    }
    assert!(!path.contains('{'), "{path}");
    path
}

/// Runs beside the relay, which needs the thread that it lives on.
async fn attack(attack: impl FnOnce(&mut Client, &Member) + Send + 'static) {
    let world = World::new().await;
    let (port, ana) = (world.relay.address().port(), world.ana.clone());
    let client = Client { port, token: ana.token.expose().to_owned(), connection: None };
    tokio::task::spawn_blocking(move || {
        let mut client = client;
        attack(&mut client, &ana);
        assert_eq!(client.send("GET", b"/redsyn/v1/me", true, b""), 200);
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_body_is_too_strange_for_the_relay() {
    attack(|client, ana| {
        let bodies = bodies();
        for (method, path) in calls() {
            let target = in_the_name_of(ana, &path);
            let own = if path.starts_with("/redsyn") { 401 } else { 200 };
            for body in &bodies {
                client.send(&method, target.as_bytes(), true, body);
                assert_eq!(client.send(&method, target.as_bytes(), false, body), own, "{method} {path}");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_value_of_a_member_is_too_strange_for_the_relay() {
    attack(|client, ana| {
        let values = values();
        let mut dice = Dice::new(11);
        for (method, path) in calls().into_iter().filter(|(method, _)| method != "GET" && method != "DELETE")
        {
            let target = in_the_name_of(ana, &path);
            for value in values.iter().filter(|value| value.len() < 10_000) {
                let members = MEMBERS.map(|name| [format!("\"{name}\":").as_bytes(), value].concat());
                let body = [b"{", members.join(&b","[..]).as_slice(), b"}"].concat();
                client.send(&method, target.as_bytes(), true, &body);
                client.send(&method, target.as_bytes(), true, &dice.damaged(body));
            }
            for _ in 0..20 {
                client.send(&method, target.as_bytes(), true, &dice.bytes(400));
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn targets_and_methods_that_nobody_knows_are_refused_in_the_relays_form() {
    attack(|client, ana| {
        let long = "a".repeat(60_000);
        let names: [&[u8]; 11] = [
            b"%ff",
            b"%00",
            b"%2e%2e",
            b"a%2fb",
            b"%",
            b"%zz",
            "ñ".as_bytes(),
            b"\xff",
            b"A",
            b"x%20y",
            long.as_bytes(),
        ];
        for (method, path) in calls() {
            let target = in_the_name_of(ana, &path);
            for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "BREW", "get"] {
                client.send(method, target.as_bytes(), true, b"{}");
            }
            for name in names {
                // Every name of the path, one after the other.
                for (at, _) in path.match_indices('{') {
                    let (before, after) = path.split_at(at);
                    let after = after.split_once('}').unwrap().1;
                    let (before, after) = (in_the_name_of(ana, before), in_the_name_of(ana, after));
                    let target = [before.as_bytes(), name, after.as_bytes()].concat();
                    assert!(client.send(&method, &target, true, b"{}") >= 400, "{method} {path}");
                }
            }
            for query in
                ["?wait=1e999&limit=-1&lease=NaN", "?limit=99999999999999999999&wait=-0&all=%ff", "?&&=%00"]
            {
                client.send(&method, format!("{target}{query}").as_bytes(), true, b"{}");
            }
        }
    })
    .await;
}
