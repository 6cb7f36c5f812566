//! The bridge's store on a real file. Most tests close and open it half-way: what they assert must not depend on
//! anything that a process keeps in memory.

mod arrivals;
mod decisions;
mod departures;
mod endings;
mod model;
mod outbox;
mod parcels;
mod pins;

use std::collections::HashSet;
use std::time::Duration;

use rusqlite::types::FromSql;
use serde_json::{Value, json};

use super::BridgeStore;
use crate::crypto::sign::{SigningKey, VerifyingKey};
use crate::domain::clock::Timestamp;
use crate::domain::crossing::LocalKind;
use crate::domain::delivery::Status;
use crate::proto::dsh::json::JsonText;
use crate::proto::dsh::names::{AgentName, DshId, Party};
use crate::proto::dsh::v1::envelope::Kind as DshKind;
use crate::proto::redsyn::address::Person;
use crate::proto::redsyn::body::Body;
use crate::proto::redsyn::ids::{Kind, MessageId};
use crate::store::bridge::generation::{Generation, Outgoing};
use crate::store::bridge::{
    Accepted, Arrival, Content, Departure, Failure, OutboxEntry, Parcel, PinState, Refusal,
};
use crate::store::local::{NewMessage, StatusLine, StoredMessage};
use crate::store::sqlite::local::LocalStore;
use crate::store::v2::Created;

const NOW: Timestamp = Timestamp::from_secs(1_790_000_000);
const BOB: &str = "globex/erp/bob/billing";
const EVA: &str = "globex/erp/eva/audit";

fn after(secs: u64) -> Timestamp {
    NOW.plus(Duration::from_secs(secs))
}

fn close() -> AgentName {
    AgentName::parse("close").unwrap()
}

fn id(text: &str) -> MessageId {
    text.parse().unwrap()
}

fn json_text(text: &str) -> Option<JsonText> {
    Some(JsonText::from(&json!(text)))
}

/// A store in a folder of its own.
struct Node {
    folder: tempfile::TempDir,
    local: LocalStore,
    store: BridgeStore,
}

impl Node {
    fn new() -> Self {
        Self::open(tempfile::tempdir().unwrap())
    }

    fn open(folder: tempfile::TempDir) -> Self {
        let local = LocalStore::open(folder.path()).unwrap();
        let store = BridgeStore::new(local.db().clone());
        Self { folder, local, store }
    }

    /// What a restart leaves.
    async fn reopened(self) -> Self {
        self.local.close().await.unwrap();
        Self::open(self.folder)
    }

    async fn depart(&self, departure: Departure) -> Created {
        self.store.depart(departure, |_| ()).await.unwrap()
    }

    /// Everything that may be sent now.
    async fn due(&self) -> Vec<OutboxEntry> {
        self.due_at(NOW).await
    }

    async fn due_at(&self, now: Timestamp) -> Vec<OutboxEntry> {
        self.store.due(now, HashSet::new(), 100, |_| ()).await.unwrap().entries
    }

    async fn is_seen(&self, agent: AgentName, message: &str) -> bool {
        self.store.known(agent, id(message), "globex/bob".parse().unwrap(), None).await.unwrap().is_seen
    }

    async fn pin_state(&self, person: Person, key: VerifyingKey) -> PinState {
        let known = self.store.known(close(), id("q0"), person, None).await.unwrap();
        known.pins.state(&key.to_string())
    }

    /// When the next entry becomes due after `now`.
    async fn next_due(&self, now: Timestamp) -> Option<Timestamp> {
        self.store.due(now, HashSet::new(), 0, |_| ()).await.unwrap().next
    }

    /// The one entry of that id that may be sent now.
    async fn entry(&self, id: &str) -> OutboxEntry {
        let due = self.due_at(after(100_000)).await;
        due.into_iter().find(|entry| entry.id.as_str() == id).unwrap()
    }

    async fn accept(&self, entry: &OutboxEntry, thread: &str, session: Option<&str>) {
        let accepted = Accepted {
            seq: entry.seq,
            id: entry.id.clone(),
            agent: entry.agent.clone(),
            thread: Some(thread.into()),
            remote_session: session.map(|session| session.parse().unwrap()),
            sealed: false,
            now: NOW,
        };
        self.store.accepted(accepted).await.unwrap();
    }

