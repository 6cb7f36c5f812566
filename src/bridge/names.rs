//! Who is who: local agents with an address, contacts with an alias, and everybody else by address.

use std::collections::{BTreeMap, HashMap};

use crate::config::redsyn::{MappedAgent, RedsynConfig};
use crate::domain::current::Current;
use crate::proto::dsh::names::AgentName;
use crate::proto::dsh::v2::name::Name;
use crate::proto::redsyn::address::{
    AddressedAgent, AgentAddress, Destination, Session, ShortAddress, TopicAddress,
};

/// The names of one configuration.
#[derive(Clone, Debug, Default)]
pub struct Names {
    agents: BTreeMap<AgentName, MappedAgent>,
    by_address: HashMap<AgentAddress, AgentName>,
    contacts: BTreeMap<String, AgentAddress>,
    aliases: HashMap<AgentAddress, String>,
}

/// The names as they are now: `reload` puts others in their place.
pub type CurrentNames = Current<Names>;

/// What a local sender means by a `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meant {
    /// A name of this machine, as far as we know: the broker decides.
    Local,
    /// The address of an agent of this node.
    Own(AgentName),
    Remote(AddressedAgent),
    Topic(TopicAddress),
    /// It looks like an address and is none.
    Malformed(String),
    /// An address, from an agent that has none itself: nobody could answer it.
    SenderUnlisted,
}

impl Names {
    pub fn new(config: &RedsynConfig) -> Self {
        let by_address =
            config.agents.iter().map(|(name, agent)| (agent.address.clone(), name.clone())).collect();
        // With two aliases for one address, the first in order names its inbound mail.
        let mut aliases = HashMap::new();
        for (alias, address) in &config.contacts {
            aliases.entry(address.clone()).or_insert_with(|| alias.clone());
        }
        Self { agents: config.agents.clone(), by_address, contacts: config.contacts.clone(), aliases }
    }

    pub fn agents(&self) -> impl Iterator<Item = (&AgentName, &MappedAgent)> {
        self.agents.iter()
    }

    pub fn agent(&self, name: &AgentName) -> Option<&MappedAgent> {
        self.agents.get(name)
    }

    pub fn contacts(&self) -> impl Iterator<Item = (&String, &AgentAddress)> {
        self.contacts.iter()
    }

    /// Reads `to` as `from` wrote it: a contact, an address in any form, a topic, or a bare local name.
    pub fn meant(&self, from: &AgentName, to: &str) -> Meant {
        let (base, session) = to.split_once('#').map_or((to, None), |(base, session)| (base, Some(session)));
        if let Some(address) = self.contacts.get(base) {
            let session: Option<Result<Session, _>> = session.map(str::parse);
            return match (session.transpose(), self.by_address.get(address)) {
                (Err(error), _) => Meant::Malformed(error.to_string()),
                (Ok(_), Some(own)) => Meant::Own(own.clone()),
                (Ok(session), None) => Meant::Remote(AddressedAgent { agent: address.clone(), session }),
            };
        }
        if !to.contains('/') && !to.starts_with("topic:") {
            return Meant::Local;
        }
        let Some(sender) = self.agents.get(from) else { return Meant::SenderUnlisted };
        match to.parse::<ShortAddress>().map(|short| short.resolve(&sender.address)) {
            Err(error) => Meant::Malformed(error.to_string()),
            Ok(Destination::Topic(topic)) => Meant::Topic(topic),
            Ok(Destination::Agent(remote)) => match self.by_address.get(&remote.agent) {
                Some(own) => Meant::Own(own.clone()),
                None => Meant::Remote(remote),
            },
        }
    }

    /// The agent with an address that the second generation calls so: of several, the one whose keys count there.
    pub fn agent_of(&self, name: &Name) -> Option<&AgentName> {
        self.agents.keys().rfind(|agent| Name::of(agent.as_str()) == *name)
    }

    /// Who a caller of the second generation is; `None` for a name that the first has no room for.
    pub fn caller(&self, name: &Name) -> Option<AgentName> {
        self.agent_of(name).cloned().or_else(|| AgentName::parse(name.as_str()))
    }

    /// [`Names::meant`] for the second generation, which knows no capital letters.
    pub fn meant_v2(&self, from: &Name, to: &Name) -> Meant {
        let to = to.as_str();
        let (base, session) = to.split_once('#').map_or((to, None), |(base, session)| (base, Some(session)));
        let alias = self.contacts.keys().find(|alias| Name::of(alias).as_str() == base);
        let to = match (alias, session) {
            (Some(alias), Some(session)) => format!("{alias}#{session}"),
            (Some(alias), None) => alias.clone(),
            (None, _) => to.to_owned(),
        };
        match self.caller(from) {
            Some(agent) => self.meant(&agent, &to),
            None if alias.is_some() || to.contains('/') => Meant::SenderUnlisted,
            None => Meant::Local,
        }
    }

