//! What an agent takes from whom (spec, «Agentes y presencia»: the policy). Pure: the caller says who asks.

use std::fmt;

use serde_json::{Map, Value, json};

use super::address::{AgentAddress, Name};

/// The most entries of `allow`: more than any organisation has teams, few enough to be read at each request.
pub const ALLOW_MAX: usize = 500;

/// One entry of `allow`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allow {
    /// A person's handle in the agent's organisation.
    Handle(Name),
    /// `team:<team>` of the agent's organisation.
    Team(Name),
    /// `org`: the agent's own organisation.
    Org,
    /// `org:<other>`: a linked organisation.
    OtherOrg(Name),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("allow: {0:?} is not a handle, team:<team>, org or org:<organization>")]
pub struct AllowError(String);

impl std::str::FromStr for Allow {
    type Err = AllowError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = |part: &str| part.parse::<Name>().map_err(|_| AllowError(text.to_owned()));
        match text.split_once(':') {
            None if text == "org" => Ok(Self::Org),
            None => name(text).map(Self::Handle),
            Some(("team", team)) => name(team).map(Self::Team),
            Some(("org", org)) => name(org).map(Self::OtherOrg),
            Some(_) => Err(AllowError(text.to_owned())),
        }
    }
}

impl fmt::Display for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handle(name) => write!(f, "{name}"),
            Self::Team(name) => write!(f, "team:{name}"),
            Self::Org => f.write_str("org"),
            Self::OtherOrg(name) => write!(f, "org:{name}"),
        }
    }
}

/// The policy of an agent. The default takes requests from its own team, in any form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub allow: Vec<Allow>,
    /// `trust: "full"`: the agent may do anything on its machine.
    pub full_trust: bool,
    pub signed_only: bool,
    pub encrypted_only: bool,
}

/// Why an announcement's policy is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error("allow must be a list of texts")]
    AllowShape,
    #[error("allow must have at most {ALLOW_MAX} entries")]
    AllowTooLong,
    #[error(transparent)]
    Allow(#[from] AllowError),
    #[error("trust must be \"none\" or \"full\"")]
    Trust,
    #[error("trust \"full\" requires allow")]
    FullWithoutAllow,
    #[error("{0} must be true or false")]
    Flag(&'static str),
}

/// Who asks, as far as a policy looks.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    pub address: &'a AgentAddress,
    /// The agent asked belongs to the same person: an owner always passes (A39).
    pub is_owner: bool,
    pub signed: bool,
    pub encrypted: bool,
}

/// Why a request does not pass, in the spec's words after the agent's address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("takes requests only from {0}")]
    From(String),
    #[error("takes only signed requests")]
    Unsigned,
    #[error("takes only encrypted requests")]
    Plain,
}

