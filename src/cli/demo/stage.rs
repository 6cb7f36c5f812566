//! The set of the demo: a relay with two linked organisations, and a bridge in each, all real and on loopback.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;

use super::story::Story;
use crate::bridge::events::Event;
use crate::config::Config;
use crate::crypto::secret::Secret;
use crate::domain::clock::{SharedClock, SystemClock};
use crate::domain::random::{SharedRandom, SystemRandom};
use crate::dsh_client::DshClient;
use crate::proto::dsh::names::AgentName;
use crate::proto::redsyn::ids::{PREFIX, VERSION};
use crate::redsyn_client::RelayClient;
use crate::runtime::error::RunError;
use crate::runtime::node::{Node, Overrides};
use crate::runtime::relay_host::RelayHost;

/// One side of the demo: a person of an organisation, their bridge, and their agent.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) org: &'static str,
    pub(super) agent: &'static str,
    pub(super) address: String,
    /// The agent, speaking v1.1 to its bridge.
    pub(super) client: DshClient,
    /// The person's own view of the relay.
    pub(super) relay: RelayClient,
    pub(super) events: tokio::sync::broadcast::Receiver<Event>,
    node: Node,
}

#[derive(Debug)]
pub(super) struct Stage {
    pub(super) close: tokio::sync::Mutex<Side>,
    pub(super) billing: tokio::sync::Mutex<Side>,
    relay: RelayHost,
    _folder: TempDir,
}

/// Who stands where: organisation, team, user, agent.
const CLOSE: [&str; 4] = ["acme", "finance", "ana", "close"];
const BILLING: [&str; 4] = ["globex", "erp", "bob", "billing"];

impl Stage {
    pub(super) async fn set(story: &Story) -> Result<Self, RunError> {
        let folder = tempfile::tempdir()
            .map_err(|error| RunError::other(format!("cannot make a temporary folder: {error}")))?;
        let clock = SystemClock::shared();
        let random = SystemRandom::shared();
        let relay = RelayHost::start(
            &folder.path().join("relay"),
            "127.0.0.1:0",
            "the demo's own port",
            Arc::clone(&clock),
            Arc::clone(&random),
        )
        .await?;
        let url = format!("http://{}{PREFIX}", relay.address());
        story.hop("relay", &format!("listens on {url}"));
        let acme = person(&relay, &url, CLOSE, &clock).await?;
        let globex = person(&relay, &url, BILLING, &clock).await?;
        link(&acme.client, CLOSE, BILLING).await?;
        link(&globex.client, BILLING, CLOSE).await?;
        story.hop("relay", "acme and globex are linked; each exposes one agent to the other");
        let close = side(folder.path(), CLOSE, acme, &url, &clock, &random).await?;
        let billing = side(folder.path(), BILLING, globex, &url, &clock, &random).await?;
        for side in [&close, &billing] {
            let text = format!("bridge of {} on http://{}", side.address, side.node.broker());
            story.hop(side.org, &text);
        }
        Ok(Self {
            close: tokio::sync::Mutex::new(close),
            billing: tokio::sync::Mutex::new(billing),
            relay,
            _folder: folder,
        })
    }

    /// Stops everything, the relay last.
    pub(super) async fn strike(self) -> Result<(), RunError> {
        let close = self.close.into_inner().node.stop().await;
        let billing = self.billing.into_inner().node.stop().await;
        let relay = self.relay.stop().await;
        close.and(billing).and(relay)
    }
}

struct Person {
    token: Secret,
    client: RelayClient,
}

async fn person(
    relay: &RelayHost,
    url: &str,
    [org, team, user, _]: [&str; 4],
    clock: &SharedClock,
) -> Result<Person, RunError> {
    let token = relay.add_person(&format!("{user}@{org}.example"), "enterprise", "laptop").await?;
    let base = url::Url::parse(url).map_err(|error| RunError::other(error.to_string()))?;
    let client = RelayClient::new(&base, token.clone(), VERSION, Arc::clone(clock)).map_err(step)?;
    client.post("/orgs", &json!({"handle": org, "me": user})).await.map_err(step)?;
    client.post(&format!("/orgs/{org}/teams"), &json!({"handle": team})).await.map_err(step)?;
    Ok(Person { token, client })
}

/// Proposes the link, or accepts what the other side proposed, and exposes our agent through it.
async fn link(client: &RelayClient, ours: [&str; 4], theirs: [&str; 4]) -> Result<(), RunError> {
    let ([org, team, user, agent], [other, ..]) = (ours, theirs);
    client.post(&format!("/orgs/{org}/links"), &json!({"other": other})).await.map_err(step)?;
    let exposure = json!({"kind": "agent", "pattern": format!("{team}/{user}/{agent}"), "on": true});
    client.put(&format!("/orgs/{org}/links/{other}/expose"), &exposure).await.map_err(step)?;
    Ok(())
}

async fn side(
    folder: &Path,
    [org, team, user, agent]: [&'static str; 4],
    person: Person,
    url: &str,
    clock: &SharedClock,
    random: &SharedRandom,
) -> Result<Side, RunError> {
    let folder = folder.join(org);
    std::fs::create_dir_all(&folder).map_err(|error| RunError::other(error.to_string()))?;
    let secret = Secret::new((**random).hex::<32>());
    let other = if org == "acme" { "globex" } else { "acme" };
    let config = format!(
        "broker:\n  secret: \"{}\"\n  dataDir: ./data\nredsyn:\n  relay: {url}\n  token: \"{}\"\n  \
         scope: {org}/{team}/{user}\n  agents:\n    {agent}:\n      allow: [\"org:{other}\"]\n",
        secret.expose(),
        person.token.expose(),
    );
    let config = Config::parse(&config, &folder.join("config.yaml"))?;
    let overrides = Overrides { broker: Some("127.0.0.1:0".to_owned()), ..Overrides::default() };
    let node = Node::start(&config, &overrides, Arc::clone(clock), Arc::clone(random)).await?;
    let events = node.watch().ok_or_else(|| RunError::other("the bridge did not start"))?;
    let name = AgentName::parse(agent).ok_or_else(|| RunError::other("the agent's name is none"))?;
    let base = format!("http://{}", node.broker());
    let client = DshClient::new(&base, name, secret, Arc::clone(clock)).map_err(step)?;
    let address = format!("{org}/{team}/{user}/{agent}");
    Ok(Side { org, agent, address, client, relay: person.client, events, node })
}

pub(super) fn step(error: impl std::fmt::Display) -> RunError {
    RunError::other(format!("the demo stopped: {error}"))
}