    async fn fail(&self, entry: &OutboxEntry) {
        let local_id = entry.local_id.as_deref().unwrap();
        let mut notice = NewMessage::new(
            DshId::new(format!("undelivered:{local_id}")),
            Party::new(BOB),
            &entry.agent,
            NOW,
        );
        notice.kind = DshKind::Reply;
        notice.parent_id = json_text(local_id);
        let failure = Failure { entry: entry.clone(), code: "forbidden", reason: "no".into(), now: NOW };
        self.store.failed(failure, Some(notice)).await.unwrap();
    }

    async fn status(&self, id: &str) -> StatusLine {
        let lines = self.local.status(close(), vec![id.to_owned()]).await.unwrap();
        lines.into_iter().next().unwrap().1.unwrap()
    }

    /// What the agent can take, oldest first.
    async fn inbox(&self) -> Vec<StoredMessage> {
        let mut inbox = self.local.recent(close(), 100).await.unwrap();
        inbox.reverse();
        inbox
    }

    async fn inbox_ids(&self) -> Vec<String> {
        self.inbox().await.iter().map(|stored| stored.message.id.to_string()).collect()
    }

    async fn one<T: FromSql + Send + 'static>(&self, sql: &'static str) -> T {
        let db = self.local.db();
        db.call("look", move |conn| Ok(conn.query_row(sql, [], |row| row.get(0))?)).await.unwrap()
    }

    async fn execute(&self, sql: &'static str) {
        self.local.db().call("change", move |conn| Ok(conn.execute_batch(sql)?)).await.unwrap();
    }

    async fn outbox_len(&self) -> i64 {
        self.one("SELECT count(*) FROM outbox").await
    }
}

/// A message of `close` to [`BOB`].
fn departure(local_id: &str, kind: LocalKind) -> Departure {
    let message = NewMessage::new(DshId::new(local_id), close(), Party::new(BOB), NOW);
    Departure {
        message: Outgoing::V1(message),
        id: crate::crypto::sha256::hex(local_id.as_bytes()).parse().unwrap(),
        kind,
        parent_id: None,
        reply_to: None,
        root_id: None,
        agent: close(),
        address: "acme/finance/ana/close".parse().unwrap(),
        remote: BOB.parse().unwrap(),
        content: Content { body: Body::text("hi"), refs: vec![json!({"url": "https://git.example"})] },
        files: None,
        parcel: Parcel::default(),
        ttl: None,
        receipts_travel: false,
        now: NOW,
    }
}

/// The same under an id that is the same on both sides.
fn plain(local_id: &str, kind: LocalKind) -> Departure {
    Departure { id: id(local_id), ..departure(local_id, kind) }
}

fn request(local_id: &str) -> Departure {
    plain(local_id, LocalKind::Request)
}

/// What answers the message called `parent` here.
fn under(parent: &str, departure: Departure) -> Departure {
    Departure { parent_id: Some(parent.into()), ..departure }
}

/// A message of [`BOB`] to `close`, in session `s4` of thread `t1`.
fn arrival(text: &str, kind: Kind) -> Arrival {
    let mut message = NewMessage::new(DshId::new(text), Party::new(BOB), close(), NOW);
    message.body = JsonText::from(&json!({"text": text}));
    Arrival {
        agent: close(),
        address: "acme/finance/ana/close".parse().unwrap(),
        id: id(text),
        kind,
        from: format!("{BOB}#s9").parse().unwrap(),
        session: Some("s4".parse().unwrap()),
        thread: Some("t1".into()),
        reply_to: None,
        reply_key: None,
        error: false,
        message,
        zip: None,
        signer: None,
        expires_at: None,
        now: NOW,
    }
}

fn reply(text: &str, to: &MessageId) -> Arrival {
    Arrival { reply_to: Some(to.clone()), ..arrival(text, Kind::Reply) }
}

fn refusal(text: &str, kind: Kind) -> Refusal {
    let arrival = arrival(text, kind);
    Refusal {
        agent: arrival.agent,
        address: arrival.address,
        id: arrival.id,
        kind,
        from: arrival.from,
        session: arrival.session,
        thread: arrival.thread,
        reason: "cannot decrypt".into(),
        now: NOW,
    }
}

fn key(seed: u8) -> String {
    SigningKey::from_seed(&[seed; 32]).verifying_key().to_string()
}

fn text_of(parent: &Option<JsonText>) -> Option<String> {
    parent.as_ref().and_then(JsonText::as_text)
}

fn body_of(entry: &OutboxEntry) -> &Value {
    entry.content.body.as_value()
}

fn assert_status(line: &StatusLine, status: Status) {
    assert_eq!(line.status, status, "{line:?}");
}
