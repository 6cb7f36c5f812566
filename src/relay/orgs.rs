//! Organisations, teams and their members.

use super::service::Service;
use super::{RelayError, versions};
use crate::proto::redsyn::address::Name;
use crate::store::relay::Caller;

/// The longest name anybody may choose: an address of four still fits any path and log line.
const NAME_MAX: usize = 64;

/// Reads a name that somebody chooses.
pub(super) fn new_name(text: &str, field: &str) -> Result<Name, RelayError> {
    let name: Name = text.parse().map_err(|error| RelayError::invalid(format!("{field}: {error}")))?;
    if name.as_str().len() > NAME_MAX {
        return Err(RelayError::invalid(format!("{field}: a name has at most {NAME_MAX} characters")));
    }
    Ok(name)
}

impl Service {
    /// `POST /orgs`: its creator becomes admin, in the team `general`.
    ///
    /// # Errors
    /// When a name is wrong or taken.
    pub async fn create_org(
        &self,
        caller: &Caller,
        handle: &str,
        me: &str,
    ) -> Result<(Name, Name), RelayError> {
        let (org, me) = (new_name(handle, "handle")?, new_name(me, "me")?);
        let version = versions::NEWEST.to_owned();
        self.store.create_org(caller.person, org.clone(), me.clone(), version, self.now()).await?;
        tracing::info!(%org, person = %caller.person, "relay_org_created");
        Ok((org, me))
    }

    /// `POST /orgs/{org}/teams`.
    ///
    /// # Errors
    /// When the caller is no admin, or the name is wrong or taken.
    pub async fn create_team(&self, caller: &Caller, org: &Name, handle: &str) -> Result<Name, RelayError> {
        let team = new_name(handle, "handle")?;
        self.store.create_team(caller.person, org.clone(), team.clone(), self.now()).await?;
        Ok(team)
    }

    /// `POST /orgs/{org}/teams/{team}/members`.
    ///
    /// # Errors
    /// When the caller is no admin, or there is no such team or member.
    pub async fn add_team_member(
        &self,
        caller: &Caller,
        org: &Name,
        team: &Name,
        who: &str,
    ) -> Result<Name, RelayError> {
        let who: Name = who.parse().map_err(|error| RelayError::invalid(format!("who: {error}")))?;
        let now = self.now();
        self.store.add_team_member(caller.person, org.clone(), team.clone(), who.clone(), now).await?;
        Ok(who)
    }
}
