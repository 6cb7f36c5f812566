//! What a link between two organisations lets through (spec, «Organizaciones y enlaces»).

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::proto::redsyn::address::{AgentAddress, Name, TopicAddress};

/// What an organisation shows over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExposeKind {
    Agent,
    /// Topics the other side may publish to.
    Pub,
    /// Topics the other side may listen to.
    Sub,
}

impl ExposeKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Pub => "pub",
            Self::Sub => "sub",
        }
    }

    /// How many names a full path of this kind has, inside its organisation.
    const fn depth(self) -> usize {
        match self {
            Self::Agent => 3,
            Self::Pub | Self::Sub => 2,
        }
    }
}

impl fmt::Display for ExposeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExposeError {
    #[error("kind must be agent, pub or sub")]
    Kind,
    #[error("{0:?} is no pattern for {1}")]
    Pattern(String, ExposeKind),
}

impl FromStr for ExposeKind {
    type Err = ExposeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "agent" => Ok(Self::Agent),
            "pub" => Ok(Self::Pub),
            "sub" => Ok(Self::Sub),
            _ => Err(ExposeError::Kind),
        }
    }
}

/// One thing exposed: a kind, and a path that may end in `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposure {
    pub kind: ExposeKind,
    pub pattern: String,
}

impl Exposure {
    /// # Errors
    /// When the kind is unknown or the pattern does not fit it.
    pub fn parse(kind: &str, pattern: &str) -> Result<Self, ExposeError> {
        let kind: ExposeKind = kind.parse()?;
        let names: Vec<&str> = pattern.split('/').collect();
        let fits = match names.split_last() {
            Some((&"*", before)) => before.len() < kind.depth() && all_names(before),
            Some(_) => names.len() == kind.depth() && all_names(&names),
            None => false,
        };
        if fits {
            Ok(Self { kind, pattern: pattern.to_owned() })
        } else {
            Err(ExposeError::Pattern(pattern.chars().take(200).collect(), kind))
        }
    }
}

fn all_names(parts: &[&str]) -> bool {
    parts.iter().all(|part| part.parse::<Name>().is_ok())
}

/// Every pattern that covers `agent`, so that a look-up asks for a handful of keys and never reads a whole list.
pub fn patterns_for_agent(agent: &AgentAddress) -> [String; 4] {
    let AgentAddress { team, user, agent, .. } = agent;
    ["*".to_owned(), format!("{team}/*"), format!("{team}/{user}/*"), format!("{team}/{user}/{agent}")]
}

/// Every pattern that covers `topic`.
pub fn patterns_for_topic(topic: &TopicAddress) -> [String; 3] {
    ["*".to_owned(), format!("{}/*", topic.team), format!("{}/{}", topic.team, topic.name)]
}

/// What an organisation lets in over a link. The default takes signed messages only, from any address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkRules {
    pub signed_only: bool,
    /// Empty: any address.
    pub ips: Vec<IpAddr>,
}

impl Default for LinkRules {
    fn default() -> Self {
        Self { signed_only: true, ips: Vec::new() }
    }
}

/// Why a link's rules keep a message out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleBroken {
    #[error("takes only signed messages over this link")]
    Unsigned,
    #[error("takes no messages over this link from this network address")]
    Address,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("ips: {0:?} is not a network address")]
pub struct IpsError(String);

impl LinkRules {
    /// Reads `"203.0.113.7,198.51.100.2"`; empty means any address.
    ///
    /// # Errors
    /// The first entry that is no address.
    pub fn parse_ips(text: &str) -> Result<Vec<IpAddr>, IpsError> {
        text.split(',')
            .map(str::trim)
            .filter(|entry| !entry.is_empty())
            .map(|entry| entry.parse().map_err(|_| IpsError(entry.chars().take(60).collect())))
            .collect()
    }

    /// The text `parse_ips` reads.
    pub fn ips_text(&self) -> String {
        self.ips.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",")
    }

    /// # Errors
    /// Which rule a message breaks.
    pub fn check(&self, signed: bool, ip: Option<IpAddr>) -> Result<(), RuleBroken> {
        if self.signed_only && !signed {
            return Err(RuleBroken::Unsigned);
        }
        // A v4 caller on a v6 socket shows as ::ffff:a.b.c.d; people write a.b.c.d.
        let ip = ip.map(|ip| ip.to_canonical());
        if !self.ips.is_empty() && !ip.is_some_and(|ip| self.ips.iter().any(|one| one.to_canonical() == ip)) {
            return Err(RuleBroken::Address);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_paths_that_may_end_in_a_star() {
        for (kind, pattern) in [
            ("agent", "*"),
            ("agent", "a/*"),
            ("agent", "a/b/*"),
            ("agent", "a/b/c"),
            ("pub", "a/*"),
            ("sub", "a/b"),
        ] {
            assert!(Exposure::parse(kind, pattern).is_ok(), "{kind} {pattern}");
        }
        for (kind, pattern) in [
            ("agent", ""),
            ("agent", "a"),
            ("agent", "a/b"),
            ("agent", "a/b/c/*"),
            ("agent", "*/b/c"),
            ("agent", "a/B/c"),
            ("pub", "a/b/*"),
            ("sub", "a/b/c"),
            ("topic", "*"),
        ] {
            assert!(Exposure::parse(kind, pattern).is_err(), "{kind} {pattern}");
        }
    }

    #[test]
    fn an_agent_is_covered_by_four_patterns() {
        let agent = "acme/finance/ana/close".parse().unwrap();
        assert_eq!(patterns_for_agent(&agent), ["*", "finance/*", "finance/ana/*", "finance/ana/close"]);
    }

    #[test]
    fn signed_is_asked_before_the_address() {
        let rules =
            LinkRules { signed_only: true, ips: LinkRules::parse_ips("203.0.113.7, 198.51.100.2").unwrap() };
        let good: IpAddr = "::ffff:203.0.113.7".parse().unwrap();
        assert_eq!(rules.check(true, Some(good)), Ok(()));
        assert_eq!(rules.check(false, Some(good)), Err(RuleBroken::Unsigned));
        assert_eq!(rules.check(true, "192.0.2.1".parse().ok()), Err(RuleBroken::Address));
        assert_eq!(rules.check(true, None), Err(RuleBroken::Address));
        assert_eq!(rules.ips_text(), "203.0.113.7,198.51.100.2");
        assert!(LinkRules::parse_ips("203.0.113.7,acme.example").is_err());
    }
}
