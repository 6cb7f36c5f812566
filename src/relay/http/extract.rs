//! What handlers take: who calls, from where, which agent, which JSON. Each refuses in the protocol's own form.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::header::{AUTHORIZATION, HOST};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue};
use serde_json::{Map, Value};

use super::frame::Noted;
use crate::crypto::json;
use crate::domain::nearby::{is_called_by_our_name, is_nearby};
use crate::intake::room::{Bounds, NoBody};
use crate::proto::redsyn::address::{AgentAddress, Name};
use crate::proto::redsyn::ids::{MessageId, VERSION_HEADER};
use crate::relay::{RelayError, Service, Settings, versions};
use crate::store::relay;

/// The most bytes of a JSON body: 5 MB of zip are 6.7 MB of base64, and body and refs come on top.
const JSON_LIMIT: usize = 8 * 1024 * 1024;
const FORWARDED_FOR: &str = "x-forwarded-for";
/// How long a body may take to arrive, once there is room for it.
const BODY_TIME: Duration = Duration::from_secs(60);

/// The socket's other end, put there by the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) SocketAddr);

/// A caller whose token is known and who asked for an API date this relay speaks.
#[derive(Debug)]
pub(super) struct Caller(pub(super) relay::Caller);

impl FromRequestParts<Arc<Service>> for Caller {
    type Rejection = RelayError;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, RelayError> {
        let header = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = header.and_then(bearer).ok_or(RelayError::NoToken)?;
        let caller = service.authenticate(token).await?;
        service.admit_node(caller.node)?;
        let pinned = versions::pinned(caller.version.as_deref());
        let asked = parts.headers.get(VERSION_HEADER).map(|value| String::from_utf8_lossy(value.as_bytes()));
        let known = match &asked {
            None => Some(pinned),
            Some(asked) => versions::known(asked.trim()),
        };
        if let Some(noted) = parts.extensions.get::<Noted>() {
            noted.version(known.unwrap_or(pinned));
        }
        match (known, asked) {
            (None, Some(asked)) => Err(RelayError::UnknownVersion(asked.chars().take(60).collect())),
            _ => Ok(Self(caller)),
        }
    }
}

pub(super) fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty()).then(|| token.trim())
}

/// The network address of the caller, for the rules of links.
#[derive(Debug)]
pub(super) struct CallerIp(pub(super) Option<IpAddr>);

impl FromRequestParts<Arc<Service>> for CallerIp {
    type Rejection = RelayError;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, RelayError> {
        Ok(Self(client_of(&parts.headers, &parts.extensions, service.settings())))
    }
}

/// The address a call comes from, as far as it is known.
pub(super) fn client_of(headers: &HeaderMap, extensions: &Extensions, settings: &Settings) -> Option<IpAddr> {
    let Peer(peer) = extensions.get::<Peer>().copied()?;
    let trusted = |ip: &IpAddr| settings.trusted_proxies.iter().any(|net| net.contains(ip));
    let forwarded: Vec<&str> = headers
        .get_all(FORWARDED_FOR)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .collect();
    client_ip(peer.ip().to_canonical(), &forwarded, trusted)
}

/// Whether a call comes from this machine itself, and from no web page that lets its own name point to it.
#[derive(Debug)]
pub(super) struct Nearby(pub(super) bool);

impl FromRequestParts<Arc<Service>> for Nearby {
    type Rejection = RelayError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Service>) -> Result<Self, RelayError> {
        let has_header = |name: &str| parts.headers.contains_key(name);
        let peer = parts.extensions.get::<Peer>();
        let hosts = parts.headers.get_all(HOST).iter().map(HeaderValue::as_bytes);
        let is_for_us = is_called_by_our_name(hosts, "localhost");
        Ok(Self(is_for_us && peer.is_some_and(|Peer(peer)| is_nearby(peer.ip(), has_header))))
    }
}

