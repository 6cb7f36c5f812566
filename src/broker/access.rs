//! Who may call, and whom an agent may write to: what a reload puts in place of what was.

use std::collections::{HashMap, HashSet};

use crate::config::{Agent, Config, Key};
use crate::crypto::secret::Secret;
use crate::domain::acl::Acl;
use crate::domain::current::Current;
use crate::domain::v2;
use crate::proto::dsh::names::AgentName;
use crate::proto::dsh::v2::LEGACY_KEY;
use crate::proto::dsh::v2::name::Name;

/// The access that counts now.
pub type CurrentAccess = Current<Access>;

/// The keys of one agent of the second generation, by their ids.
pub(super) type Keyring = HashMap<String, Key>;

/// The `agents` and `security.admin_agents` of one configuration.
pub struct Access {
    secrets: Secrets,
    keyrings: HashMap<Name, Keyring>,
    /// That of agents without keys of their own; `None` when there must be none.
    shared_keyring: Option<Keyring>,
    pub(super) acl: Acl,
    pub(super) acl_v2: v2::acl::Acl,
    /// May requeue and cancel anything.
    pub(super) admins: HashSet<Name>,
    /// The agents that the configuration names.
    pub(super) configured: Vec<AgentName>,
}

enum Secrets {
    Shared(Secret),
    /// Each agent has its own; the shared one opens nothing. `None`: the agent has keys of another scheme only.
    Isolated(HashMap<AgentName, Option<Secret>>),
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}

impl Access {
    /// `shared` is the secret of the whole machine; it opens nothing when agents have their own.
    pub fn new(config: &Config, shared: &Secret) -> Self {
        let agents = &config.agents.0;
        let is_isolated = config.agents.are_isolated();
        let secrets = if is_isolated {
            let own = agents.iter().map(|(name, agent)| (name.clone(), agent.secret.clone()));
            Secrets::Isolated(own.collect())
        } else {
            Secrets::Shared(shared.clone())
        };
        let keyrings = agents
            .iter()
            .filter_map(|(name, agent)| Some((Name::of(name.as_str()), keyring(agent)?)))
            .collect();
        let lists = agents.iter();
        Self {
            secrets,
            keyrings,
            shared_keyring: (!is_isolated).then(|| legacy(shared.clone())),
            acl: Acl::new(
                lists.filter_map(|(name, agent)| Some((name.clone(), agent.allowed_targets.clone()?))),
            ),
            acl_v2: v2::acl::Acl::new(
                agents.iter().map(|(name, agent)| (Name::of(name.as_str()), lists_of(agent))),
            ),
            admins: config.security.admin_agents.iter().map(|name| Name::of(name)).collect(),
            configured: agents.keys().cloned().collect(),
        }
    }

    /// With what the agent signs in the first generation; `None` when it may not call.
    pub(super) fn secret_of(&self, agent: &AgentName) -> Option<&Secret> {
        match &self.secrets {
            Secrets::Shared(secret) => Some(secret),
            Secrets::Isolated(own) => own.get(agent).and_then(Option::as_ref),
        }
    }

    /// The same in the second.
    pub(super) fn keyring_of(&self, agent: &Name) -> Option<&Keyring> {
        self.keyrings.get(agent).or(self.shared_keyring.as_ref())
    }

    /// Whether a call that the agent signed under `before` may be answered with its mail.
    pub(super) fn still_admits(&self, agent: &AgentName, before: &Self) -> bool {
        let secret = self.secret_of(agent);
        secret.is_some() && secret == before.secret_of(agent)
    }

    /// The same in the second generation: none of its keys may have gone.
    pub(super) fn still_admits_v2(&self, agent: &Name, before: &Self) -> bool {
        let (Some(now), Some(before)) = (self.keyring_of(agent), before.keyring_of(agent)) else {
            return false;
        };
        before.iter().all(|(id, key)| now.get(id).is_some_and(|now| now.secret == key.secret))
    }
}

/// The keys of the configuration; a single secret is the legacy key, but only of an agent without a keyring.
fn keyring(agent: &Agent) -> Option<Keyring> {
    if agent.keys.is_empty() {
        agent.secret.clone().map(legacy)
    } else {
        Some(agent.keys.clone().into_iter().collect())
    }
}

fn legacy(secret: Secret) -> Keyring {
    HashMap::from([(LEGACY_KEY.to_owned(), Key { secret, not_after: None })])
}

fn lists_of(agent: &Agent) -> v2::acl::Lists {
    v2::acl::Lists {
        all: agent.allowed_targets.clone(),
        read: agent.allowed_read_targets.clone(),
        continuing: agent.allowed_continue_targets.clone(),
        write: agent.allowed_write_targets.clone(),
    }
}
