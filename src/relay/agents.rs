//! Agents: announcing one, looking at one, the directory.

use serde_json::{Map, Value};

use super::RelayError;
use super::orgs::new_name;
use super::service::Service;
use super::views::AgentJson;
use crate::proto::redsyn::address::AgentAddress;
use crate::proto::redsyn::policy::Policy;
use crate::store::relay::{Announcement, Caller, DirectoryQuery};

/// The longest description of an agent: a few pages, shown in every directory.
const DESCRIPTION_MAX: usize = 10_000;
const ADAPTER_MAX: usize = 200;

impl Service {
    /// `PUT /agents/{…}`. The flag says whether this made the agent.
    ///
    /// # Errors
    /// When the address is not the caller's, the policy is wrong, or the plan allows no more agents.
    pub async fn announce(
        &self,
        caller: &Caller,
        agent: AgentAddress,
        body: &Map<String, Value>,
    ) -> Result<(AgentJson, bool), RelayError> {
        new_name(agent.agent.as_str(), "agent")?;
        let announcement = Announcement {
            description: text(body, "description", DESCRIPTION_MAX)?,
            adapter: text(body, "adapter", ADAPTER_MAX)?,
            listening: listening(body)?,
            agent,
        };
        let address = announcement.agent.clone();
        let announced = self.store.announce(caller.clone(), announcement, self.now()).await?;
        if announced.created {
            tracing::info!(agent = %address, node = %caller.node, "relay_agent_created");
        }
        Ok((AgentJson::new(announced.view, self.now(), true), announced.created))
    }

    /// `GET /agents/{…}`.
    ///
    /// # Errors
    /// When the caller may not see it.
    pub async fn agent(&self, caller: &Caller, agent: AgentAddress) -> Result<AgentJson, RelayError> {
        let view = self.store.agent(caller.person, agent).await?;
        Ok(AgentJson::new(view, self.now(), true))
    }

    /// `GET /directory`.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn directory(
        &self,
        caller: &Caller,
        online: bool,
        sessions: bool,
    ) -> Result<Vec<AgentJson>, RelayError> {
        let now = self.now();
        let query = DirectoryQuery { online_since: None, sessions };
        let query = if online { query.online_at(now) } else { query };
        let agents = self.store.directory(caller.person, query).await?;
        Ok(agents.into_iter().map(|view| AgentJson::new(view, now, sessions)).collect())
    }
}

/// `listening`, with the policy that comes only with `true`.
fn listening(body: &Map<String, Value>) -> Result<Option<Option<Policy>>, RelayError> {
    match body.get("listening") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(false)) => Ok(Some(None)),
        Some(Value::Bool(true)) => {
            let policy = Policy::parse(body).map_err(|error| RelayError::invalid(error.to_string()))?;
            Ok(Some(Some(policy)))
        }
        Some(_) => Err(RelayError::invalid("listening must be true or false")),
    }
}

fn text(body: &Map<String, Value>, field: &str, most: usize) -> Result<Option<String>, RelayError> {
    match body.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.chars().count() <= most => Ok(Some(text.clone())),
        Some(Value::String(_)) => Err(RelayError::invalid(format!("{field} has at most {most} characters"))),
        Some(_) => Err(RelayError::invalid(format!("{field} must be a text"))),
    }
}
