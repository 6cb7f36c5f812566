//! A real broker with an attacker at its socket: requests as bytes, and what must hold of every answer.

use std::collections::BTreeSet;
use std::fmt::Debug;

use redsyn_bridge::crypto::hmac;
use redsyn_bridge::domain::clock::{Clock, SystemClock};
use redsyn_bridge::domain::metrics;
use redsyn_bridge::proto::dsh::json::{JsonText, Members};
use redsyn_bridge::proto::dsh::v2::signing::Signed;
use tempfile::TempDir;

use super::endpoints::{Endpoint, Generation};
use crate::golden::client::{Answer, Connection};
use crate::support::local::LocalBroker;

/// What the protocols say may be refused, and how.
const REFUSALS: &[(u16, &str)] = &[
    (400, "bad_request"),
    (401, "unauthenticated"),
    (401, "unknown_agent"),
    (401, "unknown_key"),
    (403, "locked"),
    (403, "forbidden"),
    (404, "no_such_agent"),
    (404, "no_such_message"),
    (404, "not_found"),
    (409, "not_leased"),
    (409, "lease_mismatch"),
    (409, "conflict"),
    (413, "too_large"),
    (429, "rate_limited"),
];

pub(super) const ATTACKER: &str = "alpha";

/// Who signs a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Agent(&'static str),
    /// The same where the secret is another.
    Keyed(&'static str, &'static str),
    /// With a signature that does not hold.
    Forger,
    Nobody,
}

/// A request that need not be one.
#[derive(Clone, Debug)]
pub(super) struct Wire<'a> {
    pub(super) generation: Generation,
    pub(super) method: &'a str,
    pub(super) target: Vec<u8>,
    /// `None` for none at all.
    pub(super) body: Option<Vec<u8>>,
    pub(super) content_type: Option<&'a [u8]>,
    pub(super) headers: Vec<(Vec<u8>, Vec<u8>)>,
}

impl<'a> Wire<'a> {
    pub(super) fn of(endpoint: &'a Endpoint, body: Vec<u8>) -> Self {
        Self {
            generation: endpoint.generation,
            method: endpoint.method,
            target: endpoint.target.into(),
            body: Some(body),
            content_type: Some(b"application/json"),
            headers: Vec::new(),
        }
    }

    pub(super) fn bytes(&self, by: By) -> Vec<u8> {
        let (mut head, body) = (self.head(by), self.body.as_deref().unwrap_or_default());
        if self.body.is_some() {
            head.extend(format!("content-length: {}\r\n", body.len()).bytes());
        }
        [&head, &b"\r\n"[..], body].concat()
    }

    /// Up to where `content-length` would stand.
    pub(super) fn head(&self, by: By) -> Vec<u8> {
        let mut head =
            [self.method.as_bytes(), b" ", &self.target, b" HTTP/1.1\r\nhost: localhost\r\n"].concat();
        let mut add = |name: &[u8], value: &[u8]| head.extend([name, b": ", value, b"\r\n"].concat());
        if let Some(content_type) = self.content_type {
            add(b"content-type", content_type);
        }
        for (name, value) in self.credentials(by).into_iter().flatten() {
            add(name.as_bytes(), value.as_bytes());
        }
        for (name, value) in &self.headers {
            add(name, value);
        }
        head
    }

    fn credentials(&self, by: By) -> Option<[(&'static str, String); 3]> {
        let (agent, secret) = match by {
            By::Agent(agent) => (agent, "s"),
            By::Keyed(agent, secret) => (agent, secret),
            By::Forger => ("forger", "guessed"),
            By::Nobody => return None,
        };
        let signs_body = !["GET", "HEAD", "DELETE", "OPTIONS"].contains(&self.method);
        let body = self.body.as_deref().filter(|_| signs_body).unwrap_or_default();
        let timestamp = SystemClock.now().secs().to_string();
        // What a server makes of a target that is no text, an attacker can only guess.
        let target = String::from_utf8_lossy(&self.target).into_owned();
        let (prefix, tag) = match self.generation {
            Generation::V1 => {
                let lines = format!("{}\n{target}\n{timestamp}\n", self.method);
                ("x-relay", hmac::sha256_hex(secret.as_bytes(), &[lines.as_bytes(), body]))
            }
            Generation::V2 => {
                let body = String::from_utf8_lossy(body);
                let signed = Signed {
                    agent,
                    key_id: None,
                    timestamp: &timestamp,
                    method: self.method,
                    target: &target,
                    body: body.as_bytes(),
                };
                ("x-agent-relay", hmac::sha256_hex(secret.as_bytes(), &[signed.text().as_bytes()]))
            }
        };
        let names = match prefix {
            "x-relay" => ["x-relay-agent", "x-relay-timestamp", "x-relay-signature"],
            _ => ["x-agent-relay-agent", "x-agent-relay-timestamp", "x-agent-relay-signature"],
        };
        let [agent_name, timestamp_name, tag_name] = names;
        Some([(agent_name, agent.to_owned()), (timestamp_name, timestamp), (tag_name, tag)])
    }
}

pub(super) struct Besieged {
    pub(super) broker: LocalBroker,
    connection: Option<Connection>,
    rounds: u32,
    _folder: TempDir,
}

impl Besieged {
    pub(super) fn start() -> Self {
        Self::on("sqlite")
    }

