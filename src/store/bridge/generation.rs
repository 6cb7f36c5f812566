//! One inbound message in the words of either generation of the local protocol. Pure. What one of them
//! has no field for is kept in the additive field `redsyn`, so that going over and back loses nothing.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::crypto::{jcs, sha256};
use crate::proto::dsh::json::JsonText;
use crate::proto::dsh::names::{AgentName, DshId, Party};
use crate::proto::dsh::v1::envelope::Kind as V1Kind;
use crate::proto::dsh::v2::message::{Kind as V2Kind, Mode};
use crate::proto::dsh::v2::name::Name;
use crate::proto::redsyn::ids::TTL_DEFAULT_SECS;
use crate::store::{local, v2};

/// The generations of the local protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Generation {
    #[default]
    V1,
    V2,
}

impl Generation {
    pub const fn number(self) -> i64 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }

    pub const fn of(number: i64) -> Self {
        if number == 2 { Self::V2 } else { Self::V1 }
    }
}

/// A local message on its way out, of either generation.
#[derive(Clone, Debug)]
pub enum Outgoing {
    V1(local::NewMessage),
    V2(v2::NewMessage),
}

impl Outgoing {
    pub const fn id(&self) -> &DshId {
        match self {
            Self::V1(message) => &message.id,
            Self::V2(message) => &message.id,
        }
    }

    pub const fn generation(&self) -> Generation {
        match self {
            Self::V1(_) => Generation::V1,
            Self::V2(_) => Generation::V2,
        }
    }
}

/// The fields of an envelope of the second generation that are neither empty nor what a reader takes for granted.
pub fn envelope_of(message: &v2::NewMessage) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut texts = |name: &str, text: &str| {
        if !text.is_empty() {
            fields.insert(name.into(), json!(text));
        }
    };
    texts("context", &message.context);
    texts("topic", &message.topic);
    texts("session_ref", &message.session_ref);
    if message.mode != Mode::default() {
        fields.insert("execution_mode".into(), json!(message.mode.as_str()));
    }
    if message.allow_shared_write {
        fields.insert("allow_shared_write".into(), json!(true));
    }
    fields
}

/// The body of an inbound message as a text: text as it is, anything else as its canonical JSON.
fn text_of(message: &local::NewMessage) -> String {
    let Some(body) = message.body.to_value() else { return message.body.as_json().to_owned() };
    let fields = body.as_object().filter(|fields| fields.len() == 1);
    if let Some(Value::String(text)) = fields.and_then(|fields| fields.get("text")) {
        return text.clone();
    }
    // Data that is no object has come in one.
    let data = fields.and_then(|fields| fields.get("data")).filter(|data| !data.is_object());
    let canonical = jcs::canonical(data.unwrap_or(&body)).unwrap_or_default();
    String::from_utf8(canonical).unwrap_or_default()
}

fn member<'a>(redsyn: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    redsyn.and_then(|redsyn| redsyn.get(name)).filter(|value| !value.is_null())
}

/// An inbound message for `agent` in the words of the second generation.
pub fn to_v2(message: &local::NewMessage, agent: &AgentName) -> v2::NewMessage {
    let redsyn = message.redsyn.as_ref();
    let envelope = member(redsyn, "envelope");
    let text = |name: &str| {
        let given = member(envelope, name).and_then(Value::as_str);
        given.map(ToOwned::to_owned)
    };
    let told = |field: &Option<JsonText>| field.as_ref().and_then(JsonText::as_text);
    let kind = match (message.kind, member(redsyn, "kind").and_then(Value::as_str)) {
        (V1Kind::Request, _) => V2Kind::Request,
        (V1Kind::Reply, _) => V2Kind::Reply,
        (V1Kind::Message, Some("event")) => V2Kind::Event,
        (V1Kind::Message, _) => V2Kind::Message,
    };
    let topic =
        text("topic").or_else(|| member(redsyn, "topic").and_then(Value::as_str).map(ToOwned::to_owned));
    v2::NewMessage {
        id: message.id.clone(),
        root_id: told(&message.root_id).unwrap_or_else(|| message.id.to_string()),
        parent_id: told(&message.parent_id),
        origin: Name::of(message.from.as_str()),
        target: Name::of(agent.as_str()),
        kind,
        body: text_of(message),
        session_ref: text("session_ref").unwrap_or_default(),
        mode: text("execution_mode").and_then(|word| Mode::parse(&word)).unwrap_or_default(),
        context: text("context").unwrap_or_default(),
        topic: topic.unwrap_or_default(),
        allow_shared_write: member(envelope, "allow_shared_write").and_then(Value::as_bool).unwrap_or(false),
        // The ids of stored messages are unique already.
        idempotency_key: format!("redsyn:{}", sha256::hex(message.id.as_str().as_bytes())),
        created_at: message.ts,
        expires_at: message
            .expires_at
            .unwrap_or_else(|| message.ts.plus(Duration::from_secs(TTL_DEFAULT_SECS))),
    }
}

