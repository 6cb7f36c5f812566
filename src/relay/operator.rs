//! What whoever runs the relay may do: people and nodes. Not reachable over the protocol.

use std::sync::Arc;

use super::orgs::email;
use super::service::Service;
use super::{RelayError, versions};
use crate::config::redsyn::Scope;
use crate::crypto::base64url;
use crate::crypto::secret::Secret;
use crate::store::relay::{Home, Invite, NodeId, Person, PersonId, PersonSummary, TokenHash};

/// Marks a token for people and for secret scanners.
const TOKEN_PREFIX: &str = "rsn_";
/// A token nobody guesses.
const TOKEN_BYTES: usize = 32;
const TEXT_MAX: usize = 200;

impl Service {
    /// # Errors
    /// When the plan is unknown or the address is no address or taken.
    pub async fn create_person(&self, email: &str, plan: &str) -> Result<PersonId, RelayError> {
        if !self.settings.plans.is_known(plan) {
            let names = self.settings.plans.names().collect::<Vec<_>>().join(", ");
            return Err(RelayError::invalid(format!("there is no plan {plan:?}; known: {names}")));
        }
        let email = self::email(email)?;
        Ok(self.store.create_person(email, plan.to_owned(), self.now()).await?)
    }

    /// Makes a node. Its token is shown this once: only its hash is kept.
    ///
    /// # Errors
    /// When the person does not exist or has a node of that name.
    pub async fn create_node(&self, person: PersonId, name: &str) -> Result<Secret, RelayError> {
        if name.trim().is_empty() || name.len() > TEXT_MAX || name.chars().any(char::is_control) {
            let text = format!("a node needs a name of one line and at most {TEXT_MAX} bytes");
            return Err(RelayError::invalid(text));
        }
        let token = self.new_token();
        let hash = TokenHash::of(token.expose());
        let node = self.store.create_node(person, name.to_owned(), hash, self.now()).await?;
        tracing::info!(%person, %node, "relay_node_created");
        Ok(token)
    }

    /// Takes away everything they could act with: tokens, agents, subscriptions, webhooks, teams.
    ///
    /// # Errors
    /// When there is no such person, or they created an organisation.
    pub async fn remove_person(self: &Arc<Self>, person: PersonId) -> Result<(), RelayError> {
        let (store, now) = (Arc::clone(&self.store), self.now());
        self.settle(async move { store.remove_person(person, now).await }).await?;
        tracing::info!(%person, "relay_person_removed");
        Ok(())
    }

    /// Its token is refused from the next call on.
    ///
    /// # Errors
    /// When there is no such node.
    pub async fn remove_node(&self, node: NodeId) -> Result<(), RelayError> {
        self.store.remove_node(node, self.now()).await?;
        tracing::info!(%node, "relay_node_removed");
        Ok(())
    }

    /// # Errors
    /// When the store fails.
    pub async fn invites(&self) -> Result<Vec<Invite>, RelayError> {
        Ok(self.store.invites().await?)
    }

    /// # Errors
    /// When the store fails.
    pub async fn list(&self) -> Result<Vec<PersonSummary>, RelayError> {
        Ok(self.store.people().await?)
    }

    /// # Errors
    /// When the store fails.
    pub async fn person_by_email(&self, email: &str) -> Result<Option<Person>, RelayError> {
        let Ok(email) = email.parse() else { return Ok(None) };
        Ok(self.store.person_by_email(email).await?)
    }

    /// For a relay nobody administers: makes what is missing of the person, organisation and team of `scope`, and
    /// gives its node a new token, which replaces the one before.
    ///
    /// # Errors
    /// When the names belong to somebody else.
    pub async fn ensure_embedded(&self, scope: &Scope, node_name: &str) -> Result<Secret, RelayError> {
        let token = self.new_token();
        let home = Home {
            // No mail is ever sent: it only has to be this person's and nobody else's.
            email: email(&format!("{}@{}.embedded", scope.user, scope.org))?,
            plan: "enterprise".to_owned(),
            org: scope.org.clone(),
            team: scope.team.clone(),
            user: scope.user.clone(),
            node: node_name.to_owned(),
            version: versions::NEWEST.to_owned(),
        };
        self.store.ensure_home(home, TokenHash::of(token.expose()), self.now()).await?;
        Ok(token)
    }

    fn new_token(&self) -> Secret {
        let bytes = zeroize::Zeroizing::new(self.random.bytes::<TOKEN_BYTES>());
        Secret::new(format!("{TOKEN_PREFIX}{}", base64url::encode(&*bytes)))
    }
}