    pub(super) fn on(storage: &str) -> Self {
        Self::on_with(storage, |_| {})
    }

    /// `begin` may start the process in a way of its own.
    #[cfg(unix)]
    pub(super) fn with(begin: impl FnOnce(&mut LocalBroker)) -> Self {
        Self::on_with("sqlite", begin)
    }

    fn on_with(storage: &str, begin: impl FnOnce(&mut LocalBroker)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut broker = LocalBroker::new(folder.path(), storage);
        begin(&mut broker);
        if !broker.is_started() {
            broker.start();
        }
        let mut besieged = Self { broker, connection: None, rounds: 0, _folder: folder };
        for agent in [ATTACKER, "beta", "gamma", "victim"] {
            besieged.honest(Generation::V1, agent, "/register", "{}");
        }
        besieged
    }

    /// Stops and starts again on what was kept.
    pub(super) fn restart(&mut self) {
        self.connection = None;
        self.broker.stop();
        self.broker.start();
    }

    /// Sends bytes; `None` when the connection ends without an answer or hangs.
    pub(super) fn exchange(&mut self, bytes: &[u8], is_head: bool) -> Option<Answer> {
        let mut connection = self.connection.take().unwrap_or_else(|| Connection::open(self.broker.port));
        let answer = connection.exchange(bytes, is_head)?;
        if answer.header("connection") != Some("close") {
            self.connection = Some(connection);
        }
        Some(answer)
    }

    /// The status of the answer to a request that must have one, in the form that the protocols promise.
    #[track_caller]
    pub(super) fn send(&mut self, wire: &Wire<'_>, by: By) -> (u16, JsonText) {
        let what = || format!("{} {} by {by:?}", wire.method, String::from_utf8_lossy(&wire.target));
        let answer = self.exchange(&wire.bytes(by), wire.method == "HEAD");
        let answer = answer.unwrap_or_else(|| panic!("no answer to {}\n{}", what(), shown(wire)));
        let body = judged(&answer, wire.method == "HEAD", &|| format!("{}\n{}", what(), shown(wire)));
        (answer.status, body)
    }

    #[track_caller]
    fn honest(&mut self, generation: Generation, agent: &'static str, target: &str, body: &str) -> JsonText {
        let wire = Wire {
            generation,
            method: "POST",
            target: target.into(),
            body: Some(body.into()),
            content_type: Some(b"application/json"),
            headers: Vec::new(),
        };
        let (status, body) = self.send(&wire, By::Agent(agent));
        assert!(status < 300, "{target}: {status} {}", body.as_json());
        body
    }

