//! The `redsyn` section: how this node meets the world. Unknown keys are refused by name,
//! since a typing error here could send plain text or open an agent to strangers.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use url::Url;

use super::fields::{Fields, Item, KeyError};
use super::{host, tree};
use crate::crypto::secret::Secret;
use crate::proto::dsh::names::AgentName;
use crate::proto::redsyn::address::{
    AddressError, AgentAddress, Destination, Name, ShortAddress, TopicAddress,
};
use crate::proto::redsyn::ids::VERSION;
use crate::proto::redsyn::policy::{Allow, Policy};

/// Where the embedded relay listens when `redsyn.listen` does not say.
const EMBEDDED_LISTEN: &str = "127.0.0.1:19122";

/// The whole section, checked.
#[derive(Clone, Debug)]
pub struct RedsynConfig {
    pub relay: RelayMode,
    /// `http://` to another machine is allowed.
    pub insecure: bool,
    pub token: TokenSource,
    /// The API date sent as `Redsyn-Version`.
    pub version: String,
    pub scope: Option<Scope>,
    pub encrypt: Encrypt,
    pub receipts: Receipts,
    pub agents: BTreeMap<AgentName, MappedAgent>,
    pub contacts: BTreeMap<String, AgentAddress>,
}

/// Which relay this node uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelayMode {
    /// One inside this process, listening on the address.
    Embedded { listen: String },
    /// Somebody's, at the base URL (with `/redsyn/v1`).
    Remote(Url),
    /// None: the section is parsed and local addresses work, but nothing leaves.
    Off,
}

/// Where the node's token at somebody else's relay comes from. `REDSYN_TOKEN` in the environment goes before all. The
/// embedded relay makes its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenSource {
    Value(Secret),
    File(PathBuf),
    /// Nothing configured: `redsyn.token` in the data folder.
    Default,
}

/// `org/team/user`: what the addresses of this node's agents begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    pub org: Name,
    pub team: Name,
    pub user: Name,
}

impl Scope {
    pub fn agent(&self, agent: Name) -> AgentAddress {
        AgentAddress { org: self.org.clone(), team: self.team.clone(), user: self.user.clone(), agent }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.org, self.team, self.user)
    }
}

/// When outbound mail is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encrypt {
    /// Whenever the recipient has a key.
    Prefer,
    /// Always; what cannot be sealed fails.
    Require,
    Never,
}

impl Encrypt {
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Prefer, Self::Require, Self::Never].into_iter().find(|known| known.as_str() == word)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::Never => "never",
        }
    }
}

/// Whether a local receipt travels as progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipts {
    None,
    Progress,
}

/// What an agent takes from outside, checked here again after the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    Any,
    Signed,
    Encrypted,
}

/// A local agent with an address in the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedAgent {
    pub address: AgentAddress,
    pub description: String,
    /// As announced to the relay.
    pub policy: Policy,
    pub accept: Accept,
    pub topics: Vec<TopicAddress>,
    /// Take mail also while the agent is not alive here.
    pub hold: bool,
    pub grant: Grant,
}

/// Address patterns (`org/team/user/agent`, `*` per level) that may do more than read here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    pub continues: Vec<String>,
    pub write: Vec<String>,
}

impl RedsynConfig {
    /// Reads a section that stands alone; relative paths count from `base`.
    ///
    /// # Errors
    /// The first key that is unknown or has a value outside its range.
    pub fn parse(text: &str, base: &Path) -> Result<Self, KeyError> {
        let mut warnings = Vec::new();
        let root = tree(text, &mut warnings)?;
        Self::read(Fields::of_file(&root, "redsyn")?, base, &mut warnings)
    }

