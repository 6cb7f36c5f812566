//! Two nodes and a real relay between them, all in the test, on one clock that moves only while nothing is under way;
//! each node reaches the relay through a proxy of its own.

use std::path::PathBuf;
use std::time::Duration;

use redsyn_bridge::bridge::keys::NodeKeys;
use redsyn_bridge::broker::carrier::{Carrier, Taker};
use redsyn_bridge::domain::clock::{Clock, Timestamp};
use redsyn_bridge::domain::random::SystemRandom;
use redsyn_bridge::proto::dsh::error::ApiError;
use redsyn_bridge::proto::dsh::json::JsonText;
use redsyn_bridge::proto::dsh::names::{AgentName, DshId, Party};
use redsyn_bridge::proto::dsh::v1::envelope::Kind as V1Kind;
use redsyn_bridge::proto::dsh::v2::message::{Kind as V2Kind, Mode};
use redsyn_bridge::proto::dsh::v2::name::Name;
use redsyn_bridge::store::bridge::generation::Generation;
use redsyn_bridge::store::{local, v2};
use serde_json::{Value, json};

use super::node::Node;
use crate::support::proxy::Proxy;
use crate::support::world::{Member, World, base};

/// Long enough for a slow machine; only a test that has failed waits for it.
const HANG: Duration = Duration::from_secs(120);
/// How far the clock moves when nobody is at work. Far less than the ten minutes of a signature.
const STEP: Duration = Duration::from_secs(5);

/// Id, text, and what it answers.
pub type Mail = (String, String, Option<String>);

/// A node, and what it takes to start it again.
pub struct Side {
    pub member: Member,
    pub other: Member,
    pub proxy: Proxy,
    pub node: Node,
    pub keys: NodeKeys,
    pub generation: Generation,
    folder: PathBuf,
    yaml: String,
    token: String,
}

pub struct Pair {
    pub world: World,
    /// `close` of Ana.
    pub a: Side,
    /// `billing` of Bob.
    pub b: Side,
}

impl Pair {
    /// Both agents take their mail in these generations.
    pub async fn new(a: Generation, b: Generation) -> Self {
        Self::with(World::new().await, a, b, "").await
    }

    /// The same, with more about each agent.
    pub async fn with(world: World, a: Generation, b: Generation, more: &str) -> Self {
        let a = Side::start(&world, &world.ana, &world.bob, a, more).await;
        let b = Side::start(&world, &world.bob, &world.ana, b, more).await;
        let pair = Self { world, a, b };
        pair.until("both nodes are announced", async || {
            pair.a.node.link.is_connected() && pair.b.node.link.is_connected()
        })
        .await;
        pair
    }

    /// Waits until it is so, while time passes whenever no call is under way.
    pub async fn until(&self, what: &str, is_so: impl AsyncFn() -> bool) {
        let waited = tokio::time::timeout(HANG, async {
            while !is_so().await {
                self.settle().await;
                if !self.a.proxy.is_busy() && !self.b.proxy.is_busy() {
                    self.world.clock.advance(STEP);
                }
            }
        });
        assert!(waited.await.is_ok(), "never: {what}");
    }

    /// Lets each store do what it was asked for before this, and whoever waited for it go on: on a machine that is busy
    /// with something else, time must not run away from what is under way.
    async fn settle(&self) {
        for side in [&self.a, &self.b] {
            side.node.local.db().call("test", |_| Ok(())).await.unwrap();
        }
        // Changes nothing, and waits its turn behind what changes something: a look would wait for no commit. A relay
        // that has been replaced has no store any more.
        let _ = self.world.service.remove_node("n999999".parse().unwrap()).await;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }

    pub fn now(&self) -> Timestamp {
        Clock::now(&self.world.clock)
    }

