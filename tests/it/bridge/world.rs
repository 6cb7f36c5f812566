//! A bridge over a real file, its clock in the test's hand, its relay scripted.

use std::sync::Arc;

use redsyn_bridge::bridge::carrier::BridgeCarrier;
use redsyn_bridge::bridge::events::Event;
use redsyn_bridge::bridge::keys::NodeKeys;
use redsyn_bridge::bridge::link::Link;
use redsyn_bridge::bridge::supervisor::Control;
use redsyn_bridge::broker::carrier::Carrier;
use redsyn_bridge::config::redsyn::RedsynConfig;
use redsyn_bridge::crypto::seal::{SealSecrets, seal};
use redsyn_bridge::domain::clock::{Clock, ManualClock, Timestamp};
use redsyn_bridge::domain::delivery::Status;
use redsyn_bridge::domain::random::SystemRandom;
use redsyn_bridge::domain::wakeups::Wakeups;
use redsyn_bridge::proto::dsh::error::ApiError;
use redsyn_bridge::proto::dsh::json::JsonText;
use redsyn_bridge::proto::dsh::names::{AgentName, DshId, Party};
use redsyn_bridge::proto::dsh::v1::envelope::Kind;
use redsyn_bridge::proto::redsyn::signed;
use redsyn_bridge::store::local::{NewMessage, Sent, StatusLine};
use redsyn_bridge::store::sqlite::local::LocalStore;
use serde_json::{Map, Value, json};
use tokio::sync::broadcast;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::node::{Node, Treacherous};
use super::relay::{HANG, Relay};

pub const NOW: Timestamp = Timestamp::from_secs(1_790_000_000);
pub const CLOSE: &str = "acme/finance/ana/close";
pub const BOB: &str = "globex/erp/bob/billing";

pub fn close() -> AgentName {
    AgentName::parse("close").unwrap()
}

/// One node.
pub struct World {
    pub relay: Relay,
    pub clock: ManualClock,
    pub local: LocalStore,
    pub link: Arc<Link>,
    pub control: Control,
    pub carrier: Arc<BridgeCarrier>,
    pub keys: NodeKeys,
    pub events: broadcast::Receiver<Event>,
    pub random: Arc<Treacherous>,
    /// Rings local agents.
    pub wakeups: Wakeups<AgentName>,
    folder: tempfile::TempDir,
    more: String,
    stop: CancellationToken,
    running: JoinHandle<Result<(), JoinError>>,
}

impl World {
    /// A node with the agent `close` and the contact `bob`, that takes mail always.
    pub async fn new() -> Self {
        Self::with("agents: {close: {hold: true, allow: [org:globex]}}").await
    }

    /// A node with these lines in its configuration.
    pub async fn with(more: &str) -> Self {
        Self::scripted(more, |_| ()).await
    }

    /// The same, at a relay that was given a script before the node called it.
    pub async fn scripted(more: &str, script: impl FnOnce(&Relay)) -> Self {
        let clock = ManualClock::at(NOW);
        let relay = Relay::start(clock.clone()).await;
        script(&relay);
        let keys = NodeKeys::generate(&SystemRandom);
        Self::start(relay, clock, tempfile::tempdir().unwrap(), keys, more.to_owned())
    }

    fn start(
        relay: Relay,
        clock: ManualClock,
        folder: tempfile::TempDir,
        keys: NodeKeys,
        more: String,
    ) -> Self {
        let yaml = format!("scope: acme/finance/ana\nrelay: {}\ncontacts: {{bob: {BOB}}}\n{more}", relay.url);
        let node = Node::start(&yaml, folder.path(), "the-token", &keys, clock.clone());
        let Node { local, link, control, carrier, events, random, wakeups, stop, running, .. } = node;
        Self {
            relay,
            clock,
            local,
            link,
            control,
            carrier,
            keys,
            events,
            random,
            wakeups,
            folder,
            more,
            stop,
            running,
        }
    }

    /// The configuration with other lines after its first ones.
    pub fn config(&self, more: &str) -> RedsynConfig {
        let yaml =
            format!("scope: acme/finance/ana\nrelay: {}\ncontacts: {{bob: {BOB}}}\n{more}", self.relay.url);
        RedsynConfig::parse(&yaml, self.folder.path()).unwrap()
    }

    /// Stops the node in an orderly way.
    pub async fn stopped(self) -> Stopped {
        self.stop.cancel();
        tokio::time::timeout(HANG, self.running).await.unwrap().unwrap().unwrap();
        self.local.close().await.unwrap();
        Stopped {
            relay: self.relay,
            clock: self.clock,
            folder: self.folder,
            keys: self.keys,
            more: self.more,
        }
    }

    /// The node after a restart.
    pub async fn restarted(self) -> Self {
        self.stopped().await.started()
    }

    /// The same with other lines in its configuration.
    pub async fn restarted_with(self, more: &str) -> Self {
        Stopped { more: more.to_owned(), ..self.stopped().await }.started()
    }

    /// Changes the database behind the bridge's back.
    pub async fn execute(&self, sql: &'static str) {
        self.local.db().call("test", move |conn| Ok(conn.execute_batch(sql)?)).await.unwrap();
    }

