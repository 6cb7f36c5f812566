//! The files of a JSONL store, cut and changed in every way that a crash or another broker can leave them.

mod crash;
mod files;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::table;
use crate::domain::clock::Timestamp;
use crate::domain::delivery::State;
use crate::domain::random::SystemRandom;
use crate::proto::dsh::json::JsonText;
use crate::proto::dsh::names::{AgentName, DshId, Party};
use crate::proto::dsh::v1::request::Outcome;
use crate::store::jsonl::rows::Cells;
use crate::store::local::{Ack, NewMessage, Pull, StoredMessage};
use crate::store::sqlite::local::{Loaded, LocalStore};
use crate::store::{StoreError, node};

const MAIL: &str = node::V1_LINES;
const ROWS: &str = crate::store::jsonl::ROWS;
const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

fn agent(name: &str) -> AgentName {
    AgentName::parse(name).unwrap()
}

fn open(folder: &Path) -> (LocalStore, Loaded) {
    LocalStore::open_jsonl(folder).unwrap()
}

fn message(id: &str) -> NewMessage {
    NewMessage::new(DshId::new(id), agent("alpha"), Party::new("beta"), NOW)
}

async fn send(store: &LocalStore, id: &str) {
    store.send(message(id), agent("beta"), |_| ()).await.unwrap().unwrap();
}

async fn pull(store: &LocalStore, limit: u32) -> Vec<StoredMessage> {
    let pull = Pull { agent: agent("beta"), limit, now: NOW, until: NOW.plus(Duration::from_secs(9)) };
    store.pull(pull, SystemRandom::shared()).await.unwrap().messages
}

async fn ack(store: &LocalStore, message: &StoredMessage, outcome: Outcome) {
    let State::Leased(lease) = &message.delivery.state else { panic!("not leased") };
    let ack = Ack {
        agent: agent("beta"),
        id: message.message.id.clone(),
        lease_id: lease.id.clone(),
        outcome,
        error: JsonText::null(),
        max_attempts: 3,
        now: NOW,
    };
    store.ack(ack, |_| ()).await.unwrap();
}

async fn execute(store: &LocalStore, sql: &'static str) -> Result<(), StoreError> {
    store.db().call("test", move |conn| Ok(conn.execute_batch(sql)?)).await
}

/// Every row of every table.
async fn dump(store: &LocalStore) -> BTreeMap<String, Vec<Cells>> {
    let all = store.db().call("dump", |conn| {
        let mut dump = BTreeMap::new();
        for table in table::all(conn)? {
            let mut rows = Vec::new();
            table.each_row(conn, |cells| {
                rows.push(cells);
                Ok(())
            })?;
            dump.insert(table.name().to_owned(), rows);
        }
        Ok(dump)
    });
    all.await.unwrap()
}

async fn reopened(store: LocalStore, folder: &Path) -> LocalStore {
    store.close().await.unwrap();
    open(folder).0
}

async fn ids(store: &LocalStore) -> Vec<String> {
    let kept = store.kept_after(0, 1000).await.unwrap();
    kept.iter().map(|kept| kept.stored.message.id.to_string()).collect()
}

/// Changes that touch the mail, the rows, both, and several lines of each.
const MIXED: &str = "
    INSERT INTO messages (id, sender, recipient, ts, type, kind, body, ack, status)
        VALUES ('away', 'alpha', 'bob-billing', 1, 'message', 'request', '{}', 0, 'queued');
    INSERT INTO held (agent, id, person, reason, envelope, since)
        VALUES ('alpha', 'away', 'globex/bob', 'key', '{\"a\":\"é\n\"}', 5);
    INSERT INTO seen (agent, id, keep_until) VALUES ('alpha', 'away', 9);
    INSERT INTO files (message, zip) SELECT seq, x'00ff' FROM messages WHERE id = 'two';
    INSERT INTO pins (person, key, since) VALUES ('globex/bob', 'k1', 1), ('globex/bob', 'k2', 2);
";