    /// The same for the section of a file.
    pub(super) fn read(
        mut fields: Fields<'_>,
        base: &Path,
        warnings: &mut Vec<KeyError>,
    ) -> Result<Self, KeyError> {
        let (relay, listen) = (fields.text("relay")?, fields.text("listen")?);
        let insecure = fields.flag("insecure")?.unwrap_or(false);
        let token = token_source(&mut fields, base)?;
        let (version, scope) = (fields.text("version")?, fields.text("scope")?);
        let encrypt = fields.choice(
            "encrypt",
            &[("prefer", Encrypt::Prefer), ("require", Encrypt::Require), ("never", Encrypt::Never)],
        )?;
        let receipts =
            fields.choice("receipts", &[("none", Receipts::None), ("progress", Receipts::Progress)])?;
        let (agents, contacts) = (fields.section("agents")?, fields.section("contacts")?);
        // Before what the keys say: a misspelt `scope` is the reason why an agent has no address.
        fields.refuse_unknown()?;
        let scope = scope.map(|text| parse_scope(text, &fields)).transpose()?;
        let agents = parse_agents(&agents, scope.as_ref(), warnings)?;
        let config = Self {
            relay: relay_mode(relay, listen, insecure, &fields)?,
            insecure,
            token,
            version: version.map_or_else(|| Ok(VERSION.to_owned()), |text| date(text, &fields))?,
            encrypt: encrypt.unwrap_or(Encrypt::Prefer),
            receipts: receipts.unwrap_or(Receipts::None),
            contacts: parse_contacts(&contacts, &agents)?,
            scope,
            agents,
        };
        if let RelayMode::Embedded { listen } = &config.relay {
            if !matches!(config.token, TokenSource::Default) {
                let why = "the embedded relay makes its own; a token is for the URL of another relay";
                let key = if fields.has("token") { "token" } else { "tokenFile" };
                return Err(fields.wrong(key, why));
            }
            if config.scope.is_none() {
                let why = "the embedded relay needs it: org/team/user, e.g. home/general/me";
                return Err(fields.wrong("scope", why));
            }
            if host::and_port(listen).is_some_and(|(host, _)| !host::is_loopback(host)) {
                let why = "listens beyond this machine without TLS: tokens and who writes to whom can be read on the way, so put a TLS proxy in front or run `redsyn-bridge relay` with `tls`";
                warnings.push(fields.wrong("listen", why));
            }
        }
        Ok(config)
    }
}

fn relay_mode(
    text: Option<&str>,
    listen: Option<&str>,
    insecure: bool,
    fields: &Fields<'_>,
) -> Result<RelayMode, KeyError> {
    let mode = match text {
        None | Some("embedded") => {
            let listen = listen.unwrap_or(EMBEDDED_LISTEN).to_owned();
            if host::and_port(&listen).is_none_or(|(host, _)| !host::is_one(host)) {
                let why = format!("{listen:?} is not host:port, e.g. {EMBEDDED_LISTEN}");
                return Err(fields.wrong("listen", why));
            }
            return Ok(RelayMode::Embedded { listen });
        }
        Some("off") => RelayMode::Off,
        Some(text) => RelayMode::Remote(relay_url(text, insecure, fields)?),
    };
    match listen {
        Some(_) => Err(fields.wrong("listen", "is only for `relay: embedded`")),
        None => Ok(mode),
    }
}

fn relay_url(text: &str, insecure: bool, fields: &Fields<'_>) -> Result<Url, KeyError> {
    let wrong = |why: &str| fields.wrong("relay", format!("{why}; it is `embedded`, `off` or an https URL"));
    let url = Url::parse(text.trim_end_matches('/'))
        .map_err(|error| wrong(&format!("{text:?} is no URL ({error})")))?;
    let loopback = match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        None => return Err(wrong("the URL names no host")),
    };
    if !url.username().is_empty() || url.password().is_some() {
        // Not repeated here: addresses are logged, passwords must not be.
        return Err(fields.wrong("relay", "the URL has a name or password in it: use `token`"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("paths are added to the URL, so it cannot end in ?… or #…"));
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if loopback || insecure => Ok(url),
        "http" => {
            Err(wrong("http:// to another machine would show the token; set `insecure: true` to allow it"))
        }
        other => Err(wrong(&format!("the scheme {other}: is not supported"))),
    }
}