/// The additive field that goes with what [`to_v2`] makes: the second generation has no wish for a receipt.
pub fn redsyn_for_v2(message: &local::NewMessage) -> Value {
    let mut redsyn = message.redsyn.clone().unwrap_or_else(|| json!({}));
    if message.ack
        && let Some(fields) = redsyn.as_object_mut()
        && let Some(envelope) = fields.entry("envelope").or_insert_with(|| json!({})).as_object_mut()
    {
        envelope.insert("ack".into(), json!(true));
    }
    redsyn
}

fn take_ack(redsyn: &mut Value) -> bool {
    let Some(fields) = redsyn.as_object_mut() else { return false };
    let Some(envelope) = fields.get_mut("envelope").and_then(Value::as_object_mut) else { return false };
    let ack = envelope.remove("ack").is_some();
    if envelope.is_empty() {
        fields.remove("envelope");
    }
    ack
}

/// The same message, which [`to_v2`] has made, in the words of the first.
pub fn to_v1(message: &v2::NewMessage, mut redsyn: Value, agent: &AgentName) -> local::NewMessage {
    let is_text = redsyn.get("type").and_then(Value::as_str) != Some("application/json");
    let data = if is_text { None } else { serde_json::from_str(&message.body).ok() };
    let body = match data {
        None => json!({"text": message.body}),
        Some(Value::Object(fields)) => Value::Object(fields),
        Some(data) => json!({"data": data}),
    };
    let text = |text: &str| Some(JsonText::from(&json!(text)));
    let parent = message.parent_id.as_deref().and_then(text);
    let mut local = local::NewMessage::new(
        message.id.clone(),
        Party::new(message.origin.as_str()),
        agent,
        message.created_at,
    );
    local.kind = match message.kind {
        V2Kind::Request => V1Kind::Request,
        V2Kind::Reply => V1Kind::Reply,
        V2Kind::Message | V2Kind::Event => V1Kind::Message,
    };
    local.body = JsonText::from(&body);
    local.root_id = text(&message.root_id);
    local.reply_to.clone_from(&parent);
    local.parent_id = parent;
    local.expires_at = Some(message.expires_at);
    local.ack = take_ack(&mut redsyn);
    local.redsyn = Some(redsyn);
    local
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::clock::Timestamp;

    fn arrived(body: &str, redsyn: Value) -> local::NewMessage {
        let from = Party::new("globex/erp/bob/billing");
        let agent = AgentName::parse("Close").unwrap();
        let mut message = local::NewMessage::new(DshId::new("q1"), from, &agent, Timestamp::from_secs(1000));
        message.body = JsonText::parse(body).unwrap();
        message.kind = V1Kind::Request;
        message.root_id = Some(JsonText::from(&json!("t1")));
        message.expires_at = Some(Timestamp::from_secs(2000));
        message.redsyn = Some(redsyn);
        message
    }

    #[test]
    fn a_message_goes_over_and_back_unchanged() {
        let agent = AgentName::parse("Close").unwrap();
        let envelope = json!({"context": "c", "topic": "t", "session_ref": "s", "execution_mode": "write",
                              "allow_shared_write": true});
        for (body, kind, ack) in [
            (r#"{"text":"hi"}"#, "text/plain", false),
            (r#"{"a":1,"text":"hi"}"#, "application/json", true),
            (r#"{"data":[1]}"#, "application/json", false),
        ] {
            let redsyn = json!({"kind": "request", "type": kind, "envelope": envelope});
            let message = local::NewMessage { ack, ..arrived(body, redsyn) };
            let over = to_v2(&message, &agent);
            assert_eq!(
                (over.target.as_str(), over.mode, over.allow_shared_write),
                ("close", Mode::Write, true)
            );
            assert_eq!(Value::Object(envelope_of(&over)), envelope);
            let back = to_v1(&over, redsyn_for_v2(&message), &agent);
            assert_eq!(back, message, "{body}");
        }
        let wished = local::NewMessage { ack: true, ..arrived("{}", json!({"kind": "request"})) };
        let redsyn = redsyn_for_v2(&wished);
        assert_eq!(redsyn["envelope"], json!({"ack": true}));
        let back = to_v1(&to_v2(&wished, &agent), redsyn, &agent);
        assert_eq!((back.ack, back.redsyn), (true, wished.redsyn));
    }

    #[test]
    fn bodies_are_texts() {
        let agent = AgentName::parse("close").unwrap();
        for (body, text) in [
            (r#"{"text":"hi"}"#, "hi"),
            (r#"{"text":1}"#, r#"{"text":1}"#),
            (r#"{"b":1,"a":2}"#, r#"{"a":2,"b":1}"#),
            (r#"{"data":[1]}"#, "[1]"),
            (r#"{"data":{"a":1}}"#, r#"{"data":{"a":1}}"#),
        ] {
            assert_eq!(to_v2(&arrived(body, json!({})), &agent).body, text, "{body}");
        }
    }

    #[test]
    fn an_event_is_one_and_carries_its_topic() {
        let mut message = arrived("{}", json!({"kind": "event", "topic": "topic:acme/finance/invoices"}));
        message.kind = V1Kind::Message;
        let event = to_v2(&message, &AgentName::parse("close").unwrap());
        assert_eq!((event.kind, event.topic.as_str()), (V2Kind::Event, "topic:acme/finance/invoices"));
    }
}