    /// A message of each generation goes from one honest agent to another and is done.
    #[track_caller]
    pub(super) fn still_works(&mut self) {
        self.rounds += 1;
        let id = format!("round-{}", self.rounds);
        self.honest(Generation::V1, "gamma", "/messages", &format!(r#"{{"to":"beta","id":"{id}"}}"#));
        assert_eq!(self.emptied(Generation::V1, "beta"), BTreeSet::from([id.clone()]));
        let body = format!(
            r#"{{"origin":"gamma","target":"beta","kind":"request","body":"x","idempotency_key":"{id}"}}"#
        );
        let sent = self.honest(Generation::V2, "gamma", "/v1/messages", &body);
        assert_eq!(
            self.emptied(Generation::V2, "beta"),
            BTreeSet::from([id_of(&sent, "message_id").unwrap()])
        );
    }

    /// Takes and finishes everything in an inbox, and says which messages there were.
    #[track_caller]
    pub(super) fn emptied(&mut self, generation: Generation, agent: &'static str) -> BTreeSet<String> {
        let (id_name, token) = match generation {
            Generation::V1 => (["id", "messageId"], "leaseId"),
            Generation::V2 => (["message_id", "message_id"], "lease_token"),
        };
        let mut ids = BTreeSet::new();
        loop {
            let pulled = self.honest(generation, agent, "/v1/pull", "{}");
            let pulled = Members::parse(pulled.as_json()).unwrap().unwrap();
            let messages: Vec<&serde_json::value::RawValue> =
                serde_json::from_str(pulled.get("messages").unwrap().as_json()).unwrap();
            if messages.is_empty() {
                return ids;
            }
            for message in messages {
                let message = JsonText::parse(message.get()).unwrap();
                let members = Members::parse(message.as_json()).unwrap().unwrap();
                let (id, held_by) = (members.get(id_name[0]).unwrap(), members.get(token).unwrap());
                ids.insert(id.as_text().unwrap());
                // An empty id is accepted and can never be named again: so does the reference.
                if id.as_json() == "\"\"" {
                    continue;
                }
                let ack = format!(
                    r#"{{"{}":{},"{token}":{},"outcome":"completed"}}"#,
                    id_name[1],
                    id.as_json(),
                    held_by.as_json()
                );
                self.honest(generation, agent, "/v1/ack", &ack);
            }
        }
    }

    /// The victim has what was accepted, if anything, and nothing else.
    #[track_caller]
    pub(super) fn nothing_but(&mut self, accepted: &BTreeSet<String>) {
        for generation in [Generation::V1, Generation::V2] {
            let found = self.emptied(generation, "victim");
            assert!(found.is_subset(accepted), "{found:?} and {accepted:?}");
        }
    }
}

/// What of a request fits on a screen.
fn shown(wire: &Wire<'_>) -> String {
    let body = String::from_utf8_lossy(wire.body.as_deref().unwrap_or_default()).into_owned();
    format!("{:?} {}", wire.headers.first(), body.chars().take(300).collect::<String>())
}

/// An answer of ours: numbers about the process, or JSON, and an error that is documented when it is one. Gives its body.
#[track_caller]
pub(super) fn judged(answer: &Answer, is_head: bool, what: &impl Fn() -> String) -> JsonText {
    let text = String::from_utf8(answer.body.clone()).unwrap_or_else(|_| panic!("no text for {}", what()));
    assert!(answer.status < 500, "{} {text}: {}", answer.status, what());
    if answer.header("content-type") == Some(metrics::CONTENT_TYPE) {
        assert!(answer.status == 200 && text.starts_with("# HELP"), "{} {text}: {}", answer.status, what());
        return JsonText::null();
    }
    assert_eq!(answer.header("content-type"), Some("application/json; charset=utf-8"), "{}", what());
    if is_head {
        return JsonText::null();
    }
    let body = JsonText::parse(&text).unwrap_or_else(|_| panic!("{text:?} is no JSON: {}", what()));
    if answer.status >= 300 {
        let error = Members::parse(&text).unwrap().unwrap();
        let error = Members::parse(error.get("error").unwrap().as_json()).unwrap().unwrap();
        let code = error.get("code").and_then(JsonText::as_text).unwrap();
        assert!(REFUSALS.contains(&(answer.status, code.as_str())), "{} {code}: {}", answer.status, what());
        assert!(error.get("message").and_then(JsonText::as_text).is_some_and(|text| !text.is_empty()));
    }
    body
}

/// The id of a message that was stored.
pub(super) fn id_of(body: &JsonText, name: &str) -> Option<String> {
    Members::parse(body.as_json()).ok()??.get(name)?.as_text()
}

/// An answer that the HTTP library gives by itself to what is no HTTP, as the reference's does: a status and nothing.
#[track_caller]
pub(super) fn is_no_http(answer: &Answer, what: &impl Debug) {
    assert!(matches!(answer.status, 400 | 414 | 431), "{} {what:?}", answer.status);
    assert!(answer.body.is_empty(), "{what:?}");
}