    /// Waits until nothing waits at the relay and in no outbox: whatever would come twice has come.
    pub async fn quiet(&self) {
        self.until("nothing is left to do", async || {
            for side in [&self.a, &self.b] {
                if side.node.control.decisions.store.depths().await.unwrap().outbox > 0 {
                    return false;
                }
                let client =
                    side.member.relay(&self.world.url(), std::sync::Arc::new(self.world.clock.clone()));
                let path = format!("/inbox/{}?peek=1", side.member.address());
                let waiting = client.get(&path).await.unwrap();
                if waiting["items"].as_array().is_none_or(|items| !items.is_empty()) {
                    return false;
                }
            }
            true
        })
        .await;
    }
}

impl Side {
    async fn start(
        world: &World,
        member: &Member,
        other: &Member,
        generation: Generation,
        more: &str,
    ) -> Self {
        let proxy = Proxy::start(world.relay.address()).await;
        let folder = world.folder.path().join(member.org);
        std::fs::create_dir_all(&folder).unwrap();
        let yaml = format!(
            "scope: {}/{}/{}\nrelay: {}\nagents: {{{}: {{hold: true, allow: [org:{}]{more}}}}}",
            member.org,
            member.team,
            member.user,
            base(proxy.address),
            member.agent,
            other.org
        );
        let keys = NodeKeys::generate(&SystemRandom);
        let token = member.token.expose().to_owned();
        let node = Node::start(&yaml, &folder, &token, &keys, world.clock.clone());
        let side = Self {
            member: member.clone(),
            other: other.clone(),
            proxy,
            node,
            keys,
            generation,
            folder,
            yaml,
            token,
        };
        side.takes().await;
        side
    }

    /// Stops the node and starts it again on the same files.
    pub async fn restarted(self, world: &World) -> Self {
        self.restarted_with(world, None).await
    }

    /// The same, with another token.
    pub async fn restarted_with(self, world: &World, token: Option<&str>) -> Self {
        let Self { member, other, proxy, node, keys, generation, folder, yaml, token: before } = self;
        node.stopped().await;
        let token = token.map_or(before, ToOwned::to_owned);
        let node = Node::start(&yaml, &folder, &token, &keys, world.clock.clone());
        Self { member, other, proxy, node, keys, generation, folder, yaml, token }
    }

    /// The agent takes its mail in its generation.
    async fn takes(&self) {
        match self.generation {
            Generation::V1 => self.node.carrier.takes(Taker::V1(&self.agent())).await,
            Generation::V2 => self.node.carrier.takes(Taker::V2(&self.name())).await,
        }
    }

    pub fn agent(&self) -> AgentName {
        AgentName::parse(self.member.agent).unwrap()
    }

    pub fn name(&self) -> Name {
        Name::of(self.member.agent)
    }

    /// A request to the other side's agent, in the first generation.
    pub fn v1(&self, id: &str, now: Timestamp) -> local::NewMessage {
        let to = Party::new(self.other.address());
        let mut message = local::NewMessage::new(DshId::new(id), self.agent(), to, now);
        message.kind = V1Kind::Request;
        message
    }

    /// The same in the second.
    pub fn v2(&self, id: &str, now: Timestamp) -> v2::NewMessage {
        v2::NewMessage {
            id: DshId::new(id),
            root_id: id.into(),
            parent_id: None,
            origin: self.name(),
            target: Name::of(&self.other.address()),
            kind: V2Kind::Request,
            body: String::new(),
            session_ref: String::new(),
            mode: Mode::Read,
            context: String::new(),
            topic: String::new(),
            allow_shared_write: false,
            idempotency_key: id.into(),
            created_at: now,
            expires_at: now.plus(Duration::from_secs(86_400)),
        }
    }

    /// Sends a text in this side's generation: a request in the conversation of `root`, or the answer to `parent`.
    pub async fn says(&self, id: &str, text: &str, root: Option<&str>, parent: Option<&str>, now: Timestamp) {
        let quoted = |id: &str| JsonText::from(&json!(id));
        match self.generation {
            Generation::V1 => {
                let mut message = self.v1(id, now);
                message.body = JsonText::from(&json!({ "text": text }));
                message.root_id = root.map(quoted);
                message.parent_id = parent.map(quoted);
                if parent.is_some() {
                    message.kind = V1Kind::Reply;
                }
                assert!(!self.node.carrier.send(message).await.unwrap().duplicate);
            }
            Generation::V2 => {
                let mut message = self.v2(id, now);
                text.clone_into(&mut message.body);
                message.root_id = root.unwrap_or(id).to_owned();
                message.parent_id = parent.map(ToOwned::to_owned);
                if parent.is_some() {
                    message.kind = V2Kind::Reply;
                }
                assert!(!self.node.carrier.send_v2(message, None).await.unwrap().duplicate);
            }
        }
    }

