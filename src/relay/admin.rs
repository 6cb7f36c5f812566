//! What an operator asks of a relay, as data: the same on the store itself and through the door of one that runs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::RelayError;
use super::service::Service;
use crate::domain::relay::refusal::Refusal;
use crate::store::relay::{NodeSummary, PersonId, PersonSummary};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum AdminCommand {
    UserAdd {
        email: String,
        plan: String,
    },
    UserLs,
    /// `user` is an id or an e-mail address.
    UserRm {
        user: String,
    },
    NodeAdd {
        user: String,
        name: String,
    },
    /// Everybody's, or one person's.
    NodeLs {
        user: Option<String>,
    },
    NodeRm {
        node: String,
    },
    Invites,
}

impl Service {
    /// # Errors
    /// Why it cannot be done.
    pub async fn administer(self: &Arc<Self>, command: AdminCommand) -> Result<Value, RelayError> {
        match command {
            AdminCommand::UserAdd { email, plan } => {
                let id = self.create_person(&email, &plan).await?;
                let email = super::orgs::email(&email)?;
                Ok(json!({"id": id.to_string(), "email": email.as_str(), "plan": plan}))
            }
            AdminCommand::UserLs => Ok(self.list().await?.iter().map(person_json).collect()),
            AdminCommand::UserRm { user } => {
                let person = self.person_called(&user).await?;
                self.remove_person(person).await?;
                Ok(json!({"id": person.to_string(), "removed": true}))
            }
            AdminCommand::NodeAdd { user, name } => {
                let person = self.person_called(&user).await?;
                let token = self.create_node(person, &name).await?;
                Ok(json!({"token": token.expose(), "user": person.to_string(), "name": name}))
            }
            AdminCommand::NodeLs { user } => {
                let only = match user {
                    Some(user) => Some(self.person_called(&user).await?),
                    None => None,
                };
                let mut people = self.list().await?;
                people.retain(|one| only.is_none_or(|only| one.person.id == only));
                Ok(people.iter().flat_map(nodes_json).collect())
            }
            AdminCommand::NodeRm { node } => {
                let id = node.parse().map_err(|_| Refusal::NoNode(node.clone()))?;
                self.remove_node(id).await?;
                Ok(json!({"id": node, "removed": true}))
            }
            AdminCommand::Invites => {
                let invites = self.invites().await?;
                Ok(invites
                    .iter()
                    .map(|one| {
                        json!({"org": one.org, "team": one.team, "email": one.email,
                               "since": one.since.secs()})
                    })
                    .collect())
            }
        }
    }

    async fn person_called(&self, user: &str) -> Result<PersonId, RelayError> {
        if let Ok(id) = user.parse() {
            return Ok(id);
        }
        let person = self.person_by_email(user).await?;
        Ok(person.map(|person| person.id).ok_or_else(|| Refusal::NoPerson(user.to_owned()))?)
    }
}

fn person_json(one: &PersonSummary) -> Value {
    let nodes: Vec<Value> = one.nodes.iter().map(node_json).collect();
    json!({"id": one.person.id.to_string(), "email": one.person.email, "plan": one.person.plan, "nodes": nodes})
}

fn node_json(node: &NodeSummary) -> Value {
    json!({"id": node.id.to_string(), "name": node.name, "has_key": node.has_key,
           "created": node.created.secs()})
}

fn nodes_json(one: &PersonSummary) -> impl Iterator<Item = Value> {
    one.nodes.iter().map(|node| {
        let mut json = node_json(node);
        json["user"] = one.person.id.to_string().into();
        json["email"] = one.person.email.as_str().into();
        json
    })
}