/// The nearest address that is no trusted proxy. What stands further left was written by that address itself.
fn client_ip(peer: IpAddr, forwarded: &[&str], trusted: impl Fn(&IpAddr) -> bool) -> Option<IpAddr> {
    let mut nearest = peer;
    for entry in forwarded.iter().rev() {
        if !trusted(&nearest) {
            return Some(nearest);
        }
        // A trusted proxy that forwards no address: nobody knows who calls.
        nearest = entry.trim().parse::<IpAddr>().ok()?.to_canonical();
    }
    Some(nearest)
}

/// The names of a path, decoded.
async fn names<const N: usize>(parts: &mut Parts, service: &Arc<Service>) -> Result<[String; N], RelayError> {
    let Path(names) = Path::<Vec<(String, String)>>::from_request_parts(parts, service)
        .await
        .map_err(|_| RelayError::NoSuchCall)?;
    let names: Vec<String> = names.into_iter().map(|(_, value)| value).collect();
    names.try_into().map_err(|_| RelayError::NoSuchCall)
}

/// `{org}/{team}/{user}/{agent}`.
#[derive(Debug)]
pub(super) struct AgentPath(pub(super) AgentAddress);

impl FromRequestParts<Arc<Service>> for AgentPath {
    type Rejection = RelayError;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, RelayError> {
        let [org, team, user, agent] = names(parts, service).await?;
        agent_address([&org, &team, &user, &agent]).map(Self)
    }
}

fn agent_address([org, team, user, agent]: [&str; 4]) -> Result<AgentAddress, RelayError> {
    Ok(AgentAddress { org: name(org)?, team: name(team)?, user: name(user)?, agent: name(agent)? })
}

/// `{org}/{team}/{user}/{agent}/sessions/{session}`.
#[derive(Debug)]
pub(super) struct SessionPath(pub(super) AgentAddress, pub(super) String);

impl FromRequestParts<Arc<Service>> for SessionPath {
    type Rejection = RelayError;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, RelayError> {
        let [org, team, user, agent, session] = names(parts, service).await?;
        let session = name(&session)?.to_string();
        Ok(Self(agent_address([&org, &team, &user, &agent])?, session))
    }
}

fn name(text: &str) -> Result<Name, RelayError> {
    text.parse()
        .map_err(|error: crate::proto::redsyn::address::AddressError| RelayError::Invalid(error.to_string()))
}

/// The names of a path: an organisation, and whatever comes with it.
#[derive(Debug)]
pub(super) struct Names<const N: usize>(pub(super) [Name; N]);

impl<const N: usize> FromRequestParts<Arc<Service>> for Names<N> {
    type Rejection = RelayError;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, RelayError> {
        let texts: [String; N] = names(parts, service).await?;
        let parsed = texts.iter().map(|text| name(text)).collect::<Result<Vec<_>, _>>()?;
        parsed.try_into().map(Self).map_err(|_| RelayError::NoSuchCall)
    }
}

/// The id of a message, or of a thread, in a path.
#[derive(Debug)]
pub(super) struct IdPath(pub(super) MessageId);

impl FromRequestParts<Arc<Service>> for IdPath {
    type Rejection = RelayError;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, RelayError> {
        let [id] = names(parts, service).await?;
        MessageId::try_from(id).map(Self).map_err(|error| RelayError::Invalid(error.to_string()))
    }
}

/// The parameters after `?`.
#[derive(Debug)]
pub(super) struct Params(HashMap<String, String>);

impl Params {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// `1` and `true` are on.
    pub(super) fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some("1" | "true"))
    }

    /// Seconds; a fraction is cut off.
    pub(super) fn secs(&self, name: &str) -> Result<Option<u64>, RelayError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let secs = text.parse::<f64>().ok().filter(|secs| secs.is_finite() && *secs >= 0.0);
        let secs = secs.ok_or_else(|| RelayError::Invalid(format!("{name} must be a number of seconds")))?;
        // `as` saturates, which is what a huge number should do.
        Ok(Some(secs as u64))
    }
}

