//! The JSON of the answers.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::domain::clock::Timestamp;
use crate::proto::redsyn::address::AgentAddress;
use crate::proto::redsyn::ids::Kind;
use crate::store::relay::{
    AgentView, Delivered, LinkSide, LinkView, SessionContent, SessionPage, Signed, StoredMessage,
};

/// An agent with its presence and policy.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct AgentJson(Value);

impl AgentJson {
    pub(super) fn new(view: AgentView, now: Timestamp, with_sessions: bool) -> Self {
        let AgentView { state, sessions } = view;
        let policy = state.policy.to_value();
        let mut json = json!({
            "address": state.agent,
            "description": state.description,
            "adapter": state.adapter,
            "listening": state.listening,
            "online": state.is_online(now),
            "last_seen": state.last_take.map(Timestamp::secs),
            "node": state.node,
            "accepts": state.policy.accepts(&state.agent),
            "trust": policy["trust"],
            "signed_only": policy["signed_only"],
            "encrypted_only": policy["encrypted_only"],
        });
        if with_sessions {
            let session = |session: crate::store::relay::SessionView| match session.content {
                Some((title, open)) => json!({"id": session.id, "title": title, "open": open}),
                None => json!({"id": session.id}),
            };
            json["sessions"] = sessions.into_iter().map(session).collect();
        }
        Self(json)
    }
}

#[derive(Debug, Serialize)]
struct FilesJson {
    bytes: u64,
    sha256: String,
}

#[derive(Debug, Serialize)]
struct SigJson {
    alg: &'static str,
    key: String,
    value: String,
    payload: String,
    node: String,
    fingerprint: String,
}

impl From<Signed> for SigJson {
    fn from(signed: Signed) -> Self {
        let Signed { key, value, payload, node, fingerprint } = signed;
        Self { alg: crate::proto::redsyn::signed::ALGORITHM, key, value, payload, node, fingerprint }
    }
}

/// A message. Its body and refs leave as they came, byte for byte.
#[derive(Debug, Serialize)]
struct EnvelopeJson {
    v: u8,
    id: String,
    kind: Kind,
    from: String,
    to: String,
    thread: String,
    reply_to: Option<String>,
    ts: i64,
    ttl: i64,
    body: Box<RawValue>,
    refs: Box<RawValue>,
    files: Option<FilesJson>,
    error: bool,
    sig: Option<SigJson>,
    signed: bool,
    expires: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<String>,
}

impl EnvelopeJson {
    fn new(message: StoredMessage) -> Self {
        Self {
            v: 1,
            id: message.id.to_string(),
            kind: message.kind,
            from: message.from,
            to: message.to,
            thread: message.thread,
            reply_to: message.reply_to,
            ts: message.ts,
            ttl: message.ttl_secs,
            body: message.body,
            refs: message.refs,
            files: message.files.map(|files| FilesJson { bytes: files.bytes, sha256: files.sha256 }),
            error: message.error,
            signed: message.signed.is_some(),
            sig: message.signed.map(SigJson::from),
            expires: message.expires.secs(),
            topic: message.topic,
        }
    }
}

/// An envelope as it is delivered.
#[derive(Debug, Serialize)]
pub struct DeliveredJson {
    #[serde(flatten)]
    envelope: EnvelopeJson,
    attempts: u32,
}

impl DeliveredJson {
    pub(super) fn new(delivered: Delivered) -> Self {
        Self { envelope: EnvelopeJson::new(delivered.message), attempts: delivered.attempts }
    }
}

/// An envelope as a thread shows it.
#[derive(Debug, Serialize)]
pub struct ThreadMessageJson {
    #[serde(flatten)]
    envelope: EnvelopeJson,
    encrypted: bool,
}

impl ThreadMessageJson {
    pub(super) fn new(message: StoredMessage) -> Self {
        let encrypted = message.encrypted;
        Self { envelope: EnvelopeJson::new(message), encrypted }
    }
}

/// A session, as far as whoever asked may see it.
#[derive(Debug, Serialize)]
pub struct SessionJson {
    id: String,
    #[serde(flatten)]
    content: Option<SessionContentJson>,
}

#[derive(Debug, Serialize)]
struct SessionContentJson {
    agent: AgentAddress,
    title: String,
    open: bool,
    created: i64,
    messages: Vec<ThreadMessageJson>,
}

impl SessionJson {
    pub(super) fn new(agent: AgentAddress, page: SessionPage) -> Self {
        let content = |content: SessionContent| SessionContentJson {
            agent,
            title: content.title,
            open: content.open,
            created: content.created.secs(),
            messages: content.messages.into_iter().map(ThreadMessageJson::new).collect(),
        };
        Self { id: page.id, content: page.content.map(content) }
    }
}

/// A link as one of its organisations sees it.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct LinkJson(Value);

impl LinkJson {
    pub(super) fn new(link: LinkView) -> Self {
        let by_org = |json: fn(&LinkSide) -> Value| -> Map<String, Value> {
            link.sides.iter().map(|side| (side.org.to_string(), json(side))).collect()
        };
        let log: Vec<Value> =
            link.log.iter().map(|row| json!({"at": row.at.secs(), "by": row.by, "what": row.what})).collect();
        Self(json!({
            "org": link.org,
            "other": link.other,
            "state": link.state.as_str(),
            "accepted": by_org(|side| json!(side.accepted)),
            "expose": by_org(exposed),
            "rules": by_org(|side| json!({"signed_only": side.rules.signed_only, "ips": side.rules.ips_text()})),
            "log": log,
        }))
    }
}

fn exposed(side: &LinkSide) -> Value {
    side.exposes.iter().map(|one| json!({"kind": one.kind.as_str(), "pattern": one.pattern})).collect()
}