fn token_source(fields: &mut Fields<'_>, base: &Path) -> Result<TokenSource, KeyError> {
    match (fields.text("token")?, fields.path_from("tokenFile", base)?) {
        (Some(_), Some(_)) => {
            Err(fields.wrong("token", "a token is a value or a file (`tokenFile`), not both"))
        }
        (Some(value), None) if value.trim().is_empty() => Err(fields.wrong("token", "is blank")),
        (Some(value), None) if !value.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Err(fields.wrong("token", "has blanks or characters that no header can carry"))
        }
        (Some(value), None) => Ok(TokenSource::Value(Secret::new(value))),
        (None, Some(file)) => Ok(TokenSource::File(file)),
        (None, None) => Ok(TokenSource::Default),
    }
}

/// An API date, as it goes into the header of every call.
fn date(text: &str, fields: &Fields<'_>) -> Result<String, KeyError> {
    let parts: Vec<&str> = text.split('-').collect();
    let digits = |part: &str, len: usize| part.len() == len && part.bytes().all(|byte| byte.is_ascii_digit());
    match parts.as_slice() {
        [year, month, day] if digits(year, 4) && digits(month, 2) && digits(day, 2) => Ok(text.to_owned()),
        _ => Err(fields.wrong("version", format!("{text:?} is no API date, e.g. {VERSION}"))),
    }
}

fn parse_scope(text: &str, fields: &Fields<'_>) -> Result<Scope, KeyError> {
    let wrong = || {
        fields.wrong("scope", format!("{text:?} is not org/team/user (lower case, digits, `.`, `-`, `_`)"))
    };
    let names: Vec<Name> = text.split('/').map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?;
    let [org, team, user] = <[Name; 3]>::try_from(names).map_err(|_| wrong())?;
    Ok(Scope { org, team, user })
}

fn parse_agents(
    section: &Fields<'_>,
    scope: Option<&Scope>,
    warnings: &mut Vec<KeyError>,
) -> Result<BTreeMap<AgentName, MappedAgent>, KeyError> {
    let mut agents = BTreeMap::new();
    let mut owners: BTreeMap<AgentAddress, AgentName> = BTreeMap::new();
    for text in section.names() {
        let name = agent_name(text, section)?;
        let agent = parse_agent(section.section_of(text)?, &name, scope, warnings)?;
        if let Some(other) = owners.insert(agent.address.clone(), name.clone()) {
            return Err(section.wrong(text, format!("has the address of {other}: {}", agent.address)));
        }
        agents.insert(name, agent);
    }
    Ok(agents)
}

fn parse_agent(
    mut fields: Fields<'_>,
    name: &AgentName,
    scope: Option<&Scope>,
    warnings: &mut Vec<KeyError>,
) -> Result<MappedAgent, KeyError> {
    let address = fields.text("address")?;
    let allow = allow(&mut fields, warnings)?;
    let full_trust = fields.choice("trust", &[("none", false), ("full", true)])?.unwrap_or(false);
    let accept = fields.choice(
        "accept",
        &[("any", Accept::Any), ("signed", Accept::Signed), ("encrypted", Accept::Encrypted)],
    )?;
    let topic_texts = fields.list("topics")?.unwrap_or_default();
    let description = fields.text("description")?.unwrap_or_default().to_owned();
    let hold = fields.flag("hold")?.unwrap_or(false);
    let mut grant = fields.section("grant")?;
    fields.refuse_unknown()?;
    let grants =
        Grant { continues: patterns(&mut grant, "continue")?, write: patterns(&mut grant, "write")? };
    grant.refuse_unknown()?;
    let address = match (address, scope) {
        (Some(text), _) => text
            .parse()
            .map_err(|_| fields.wrong("address", format!("{text:?} is not org/team/user/agent")))?,
        (None, Some(scope)) => scope.agent(name.as_str().parse().map_err(|_| {
            fields.wrong_section(
                "is not a REDSYN name (lower case, digits, `.`, `-`, `_`): give the agent an `address`",
            )
        })?),
        (None, None) => {
            return Err(fields.wrong_section("needs `redsyn.scope` or an `address` of its own"));
        }
    };
    if full_trust && allow.is_empty() {
        return Err(fields.wrong("trust", "full trust needs `allow`: who may use it"));
    }
    if full_trust && accept == Some(Accept::Any) {
        let why = "full trust takes signed requests only: `signed` or `encrypted`";
        return Err(fields.wrong("accept", why));
    }
    let accept = accept.unwrap_or(if full_trust { Accept::Signed } else { Accept::Any });
    Ok(MappedAgent {
        topics: topics(&topic_texts, &fields, &address)?,
        policy: Policy {
            allow,
            full_trust,
            signed_only: accept != Accept::Any,
            encrypted_only: accept == Accept::Encrypted,
        },
        address,
        description,
        accept,
        hold,
        grant: grants,
    })
}

