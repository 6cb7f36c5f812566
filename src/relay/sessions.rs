//! Sessions: looking at one, naming it, closing it. The relay opens them itself.

use super::RelayError;
use super::service::Service;
use super::views::SessionJson;
use crate::proto::redsyn::address::AgentAddress;
use crate::store::relay::Caller;

/// The longest title: a line, listed with every look at the agent.
const TITLE_MAX: usize = 200;

impl Service {
    /// `GET /agents/{…}/sessions/{sid}`.
    ///
    /// # Errors
    /// When the caller may not know of it.
    pub async fn session(
        &self,
        caller: &Caller,
        agent: AgentAddress,
        session: String,
    ) -> Result<SessionJson, RelayError> {
        let page = self.store.session(caller.person, agent.clone(), session).await?;
        Ok(SessionJson::new(agent, page))
    }

    /// `PUT /agents/{…}/sessions/{sid}`.
    ///
    /// # Errors
    /// When the caller is not the owner, or the title is too long.
    pub async fn set_session_title(
        &self,
        caller: &Caller,
        agent: AgentAddress,
        session: String,
        title: &str,
    ) -> Result<SessionJson, RelayError> {
        if title.chars().count() > TITLE_MAX {
            return Err(RelayError::invalid(format!("title has at most {TITLE_MAX} characters")));
        }
        let page =
            self.store.set_session_title(caller.person, agent.clone(), session, title.to_owned()).await?;
        Ok(SessionJson::new(agent, page))
    }

    /// `POST /agents/{…}/sessions/{sid}/close`. What already waits in it is still delivered.
    ///
    /// # Errors
    /// When the caller is not the owner.
    pub async fn close_session(
        &self,
        caller: &Caller,
        agent: AgentAddress,
        session: String,
    ) -> Result<SessionJson, RelayError> {
        let page = self.store.close_session(caller.person, agent.clone(), session).await?;
        tracing::info!(%agent, session = page.id, "relay_session_closed");
        Ok(SessionJson::new(agent, page))
    }
}
