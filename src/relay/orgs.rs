//! Organisations, teams and their members.

use serde_json::{Value, json};

use super::service::Service;
use super::{RelayError, versions};
use crate::proto::redsyn::address::Name;
use crate::proto::redsyn::email::Email;
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

pub(super) fn email(text: &str) -> Result<Email, RelayError> {
    text.parse().map_err(|error| RelayError::invalid(format!("email {error}")))
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

    /// `POST /orgs/{org}/invites`. No mail is sent: the person sees it in `GET /me`, the operator with
    /// `relay invites`.
    ///
    /// # Errors
    /// When the caller is no admin, there is no such team, or the person is a member already.
    pub async fn invite(
        &self,
        caller: &Caller,
        org: &Name,
        email: &str,
        team: &str,
    ) -> Result<(Email, Name), RelayError> {
        let email = self::email(email)?;
        let team: Name = team.parse().map_err(|error| RelayError::invalid(format!("team: {error}")))?;
        let now = self.now();
        self.store.invite(caller.person, org.clone(), email.clone(), team.clone(), now).await?;
        tracing::info!(%org, by = %caller.person, "relay_invited");
        Ok((email, team))
    }

    /// `POST /orgs/{org}/join`. Gives the handle and the team.
    ///
    /// # Errors
    /// Without an invitation, or when the handle is wrong or taken.
    pub async fn join(&self, caller: &Caller, org: &Name, me: &str) -> Result<(Name, Name), RelayError> {
        let me = new_name(me, "me")?;
        let team = self.store.join(caller.person, org.clone(), me.clone(), self.now()).await?;
        tracing::info!(%org, person = %caller.person, "relay_joined");
        Ok((me, team))
    }

    /// `GET /orgs/{org}/usage`. A limit that is null is none.
    ///
    /// # Errors
    /// When the caller is no member.
    pub async fn usage(&self, caller: &Caller, org: &Name) -> Result<Value, RelayError> {
        let usage = self.store.usage(caller.person, org.clone(), self.now()).await?;
        let limits = usage.limits;
        Ok(json!({
            "org": org,
            "plan": usage.plan,
            "used": {
                "messages": usage.messages,
                "files": usage.files_bytes,
                "agents": usage.agents,
                "links": usage.links,
                "webhooks": usage.webhooks,
            },
            "limits": {
                "messages": limits.messages_per_day,
                "files": limits.files_bytes,
                "agents": limits.agents,
                "links": limits.links,
                "webhooks": limits.webhooks,
                "ttl": limits.ttl_secs,
            },
        }))
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