    /// Takes a request back in this side's generation.
    pub async fn withdraws(&self, id: &str) -> Result<(), ApiError> {
        match self.generation {
            Generation::V1 => {
                self.node.carrier.parcels().unwrap().withdraw(self.agent(), DshId::new(id)).await
            }
            Generation::V2 => self.node.carrier.withdraw_v2(self.name(), DshId::new(id)).await,
        }
    }

    /// What has come for the agent in either generation.
    pub async fn mail(&self) -> Vec<Mail> {
        let text = |field: &Option<JsonText>| field.as_ref().and_then(JsonText::as_text);
        let mut first = self.node.local.recent(self.agent(), 200).await.unwrap();
        first.reverse();
        let first = first.into_iter().map(|stored| {
            let body = stored.message.body.to_value().unwrap();
            let said = body["text"].as_str().map_or_else(|| body.to_string(), ToOwned::to_owned);
            (stored.message.id.to_string(), said, text(&stored.message.parent_id))
        });
        let second = self.inbox_v2().await.into_iter().map(|message| {
            let v2::NewMessage { id, body, parent_id, .. } = message;
            (id.to_string(), body, parent_id)
        });
        first.chain(second).collect()
    }

    /// How much has come for the agent.
    pub async fn came(&self) -> usize {
        let agent = self.member.agent;
        let counted = self.node.local.db().call("test", move |conn| {
            let sql = "SELECT (SELECT count(*) FROM messages WHERE inbox = ?1)
                       + (SELECT count(*) FROM v2_messages WHERE inbox = ?1)";
            Ok(conn.query_row(sql, [agent], |row| row.get::<_, i64>(0))?)
        });
        usize::try_from(counted.await.unwrap()).unwrap()
    }

    pub async fn inbox_v1(&self) -> Vec<local::NewMessage> {
        let mut inbox = self.node.local.recent(self.agent(), 200).await.unwrap();
        inbox.reverse();
        inbox.into_iter().map(|stored| stored.message).collect()
    }

    pub async fn inbox_v2(&self) -> Vec<v2::NewMessage> {
        let all = v2::Query::all(self.name(), Timestamp::from_millis(0), 200);
        let mut found = self.node.v2.query(all).await.unwrap();
        found.retain(|stored| stored.inbox.as_ref() == Some(&self.name()));
        found.sort_by_key(|stored| stored.seq);
        found.into_iter().map(|stored| stored.message).collect()
    }

    pub async fn ids(&self) -> Vec<String> {
        self.mail().await.into_iter().map(|(id, ..)| id).collect()
    }

    /// The state that its sender sees, in the words of its generation.
    pub async fn status(&self, id: &str) -> String {
        match self.generation {
            Generation::V1 => {
                let lines = self.node.local.status(self.agent(), vec![id.to_owned()]).await.unwrap();
                lines[0].1.as_ref().unwrap().status.as_str().to_owned()
            }
            Generation::V2 => {
                let stored = self.node.v2.lookup(DshId::new(id)).await.unwrap().unwrap();
                stored.delivery.status().as_str().to_owned()
            }
        }
    }

    /// The word of its generation for a request that was answered.
    pub const fn done(&self) -> &'static str {
        match self.generation {
            Generation::V1 => "done",
            Generation::V2 => "completed",
        }
    }

    /// What the relay shows of a thread.
    pub async fn thread(&self, world: &World, id: &str) -> Vec<Value> {
        let client = self.member.relay(&world.url(), std::sync::Arc::new(world.clock.clone()));
        client.get(&format!("/threads/{id}")).await.unwrap()["items"].as_array().unwrap().clone()
    }
}