    /// All names of whom is meant: an address, its aliases, and the local name of an agent of this node.
    pub fn known_as(&self, meant: &Meant) -> Vec<String> {
        let (address, own) = match meant {
            Meant::Remote(remote) => (Some(&remote.agent), None),
            Meant::Own(agent) => (self.agent(agent).map(|mapped| &mapped.address), Some(agent.to_string())),
            Meant::Topic(topic) => return vec![topic.to_string()],
            Meant::Local | Meant::Malformed(_) | Meant::SenderUnlisted => (None, None),
        };
        let aliases = self.contacts.iter().filter(|(_, contact)| Some(*contact) == address);
        let aliases = aliases.map(|(alias, _)| alias.clone());
        address.map(ToString::to_string).into_iter().chain(aliases).chain(own).collect()
    }

    /// The same of a topic, too: that is called as it is.
    pub fn called(&self, remote: &Destination) -> String {
        remote.agent().map_or_else(|| remote.to_string(), |agent| self.local_name(agent))
    }

    pub fn is_own(&self, address: &AgentAddress) -> bool {
        self.by_address.contains_key(address)
    }

    /// What a remote agent is called here: its alias, or its address without session.
    pub fn local_name(&self, remote: &AgentAddress) -> String {
        self.aliases.get(remote).cloned().unwrap_or_else(|| remote.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let yaml = "relay: off\nscope: acme/finance/ana\nagents: {close: {}, shout: {}}\n\
                    contacts: {bob: globex/erp/bob/billing, bobby: globex/erp/bob/billing, \
                    me: acme/finance/ana/shout}";
        Names::new(&RedsynConfig::parse(yaml, std::path::Path::new(".")).unwrap())
    }

    fn meant(to: &str) -> Meant {
        names().meant(&AgentName::parse("close").unwrap(), to)
    }

    #[test]
    fn contacts_addresses_and_short_forms_are_remote() {
        let billing = Meant::Remote("globex/erp/bob/billing".parse().unwrap());
        assert_eq!(meant("bob"), billing);
        assert_eq!(meant("globex/erp/bob/billing"), billing);
        assert_eq!(meant("bob#s4"), Meant::Remote("globex/erp/bob/billing#s4".parse().unwrap()));
        assert_eq!(meant("beto/cli"), Meant::Remote("acme/finance/beto/cli".parse().unwrap()));
        assert_eq!(
            meant("topic:finance/invoices"),
            Meant::Topic("topic:acme/finance/invoices".parse().unwrap())
        );
    }

    #[test]
    fn bare_names_and_own_addresses_stay_here() {
        assert_eq!(meant("shout"), Meant::Local);
        assert_eq!(meant("nobody"), Meant::Local);
        assert_eq!(meant("acme/finance/ana/shout"), Meant::Own(AgentName::parse("shout").unwrap()));
        assert_eq!(meant("ana/shout"), Meant::Own(AgentName::parse("shout").unwrap()));
        assert_eq!(meant("me"), Meant::Own(AgentName::parse("shout").unwrap()), "also by an alias");
    }

    #[test]
    fn whoever_is_meant_is_known_by_all_names() {
        let known = |to: &str| names().known_as(&meant(to));
        assert_eq!(known("bobby#s4"), ["globex/erp/bob/billing", "bob", "bobby"]);
        assert_eq!(known("ana/shout"), ["acme/finance/ana/shout", "me", "shout"]);
        assert!(known("shout").is_empty(), "a bare name says it all");
    }

    #[test]
    fn the_second_generation_has_one_agent_for_names_that_differ_in_case_alone() {
        let yaml = "relay: off\nscope: acme/finance/ana\nagents: {Close: {address: acme/finance/ana/one}, close: {}}";
        let names = Names::new(&RedsynConfig::parse(yaml, std::path::Path::new(".")).unwrap());
        assert_eq!(names.agent_of(&Name::of("CLOSE")), AgentName::parse("close").as_ref());
    }

    #[test]
    fn what_cannot_be_sent_says_why() {
        assert!(matches!(meant("Globex/erp/bob/billing"), Meant::Malformed(_)));
        assert!(matches!(meant("a/b/c/d/e"), Meant::Malformed(_)));
        assert_eq!(
            names().meant(&AgentName::parse("stranger").unwrap(), "bob/billing"),
            Meant::SenderUnlisted
        );
    }

    #[test]
    fn inbound_mail_carries_the_first_alias_or_the_address() {
        assert_eq!(names().local_name(&"globex/erp/bob/billing".parse().unwrap()), "bob");
        assert_eq!(names().local_name(&"globex/erp/eva/x".parse().unwrap()), "globex/erp/eva/x");
    }
}