    /// Waits until so many tasks of the node sleep, so that moving the clock wakes them.
    pub async fn asleep(&self, sleepers: usize) {
        let waited = tokio::time::timeout(HANG, async {
            while self.clock.sleepers() < sleepers {
                tokio::task::yield_now().await;
            }
        });
        assert!(waited.await.is_ok(), "{} sleep, not {sleepers}", self.clock.sleepers());
    }

    /// Waits until the database says so.
    pub async fn holds(&self, condition: &'static str) {
        let sql = format!("SELECT EXISTS ({condition})");
        let look = || {
            let sql = sql.clone();
            self.local
                .db()
                .call("test", move |conn| Ok(conn.query_row(&sql, [], |row| row.get::<_, bool>(0))?))
        };
        let waited = tokio::time::timeout(HANG, async {
            while !look().await.unwrap() {
                tokio::task::yield_now().await;
            }
        });
        assert!(waited.await.is_ok(), "never: {condition}");
    }

    pub async fn up(&self) {
        tokio::time::timeout(HANG, self.link.up()).await.unwrap();
    }

    /// The next event that `pick` takes.
    pub async fn event<T>(&mut self, pick: impl Fn(&Event) -> Option<T>) -> T {
        let next = async {
            loop {
                let event = self.events.recv().await.unwrap();
                if let Some(picked) = pick(&event) {
                    return picked;
                }
            }
        };
        let picked = tokio::time::timeout(HANG, next).await;
        assert!(picked.is_ok(), "no such event; the calls were {:#?}", self.relay.summary());
        picked.unwrap()
    }

    pub async fn accepted(&mut self, wanted: &str) -> bool {
        self.event(|event| match event {
            Event::Accepted { id, sealed, .. } if id.as_str() == wanted => Some(*sealed),
            _ => None,
        })
        .await
    }

    /// All of them, in whatever order, and sealed.
    pub async fn all_accepted<const N: usize>(&mut self, wanted: [&str; N]) {
        let mut missing = wanted.to_vec();
        while !missing.is_empty() {
            let (id, sealed) = self
                .event(|event| match event {
                    Event::Accepted { id, sealed, .. } => Some((id.to_string(), *sealed)),
                    _ => None,
                })
                .await;
            assert!(sealed && missing.contains(&id.as_str()), "{id} was accepted, sealed: {sealed}");
            missing.retain(|wanted| *wanted != id);
        }
    }

    pub async fn postponed(&mut self, wanted: &str) -> String {
        self.event(|event| match event {
            Event::Postponed { id, why, .. } if id.as_str() == wanted => Some(why.clone()),
            _ => None,
        })
        .await
    }

    pub async fn failed(&mut self, wanted: &str) -> &'static str {
        self.event(|event| match event {
            Event::Failed { id, code, .. } if id.as_str() == wanted => Some(*code),
            _ => None,
        })
        .await
    }

    pub async fn held_out(&mut self, wanted: &str) -> String {
        self.event(|event| match event {
            Event::HeldOut { id, why, .. } if id.as_str() == wanted => Some(why.clone()),
            _ => None,
        })
        .await
    }

    pub async fn held_in(&mut self, wanted: &str) -> String {
        self.event(|event| match event {
            Event::HeldIn { id, why, .. } if id.as_str() == wanted => Some(why.clone()),
            _ => None,
        })
        .await
    }

    pub async fn refused(&mut self, wanted: &str) -> String {
        self.event(|event| match event {
            Event::Refused { id, why, .. } if id.as_str() == wanted => Some(why.clone()),
            _ => None,
        })
        .await
    }

    pub async fn delivered(&mut self, wanted: &str) {
        self.event(|event| match event {
            Event::Delivered { id, .. } if id.as_str() == wanted => Some(()),
            _ => None,
        })
        .await;
    }

    pub async fn acked(&mut self) -> Vec<String> {
        self.event(|event| match event {
            Event::Acked { ids } => Some(ids.iter().map(ToString::to_string).collect()),
            _ => None,
        })
        .await
    }

    pub async fn try_send(&self, message: NewMessage) -> Result<Sent, ApiError> {
        self.carrier.send(message).await
    }

    pub async fn send(&self, message: NewMessage) {
        assert!(!self.try_send(message).await.unwrap().duplicate);
    }

    pub async fn status(&self, id: &str) -> StatusLine {
        let lines = self.local.status(close(), vec![id.to_owned()]).await.unwrap();
        lines.into_iter().next().unwrap().1.unwrap()
    }

    pub async fn assert_status(&self, id: &str, status: Status) {
        assert_eq!(self.status(id).await.status, status, "{id}");
    }

    /// What `close` can take, oldest first.
    pub async fn inbox(&self) -> Vec<NewMessage> {
        let mut inbox = self.local.recent(close(), 100).await.unwrap();
        inbox.reverse();
        inbox.into_iter().map(|stored| stored.message).collect()
    }

    pub async fn inbox_ids(&self) -> Vec<String> {
        self.inbox().await.iter().map(|message| message.id.to_string()).collect()
    }

    /// The bodies of everything that was posted to the relay.
    pub fn posted(&self) -> Vec<Value> {
        self.relay.calls("POST /messages").into_iter().map(|call| call.body).collect()
    }

    pub async fn posted_times(&self, times: usize) -> Vec<Value> {
        self.relay.called("POST /messages", times).await.into_iter().map(|call| call.body).collect()
    }

    /// Fails unless the relay would take the signature.
    pub fn assert_signed(&self, envelope: &Value, relay_now: Timestamp) {
        let key = self.keys.signing.verifying_key();
        signed::check_arrival(envelope.as_object().unwrap(), Some(&key), relay_now.secs()).unwrap();
    }
}

