//! Links between organisations.

use serde_json::{Map, Value};

use super::RelayError;
use super::service::Service;
use super::views::LinkJson;
use crate::domain::relay::link::{Exposure, LinkRules};
use crate::proto::redsyn::address::Name;
use crate::store::relay::{Caller, LinkRulesChange};

impl Service {
    /// `POST /orgs/{org}/links`: proposes, or accepts what the other side proposed. The flag: newly proposed.
    ///
    /// # Errors
    /// When the caller is no admin, there is no such organisation, or the plan allows no more links.
    pub async fn link(
        &self,
        caller: &Caller,
        org: &Name,
        other: &str,
    ) -> Result<(LinkJson, bool), RelayError> {
        let other: Name = other.parse().map_err(|error| RelayError::invalid(format!("other: {error}")))?;
        if other == *org {
            return Err(RelayError::invalid("a link is with another organization"));
        }
        let (link, proposed) = self.store.link(caller.person, org.clone(), other.clone(), self.now()).await?;
        tracing::info!(%org, %other, state = link.state.as_str(), "relay_link_changed");
        Ok((LinkJson::new(link), proposed))
    }

    /// `PUT …/expose`.
    ///
    /// # Errors
    /// When the caller is no admin, there is no link, or the pattern does not fit the kind.
    pub async fn expose(
        &self,
        caller: &Caller,
        (org, other): (Name, Name),
        body: &Map<String, Value>,
    ) -> Result<LinkJson, RelayError> {
        let text = |field| body.get(field).and_then(Value::as_str).unwrap_or_default();
        let exposure = Exposure::parse(text("kind"), text("pattern"))
            .map_err(|error| RelayError::invalid(error.to_string()))?;
        let on = flag(body, "on")?.unwrap_or(true);
        let link = self.store.expose(caller.person, org, other, exposure, on, self.now()).await?;
        Ok(LinkJson::new(link))
    }

    /// `PUT …/rules`. What is left out stays as it was.
    ///
    /// # Errors
    /// When the caller is no admin, there is no link, or an address is none.
    pub async fn set_link_rules(
        &self,
        caller: &Caller,
        (org, other): (Name, Name),
        body: &Map<String, Value>,
    ) -> Result<LinkJson, RelayError> {
        let ips = match body.get("ips") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => {
                Some(LinkRules::parse_ips(text).map_err(|error| RelayError::invalid(error.to_string()))?)
            }
            Some(_) => return Err(RelayError::invalid("ips must be a text")),
        };
        let change = LinkRulesChange { signed_only: flag(body, "signed_only")?, ips };
        let link = self.store.set_link_rules(caller.person, org, other, change, self.now()).await?;
        Ok(LinkJson::new(link))
    }

    /// `POST …/revoke`, from either side.
    ///
    /// # Errors
    /// When the caller is no admin or there is no link.
    pub async fn revoke_link(
        &self,
        caller: &Caller,
        (org, other): (Name, Name),
    ) -> Result<LinkJson, RelayError> {
        let link = self.store.revoke_link(caller.person, org, other, self.now()).await?;
        tracing::info!(org = %link.org, other = %link.other, state = link.state.as_str(), "relay_link_changed");
        Ok(LinkJson::new(link))
    }

    /// `GET /links`.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn links(&self, caller: &Caller) -> Result<Vec<LinkJson>, RelayError> {
        Ok(self.store.links_of(caller.person).await?.into_iter().map(LinkJson::new).collect())
    }
}

fn flag(body: &Map<String, Value>, field: &str) -> Result<Option<bool>, RelayError> {
    match body.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(on)) => Ok(Some(*on)),
        Some(_) => Err(RelayError::invalid(format!("{field} must be true or false"))),
    }
}
