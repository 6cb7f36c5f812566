//! A small world: a relay in this process with a clock that tests move, two linked organisations, and what their
//! bridges need to join.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use redsyn_bridge::crypto::secret::Secret;
use redsyn_bridge::domain::clock::{Clock, ManualClock, SharedClock, SystemClock};
use redsyn_bridge::domain::random::SystemRandom;
use redsyn_bridge::proto::redsyn::ids::VERSION;
use redsyn_bridge::redsyn_client::RelayClient;
use redsyn_bridge::relay::{Service, Settings};
use redsyn_bridge::runtime::relay_host::{RelayHost, RelayStore};
use serde_json::json;
use tempfile::TempDir;

/// One organisation's person and agent.
#[derive(Clone, Debug)]
pub struct Member {
    pub org: &'static str,
    pub team: &'static str,
    pub user: &'static str,
    pub agent: &'static str,
    pub token: Secret,
}

impl Member {
    pub fn address(&self) -> String {
        format!("{}/{}/{}/{}", self.org, self.team, self.user, self.agent)
    }

    /// The person's own client of a relay.
    pub fn relay(&self, base: &str, clock: SharedClock) -> RelayClient {
        RelayClient::new(&base.parse().unwrap(), self.token.clone(), VERSION, clock).unwrap()
    }
}

#[derive(Debug)]
pub struct World {
    pub clock: ManualClock,
    pub relay: RelayHost,
    /// What the relay's operator can do.
    pub service: Arc<Service>,
    pub ana: Member,
    pub bob: Member,
    pub folder: TempDir,
}

impl World {
    pub async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(SystemClock.now());
        let data = folder.path().join("relay");
        let store =
            RelayStore::open(&data, Settings::default(), Arc::new(clock.clone()), SystemRandom::shared());
        let store = store.await.unwrap();
        let service = Arc::clone(&store.service);
        let relay = store.listen("127.0.0.1:0", "the test's port").await.unwrap();
        let ana = relay.add_person("ana@acme.example", "enterprise", "laptop").await.unwrap();
        let bob = relay.add_person("bob@globex.example", "enterprise", "laptop").await.unwrap();
        let ana = Member { org: "acme", team: "finance", user: "ana", agent: "close", token: ana };
        let bob = Member { org: "globex", team: "erp", user: "bob", agent: "billing", token: bob };
        let url = base(relay.address());
        found(&ana, &url).await;
        found(&bob, &url).await;
        link(&ana, &bob, &url).await;
        link(&bob, &ana, &url).await;
        Self { clock, relay, service, ana, bob, folder }
    }

    /// Gives the member another node, and takes away the one they have.
    pub async fn replace_token(&self, email: &str) -> Secret {
        let mut people = self.service.list().await.unwrap();
        people.retain(|one| one.person.email == email);
        let person = people.remove(0);
        let token = self.service.create_node(person.person.id, "desk").await.unwrap();
        self.service.remove_node(person.nodes[0].id).await.unwrap();
        token
    }

    pub fn url(&self) -> String {
        base(self.relay.address())
    }
}

pub fn base(relay: SocketAddr) -> String {
    format!("http://{relay}/redsyn/v1")
}

/// Makes the member's organisation and team.
pub async fn found(member: &Member, url: &str) {
    let client = member.relay(url, SystemClock::shared());
    client.post("/orgs", &json!({"handle": member.org, "me": member.user})).await.unwrap();
    client.post(&format!("/orgs/{}/teams", member.org), &json!({"handle": member.team})).await.unwrap();
}

/// Proposes the link or accepts it, and exposes the member's agent.
pub async fn link(ours: &Member, theirs: &Member, url: &str) {
    let client = ours.relay(url, SystemClock::shared());
    client.post(&format!("/orgs/{}/links", ours.org), &json!({"other": theirs.org})).await.unwrap();
    let pattern = format!("{}/{}/{}", ours.team, ours.user, ours.agent);
    let exposure = json!({"kind": "agent", "pattern": pattern, "on": true});
    client.put(&format!("/orgs/{}/links/{}/expose", ours.org, theirs.org), &exposure).await.unwrap();
}

pub fn write(folder: &Path, name: &str, text: &str) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join(name), text).unwrap();
}