/// A node that is not running.
pub struct Stopped {
    pub relay: Relay,
    pub clock: ManualClock,
    folder: tempfile::TempDir,
    keys: NodeKeys,
    more: String,
}

impl Stopped {
    /// What its configuration says from the next start on.
    pub fn configure(&mut self, more: &str) {
        more.clone_into(&mut self.more);
    }

    pub fn started(self) -> World {
        World::start(self.relay, self.clock, self.folder, self.keys, self.more)
    }

    /// Its store, while nobody else has it open.
    pub fn store(&self) -> LocalStore {
        LocalStore::open(self.folder.path()).unwrap()
    }
}

/// A request of `close` to the contact `bob`.
pub fn request(id: &str) -> NewMessage {
    let mut message = NewMessage::new(DshId::new(id), close(), Party::new("bob"), NOW);
    message.kind = Kind::Request;
    message.body = json_text(&json!({"text": format!("what of {id}?")}));
    message
}

/// What `close` answers to the message called `parent`.
pub fn answer(id: &str, parent: &str, kind: Kind) -> NewMessage {
    let mut message = request(id);
    message.kind = kind;
    message.parent_id = Some(json_text(&json!(parent)));
    message
}

pub fn json_text(value: &Value) -> JsonText {
    JsonText::from(value)
}

pub fn text_of(field: &Option<JsonText>) -> Option<String> {
    field.as_ref().and_then(JsonText::as_text)
}

pub fn body_of(message: &NewMessage) -> Value {
    message.body.to_value().unwrap()
}

/// Somebody's node beyond the relay.
pub struct Remote {
    pub keys: NodeKeys,
}

impl Remote {
    pub fn new() -> Self {
        Self { keys: NodeKeys::generate(&SystemRandom) }
    }

    /// A signed envelope of [`BOB`] to `close`, as a relay delivers it; `change` is made before it is signed.
    pub fn signed(&self, id: &str, change: impl FnOnce(&mut Map<String, Value>)) -> Value {
        let mut envelope = unsigned(id);
        change(&mut envelope);
        let payload = String::from_utf8(signed::signing_payload(&envelope).unwrap()).unwrap();
        signed::sign(&mut envelope, &self.keys.signing).unwrap();
        envelope["sig"]["payload"] = json!(payload);
        envelope.insert("signed".into(), json!(true));
        Value::Object(envelope)
    }

    /// The same, with its body sealed for `recipient`.
    pub fn sealed(&self, id: &str, recipient: &NodeKeys) -> Value {
        self.signed(id, |envelope| {
            let content = json!({"body": envelope["body"], "refs": [{"url": "https://sealed.example"}],
                                 "reply_key": self.keys.enc.enc_key().to_string()});
            let secrets = SealSecrets { ephemeral: [7; 32], nonce: [8; 12], files_nonce: [9; 12] };
            let kind = envelope["kind"].as_str().unwrap().to_owned();
            let plain = content.to_string();
            let sealed = seal(&recipient.enc.enc_key(), &secrets, id, &kind, plain.as_bytes(), None).unwrap();
            envelope.insert("body".into(), sealed.enc.to_body());
        })
    }
}

/// A plain request of [`BOB`] to `close` in session `s4`.
pub fn unsigned(id: &str) -> Map<String, Value> {
    let envelope = json!({
        "v": 1, "id": id, "kind": "request", "from": format!("{BOB}#s9"), "to": format!("{CLOSE}#s4"),
        "thread": "t1", "reply_to": null, "ts": NOW.secs(), "body": {"type": "text/plain", "text": id},
        "refs": [], "files": null, "error": false, "sig": null, "signed": false,
        "expires": NOW.secs() + 3600, "attempts": 1,
    });
    envelope.as_object().unwrap().clone()
}

/// An unsigned error reply, as a relay itself writes one.
pub fn relay_notice(id: &str, reply_to: &str) -> Value {
    let mut notice = unsigned(id);
    notice.insert("kind".into(), json!("reply"));
    notice.insert("reply_to".into(), json!(reply_to));
    notice.insert("error".into(), json!(true));
    let text = format!("not delivered: {BOB} took it 10 times and never confirmed it");
    notice.insert("body".into(), json!({"type": "text/plain", "text": text}));
    Value::Object(notice)
}

/// Lets other tasks run until they wait for something.
pub async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

pub fn now(clock: &ManualClock) -> Timestamp {
    Clock::now(clock)
}