impl Policy {
    /// Reads `allow`, `trust`, `signed_only`, `encrypted_only` of an announcement.
    ///
    /// # Errors
    /// The first field that is not what the spec says.
    pub fn parse(announcement: &Map<String, Value>) -> Result<Self, PolicyError> {
        let allow = match announcement.get("allow") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) if items.len() > ALLOW_MAX => return Err(PolicyError::AllowTooLong),
            Some(Value::Array(items)) => items
                .iter()
                .map(|item| item.as_str().ok_or(PolicyError::AllowShape)?.parse().map_err(PolicyError::Allow))
                .collect::<Result<_, _>>()?,
            Some(_) => return Err(PolicyError::AllowShape),
        };
        let full_trust = match announcement.get("trust") {
            None | Some(Value::Null) => false,
            Some(Value::String(trust)) if trust == "none" => false,
            Some(Value::String(trust)) if trust == "full" => true,
            Some(_) => return Err(PolicyError::Trust),
        };
        if full_trust && allow.is_empty() {
            return Err(PolicyError::FullWithoutAllow);
        }
        let flag = |name: &'static str| match announcement.get(name) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(on)) => Ok(*on),
            Some(_) => Err(PolicyError::Flag(name)),
        };
        Ok(Self {
            allow,
            full_trust,
            signed_only: flag("signed_only")?,
            encrypted_only: flag("encrypted_only")?,
        })
    }

    /// What `parse` reads.
    pub fn to_value(&self) -> Value {
        let allow: Vec<String> = self.allow.iter().map(Allow::to_string).collect();
        json!({
            "allow": allow,
            "trust": if self.full_trust { "full" } else { "none" },
            "signed_only": self.signed_only,
            "encrypted_only": self.encrypted_only,
        })
    }

    /// Whether `agent` takes a request from `asker`. `in_team` says whether the asker's person is in a team of
    /// the agent's organisation.
    ///
    /// # Errors
    /// Why not, to be said to the sender.
    pub fn check(
        &self,
        agent: &AgentAddress,
        asker: Asker<'_>,
        in_team: impl Fn(&Name) -> bool,
    ) -> Result<(), Refused> {
        let same_org = asker.address.org == agent.org;
        let allowed = |entry: &Allow| match entry {
            Allow::Handle(handle) => same_org && asker.address.user == *handle,
            Allow::Team(team) => same_org && in_team(team),
            Allow::Org => same_org,
            Allow::OtherOrg(org) => asker.address.org == *org,
        };
        let passes = asker.is_owner
            || if self.allow.is_empty() {
                same_org && in_team(&agent.team)
            } else {
                self.allow.iter().any(allowed)
            };
        if !passes {
            return Err(Refused::From(self.accepts(agent)));
        }
        if (self.signed_only || self.full_trust) && !asker.signed {
            return Err(Refused::Unsigned);
        }
        if self.encrypted_only && !asker.encrypted {
            return Err(Refused::Plain);
        }
        Ok(())
    }

    /// Whom the agent takes requests from, for people.
    pub fn accepts(&self, agent: &AgentAddress) -> String {
        let word = |entry: &Allow| match entry {
            Allow::Handle(name) => name.to_string(),
            Allow::Team(name) => format!("team {name}"),
            Allow::Org => "its organization".to_owned(),
            Allow::OtherOrg(name) => format!("organization {name}"),
        };
        if self.allow.is_empty() {
            return format!("team {}", agent.team);
        }
        self.allow.iter().map(word).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(announcement: Value) -> Result<Policy, PolicyError> {
        Policy::parse(announcement.as_object().unwrap())
    }

    fn asks(policy: &Policy, from: &str, teams: &[&str]) -> Result<(), Refused> {
        let agent: AgentAddress = "acme/ops/ana/close".parse().unwrap();
        let address: AgentAddress = from.parse().unwrap();
        let is_owner = address.person() == agent.person();
        let asker = Asker { address: &address, is_owner, signed: true, encrypted: false };
        policy.check(&agent, asker, |team| teams.contains(&team.to_string().as_str()))
    }

    #[test]
    fn an_empty_list_means_the_own_team() {
        let own_team = Policy::default();
        assert_eq!(asks(&own_team, "acme/finance/beto/x", &["ops"]), Ok(()));
        assert_eq!(asks(&own_team, "acme/finance/ana/x", &[]), Ok(()), "the owner always passes");
        let refused = asks(&own_team, "acme/ops/caro/x", &[]).unwrap_err();
        assert_eq!(refused.to_string(), "takes requests only from team ops");
        assert!(asks(&own_team, "globex/ops/beto/x", &["ops"]).is_err());
    }

    #[test]
    fn each_kind_of_entry_lets_in_its_own() {
        let listed = policy(json!({"allow": ["beto", "team:dev", "org:globex"]})).unwrap();
        assert_eq!(asks(&listed, "acme/x/beto/a", &[]), Ok(()));
        assert_eq!(asks(&listed, "acme/x/caro/a", &["dev"]), Ok(()));
        assert_eq!(asks(&listed, "globex/x/bob/a", &[]), Ok(()));
        let refused = asks(&listed, "globex2/x/beto/a", &[]).unwrap_err();
        assert_eq!(refused.to_string(), "takes requests only from beto, team dev, organization globex");
    }

    #[test]
    fn signed_and_encrypted_are_asked_after_who() {
        let agent: AgentAddress = "acme/ops/ana/close".parse().unwrap();
        let asker = Asker { address: &agent, is_owner: true, signed: false, encrypted: false };
        let full = policy(json!({"trust": "full", "allow": ["org"]})).unwrap();
        assert_eq!(full.check(&agent, asker, |_| false), Err(Refused::Unsigned));
        let sealed = policy(json!({"encrypted_only": true})).unwrap();
        assert_eq!(sealed.check(&agent, asker, |_| false), Err(Refused::Plain));
    }

    #[test]
    fn wrong_policies_are_refused() {
        assert_eq!(policy(json!({"allow": "org"})), Err(PolicyError::AllowShape));
        assert!(matches!(policy(json!({"allow": ["role:x"]})), Err(PolicyError::Allow(_))));
        let long = vec!["org"; ALLOW_MAX + 1];
        assert_eq!(policy(json!({"allow": long})), Err(PolicyError::AllowTooLong));
        assert_eq!(policy(json!({"trust": "some"})), Err(PolicyError::Trust));
        assert_eq!(policy(json!({"trust": "full"})), Err(PolicyError::FullWithoutAllow));
        assert_eq!(policy(json!({"signed_only": 1})), Err(PolicyError::Flag("signed_only")));
    }
}
