//! Who calls, and what they are told about themselves.

use serde_json::{Value, json};

use super::service::Service;
use super::{RelayError, versions};
use crate::store::relay::{Caller, TokenHash};

impl Service {
    /// The caller whose node has this token.
    ///
    /// # Errors
    /// When nobody has it.
    pub async fn authenticate(&self, token: &str) -> Result<Caller, RelayError> {
        self.store.caller(TokenHash::of(token)).await?.ok_or(RelayError::UnknownToken)
    }

    /// `GET /me`.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn me(&self, caller: &Caller) -> Result<Value, RelayError> {
        let orgs = self.store.orgs_of(caller.person).await?;
        let orgs: Vec<Value> = orgs
            .iter()
            .map(|org| json!({"handle": org.org, "me": org.me, "admin": org.admin, "teams": org.teams, "version": org.version}))
            .collect();
        let invites = self.store.invites_of(caller.person).await?;
        let invites: Vec<Value> =
            invites.iter().map(|invite| json!({"org": invite.org, "team": invite.team})).collect();
        Ok(json!({
            "person": caller.person.to_string(),
            "email": caller.email,
            "node": caller.node_name,
            "orgs": orgs,
            "invites": invites,
            "versions": versions::KNOWN,
        }))
    }
}