/// Words that people write for everybody. The policy has no such word: it would take them for a person's handle.
const EVERYBODY: &[&str] = &["all", "any", "anybody", "anyone", "everybody", "everyone", "public", "world"];

fn allow(fields: &mut Fields<'_>, warnings: &mut Vec<KeyError>) -> Result<Vec<Allow>, KeyError> {
    let allow = fields.parsed_list("allow")?;
    let items = fields.list("allow")?.unwrap_or_default();
    for item in items.into_iter().filter(|item| EVERYBODY.contains(&item.text)) {
        let why = format!(
            "has {:?}, which is read as a person's handle: whom one means is handle, team:<team>, org or org:<organization>",
            item.text
        );
        warnings.push(fields.wrong_item("allow", item, why));
    }
    Ok(allow)
}

fn topics(
    texts: &[Item<'_>],
    fields: &Fields<'_>,
    address: &AgentAddress,
) -> Result<Vec<TopicAddress>, KeyError> {
    texts
        .iter()
        .map(|item| {
            let full = item.text.strip_prefix("topic:").unwrap_or(item.text);
            let wrong = |why: String| fields.wrong_item("topics", *item, format!("{:?}: {why}", item.text));
            let short: ShortAddress =
                format!("topic:{full}").parse().map_err(|error: AddressError| wrong(error.to_string()))?;
            match short.resolve(address) {
                Destination::Topic(topic) => Ok(topic),
                Destination::Agent(_) => Err(wrong("is no topic".to_owned())),
            }
        })
        .collect()
}

fn patterns(fields: &mut Fields<'_>, key: &'static str) -> Result<Vec<String>, KeyError> {
    let items = fields.list(key)?.unwrap_or_default();
    for item in &items {
        let levels: Vec<&str> = item.text.split('/').collect();
        let good =
            levels.len() == 4 && levels.iter().all(|level| *level == "*" || level.parse::<Name>().is_ok());
        if !good {
            let why = format!("{:?} is not org/team/user/agent with `*` per level", item.text);
            return Err(fields.wrong_item(key, *item, why));
        }
    }
    Ok(items.iter().map(|item| item.text.to_owned()).collect())
}

fn parse_contacts(
    section: &Fields<'_>,
    agents: &BTreeMap<AgentName, MappedAgent>,
) -> Result<BTreeMap<String, AgentAddress>, KeyError> {
    let mut contacts = BTreeMap::new();
    for alias in section.names() {
        let name = agent_name(alias, section)?;
        // The second generation of the local protocol knows no capital letters.
        if agents.keys().any(|agent| agent.as_str().eq_ignore_ascii_case(name.as_str())) {
            return Err(section.wrong(alias, "is also a local agent: choose another alias"));
        }
        let text = section.text_of(alias)?;
        let address =
            text.parse().map_err(|_| section.wrong(alias, format!("{text:?} is not org/team/user/agent")))?;
        contacts.insert(alias.to_owned(), address);
    }
    Ok(contacts)
}

fn agent_name(text: &str, section: &Fields<'_>) -> Result<AgentName, KeyError> {
    AgentName::parse(text)
        .ok_or_else(|| section.wrong(text, "is no agent name: 1 to 64 letters, digits, `_`, `.`, `-`"))
}

#[cfg(test)]
#[path = "redsyn_tests.rs"]
mod tests;