impl FromRequestParts<Arc<Service>> for Params {
    type Rejection = RelayError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Service>) -> Result<Self, RelayError> {
        let query = parts.uri.query().unwrap_or_default();
        Ok(Self(url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()))
    }
}

/// Any JSON. Read strictly: what is signed must say the same to everybody.
#[derive(Debug)]
pub(super) struct Json(pub(super) Value);

impl FromRequest<Arc<Service>> for Json {
    type Rejection = RelayError;

    async fn from_request(request: Request, service: &Arc<Service>) -> Result<Self, RelayError> {
        let (parts, body) = request.into_parts();
        let bounds = Bounds { bytes: JSON_LIMIT, time: BODY_TIME };
        let kept = service.room.read(body, bounds, service.clock()).await.map_err(|why| match why {
            NoBody::TooLarge => RelayError::TooLarge("the body is over 8 MB".into()),
            NoBody::TooSlow => RelayError::TooSlow,
            NoBody::Broken => RelayError::NotJson("the body did not arrive whole".into()),
            NoBody::NoRoom => RelayError::NoRoom,
        })?;
        if kept.bytes.is_empty() {
            return Err(RelayError::NotJson("a JSON body is required".into()));
        }
        let parsed = json::parse(&kept.bytes).map_err(|error| RelayError::NotJson(error.to_string()))?;
        // What was parsed is as large.
        if let Some(noted) = parts.extensions.get::<Noted>() {
            noted.place(kept.place);
        }
        Ok(Self(parsed))
    }
}

/// A JSON object.
#[derive(Debug)]
pub(super) struct JsonObject(pub(super) Map<String, Value>);

impl JsonObject {
    pub(super) fn text(&self, field: &str) -> Result<&str, RelayError> {
        let text = self.text_or_empty(field)?;
        if text.is_empty() { Err(not_a_text(field)) } else { Ok(text) }
    }

    pub(super) fn text_or_empty(&self, field: &str) -> Result<&str, RelayError> {
        self.0.get(field).and_then(Value::as_str).ok_or_else(|| not_a_text(field))
    }
}

fn not_a_text(field: &str) -> RelayError {
    RelayError::Invalid(format!("{field} must be a text"))
}

impl FromRequest<Arc<Service>> for JsonObject {
    type Rejection = RelayError;

    async fn from_request(request: Request, service: &Arc<Service>) -> Result<Self, RelayError> {
        match Json::from_request(request, service).await?.0 {
            Value::Object(object) => Ok(Self(object)),
            _ => Err(RelayError::Invalid("the body must be a JSON object".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_is_the_nearest_that_is_no_trusted_proxy() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let proxies = [ip("10.0.0.1"), ip("10.0.0.2")];
        let client =
            |peer: &str, forwarded: &[&str]| client_ip(ip(peer), forwarded, |one| proxies.contains(one));
        assert_eq!(
            client("192.0.2.9", &["203.0.113.7"]),
            Some(ip("192.0.2.9")),
            "nobody believes a stranger"
        );
        assert_eq!(client("10.0.0.1", &["203.0.113.7"]), Some(ip("203.0.113.7")));
        assert_eq!(
            client("10.0.0.1", &["198.51.100.1", " 203.0.113.7", "10.0.0.2"]),
            Some(ip("203.0.113.7"))
        );
        assert_eq!(client("10.0.0.1", &["203.0.113.7", "unknown"]), None);
        assert_eq!(client("10.0.0.1", &[]), Some(ip("10.0.0.1")));
    }

    #[test]
    fn a_bearer_token_is_one_word_after_the_scheme() {
        assert_eq!(bearer("Bearer rsn_x"), Some("rsn_x"));
        assert_eq!(bearer("bearer  rsn_x"), Some("rsn_x"));
        assert_eq!(bearer("Basic rsn_x"), None);
        assert_eq!(bearer("Bearer "), None);
        assert_eq!(bearer("rsn_x"), None);
    }
}
