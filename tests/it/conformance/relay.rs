//! The relay that is judged, and the people of a case.

use std::sync::Arc;

use redsyn_bridge::crypto::enc_key::{EncPrivateKey, sign_enc_key};
use redsyn_bridge::crypto::sign::SigningKey;
use redsyn_bridge::domain::clock::{Clock, SystemClock};
use redsyn_bridge::domain::random::SystemRandom;
use redsyn_bridge::relay::Settings;
use redsyn_bridge::runtime::relay_host::RelayStore;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

use crate::support::process::Process;
use crate::support::redsyn::{Node, Reply, answer, request, signed_at};
use crate::support::world::write;

const URL: &str = "REDSYN_CONFORMANCE_URL";

/// Cases on a relay that is not ours come one after the other: its links and keys are there once.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// A person with one node, and their place: `org/team/user`.
#[derive(Clone, Debug)]
pub struct Member {
    pub node: Node,
    pub scope: String,
}

impl Member {
    fn part(&self, at: usize) -> &str {
        self.scope.split('/').nth(at).unwrap()
    }

    pub fn org(&self) -> &str {
        self.part(0)
    }

    pub fn team(&self) -> &str {
        self.part(1)
    }

    pub fn user(&self) -> &str {
        self.part(2)
    }
}

impl std::ops::Deref for Member {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}

/// What holds our own relay, for as long as a case runs.
#[derive(Debug)]
struct Own {
    _process: Process,
    _folder: tempfile::TempDir,
}

/// One case's view of a relay.
#[derive(Debug)]
pub struct Relay {
    /// An admin of the first organisation.
    pub ana: Member,
    /// The same person on another machine.
    pub ana_server: Member,
    /// A colleague in the same team, no admin.
    pub beto: Member,
    /// A colleague in another team, if there is one.
    pub caro: Option<Member>,
    /// An admin of the other organisation.
    pub dora: Member,
    /// Somebody without an organisation, on the free plan, if there is one.
    pub free: Option<Member>,
    pub hooks: bool,
    tag: String,
    _own: Option<Own>,
    _turn: Option<MutexGuard<'static, ()>>,
}

impl Relay {
    pub async fn start() -> Self {
        let tag = SystemRandom::shared().hex::<5>();
        match std::env::var(URL) {
            Ok(url) => Self::elsewhere(&url, tag).await,
            Err(_) => Self::our_own(tag).await,
        }
    }

    /// Whether somebody else's relay is judged.
    pub fn is_foreign() -> bool {
        std::env::var_os(URL).is_some()
    }

    async fn elsewhere(url: &str, tag: String) -> Self {
        let turn = ONE_AT_A_TIME.lock().await;
        let member = |name: &str| {
            let text = std::env::var(format!("REDSYN_CONFORMANCE_{name}")).ok()?;
            let (scope, token) = text.split_once('=').expect("org/team/user=token");
            Some(Member { node: Node::new(url, token), scope: scope.to_owned() })
        };
        let needed =
            |name: &str| member(name).unwrap_or_else(|| panic!("REDSYN_CONFORMANCE_{name} is not set"));
        Self {
            ana: needed("ANA"),
            ana_server: needed("ANA_SERVER"),
            beto: needed("BETO"),
            caro: member("CARO"),
            dora: needed("DORA"),
            free: member("FREE"),
            hooks: std::env::var_os("REDSYN_CONFORMANCE_HOOKS").is_some(),
            tag,
            _own: None,
            _turn: Some(turn),
        }
    }

    async fn our_own(tag: String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tokens = people(&folder.path().join("data")).await;
        write(
            folder.path(),
            "relay.yaml",
            "listen: 127.0.0.1:0\ndataDir: data\nwebhooks: { allow_insecure_targets: true }\n",
        );
        let mut process = Process::start(folder.path(), &["relay", "--config", "relay.yaml", "serve"]);
        let lines = process.wait_for("listening on http://127.0.0.1:");
        let url = format!("{}/redsyn/v1", lines.last().unwrap().rsplit(' ').next().unwrap());
        let member =
            |scope: &str, at: usize| Member { node: Node::new(&url, &tokens[at]), scope: scope.to_owned() };
        let relay = Self {
            ana: member("acme/finance/ana", 0),
            ana_server: member("acme/finance/ana", 1),
            beto: member("acme/finance/beto", 2),
            caro: Some(member("acme/ops/caro", 3)),
            dora: member("globex/erp/dora", 4),
            free: Some(member("none/none/fede", 5)),
            hooks: true,
            tag,
            _own: Some(Own { _process: process, _folder: folder }),
            _turn: None,
        };
        relay.found().await;
        relay
    }

    /// The organisations and teams of our own relay, founded as anybody would.
    async fn found(&self) {
        for (member, others) in [(&self.ana, &["finance", "ops"][..]), (&self.dora, &["erp"])] {
            member.post("/orgs", json!({"handle": member.org(), "me": member.user()})).await.is(201);
            for team in others {
                member.post(&format!("/orgs/{}/teams", member.org()), json!({"handle": team})).await.is(201);
            }
        }
        for member in [Some(&self.beto), self.caro.as_ref()].into_iter().flatten() {
            let email = format!("{}@acme.example", member.user());
            let invite = json!({"email": email, "team": member.team()});
            self.ana.post("/orgs/acme/invites", invite).await.is(201);
            member.post("/orgs/acme/join", json!({"me": member.user()})).await.is(200);
        }
    }

    /// A name that only this case uses.
    pub fn name(&self, name: &str) -> String {
        format!("{name}-{}", self.tag)
    }

    pub fn agent(&self, member: &Member, name: &str) -> String {
        format!("{}/{}", member.scope, self.name(name))
    }

    pub fn topic(&self, name: &str) -> String {
        format!("topic:{}/{}/{}", self.ana.org(), self.ana.team(), self.name(name))
    }

    /// Announces an agent as listening.
    pub async fn listening(&self, member: &Member, name: &str, policy: Value) -> String {
        let agent = self.agent(member, name);
        done(member.announce(&agent, policy).await);
        agent
    }

    /// ana's agent, which is asked, and beto's, which asks.
    pub async fn pair(&self) -> (String, String) {
        let asked = self.listening(&self.ana, "close", json!({})).await;
        let asker = self.listening(&self.beto, "cli", json!({})).await;
        (asked, asker)
    }

    pub fn request(&self, id: &str, from: &str, to: &str) -> Value {
        request(&self.name(id), from, to)
    }

    pub fn answer(&self, kind: &str, id: &str, from: &str, reply_to: &str) -> Value {
        answer(kind, &self.name(id), from, &self.name(reply_to))
    }

    /// beto asks ana's agent.
    pub async fn asks(&self, id: &str) -> (String, String) {
        let (asked, asker) = self.pair().await;
        self.beto.send(&self.request(id, &asker, &asked)).await.is(201);
        (asked, asker)
    }

    /// Registers `key` for the node, whatever it had before, with a P-256 key of its own.
    pub async fn register(&self, node: &Node, key: &SigningKey) -> Value {
        let mut keys = keys_of(key);
        keys["rotate"] = true.into();
        done(node.put("/nodes/key", keys).await)
    }

    /// Links both organisations anew: nothing exposed, the rules as they are by default.
    pub async fn linked(&self) {
        self.unlinked().await;
        for (member, other) in [(&self.ana, &self.dora), (&self.dora, &self.ana)] {
            done(member.post(&format!("/orgs/{}/links", member.org()), json!({"other": other.org()})).await);
        }
    }

    pub async fn unlinked(&self) {
        // No link to end is as good.
        self.ana.post(&self.link_of(&self.ana, "revoke"), json!({})).await;
    }

    /// The path of the link as one side sees it.
    pub fn link_of(&self, member: &Member, what: &str) -> String {
        let other = if member.org() == self.ana.org() { &self.dora } else { &self.ana };
        format!("/orgs/{}/links/{}/{what}", member.org(), other.org())
    }

    pub async fn expose(&self, member: &Member, kind: &str, pattern: &str, on: bool) {
        let exposure = json!({"kind": kind, "pattern": pattern, "on": on});
        done(member.put(&self.link_of(member, "expose"), exposure).await);
    }

    /// Lets unsigned messages in from the other side.
    pub async fn trusts(&self, member: &Member) {
        done(member.put(&self.link_of(member, "rules"), json!({"signed_only": false})).await);
    }
}

/// Six nodes of five people, written before the relay starts. Gives their tokens.
async fn people(data: &std::path::Path) -> Vec<String> {
    let store =
        RelayStore::open(data, Settings::default(), SystemClock::shared(), SystemRandom::shared()).await;
    let store = store.unwrap();
    let service = Arc::clone(&store.service);
    let mut tokens = Vec::new();
    for (email, plan, nodes) in [
        ("ana@acme.example", "enterprise", &["laptop", "server"][..]),
        ("beto@acme.example", "enterprise", &["laptop"]),
        ("caro@acme.example", "enterprise", &["laptop"]),
        ("dora@globex.example", "enterprise", &["laptop"]),
        ("fede@free.example", "free", &["laptop"]),
    ] {
        let person = service.create_person(email, plan).await.unwrap();
        for node in nodes {
            tokens.push(service.create_node(person, node).await.unwrap().expose().to_owned());
        }
    }
    store.close().await.unwrap();
    tokens
}

/// The body of an answer that says yes.
#[track_caller]
pub fn done(reply: Reply) -> Value {
    assert!((200..300).contains(&reply.status), "{}: {}", reply.status, reply.body);
    let status = reply.status;
    reply.is(status)
}

/// A refusal whose status the document does not give. Its words.
#[track_caller]
pub fn refused(reply: Reply, ours: u16) -> String {
    let status = if Relay::is_foreign() { reply.status } else { ours };
    assert!((400..500).contains(&reply.status), "{}: {}", reply.status, reply.body);
    reply.refused(status)
}

pub fn now() -> i64 {
    SystemClock.now().secs()
}

pub fn signed(key: &SigningKey, envelope: Value) -> Value {
    signed_at(now(), key, envelope)
}

/// A registration of both public keys; the P-256 one comes from the same seed.
pub fn keys_of(key: &SigningKey) -> Value {
    let public_key = key.verifying_key().to_string();
    let seed = redsyn_bridge::crypto::sha256::digest(public_key.as_bytes());
    let enc_key = EncPrivateKey::from_scalar(&seed).unwrap().enc_key().to_string();
    let enc_sig = sign_enc_key(key, &enc_key).to_text();
    json!({"public_key": public_key, "enc_key": enc_key, "enc_sig": enc_sig})
}

/// Says why a case judged nothing.
pub fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}
