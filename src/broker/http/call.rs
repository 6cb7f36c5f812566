//! From a request to a call: read the body, limit the rate, find out who is calling. Whoever holds a [`Call`] holds
//! an authenticated agent.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header::HOST;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method};

use super::answer::Answer;
use super::v2;
use crate::broker::auth::{Credentials, Refusal, Signed};
use crate::broker::metrics::Endpoint;
use crate::broker::service::Service;
use crate::domain::nearby::is_called_by_our_name;
use crate::intake::room::{Bounds, Kept, NoBody, Place, measure};
use crate::proto::dsh::error::{ApiError, Code};
use crate::proto::dsh::names::AgentName;
use crate::proto::dsh::v1::route::{self, ParcelRoute, Route};
use crate::proto::dsh::v1::{MAX_BODY, signing};

/// How long a body may take, once there is room for it.
const BODY_TIME: Duration = Duration::from_secs(30);

/// Between whom a connection is; put there by the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) peer: SocketAddr,
    /// We listen on loopback alone.
    pub(super) is_local: bool,
}

/// A request: where it was meant for, and what came of reading it.
pub(super) struct Asked {
    pub(super) endpoint: Endpoint,
    pub(super) call: Result<Call, Answer>,
}

pub(super) enum Call {
    /// `GET /`, which anybody may ask.
    About,
    /// `GET /healthz`, which anybody may ask too.
    Health,
    /// `GET /metrics`, which this machine may ask.
    Metrics,
    By(Caller),
    ByV2(v2::Caller),
}

/// What an authenticated agent asks for.
pub(super) struct Caller {
    pub(super) agent: AgentName,
    pub(super) route: Route,
    pub(super) body: Vec<u8>,
    /// The answer when there is no such route.
    pub(super) no_route: ApiError,
    /// The body's.
    pub(super) _place: Place,
}

impl FromRequest<Arc<Service>> for Asked {
    type Rejection = Infallible;

    async fn from_request(request: Request, service: &Arc<Service>) -> Result<Self, Infallible> {
        let (parts, body) = request.into_parts();
        let target = parts.uri.to_string();
        let (mut route, path) = route::parse(parts.method.as_str(), &target);
        let ends = parts.extensions.get::<Ends>().copied();
        let peer = ends.map(|ends| ends.peer.ip());
        let hosts = parts.headers.get_all(HOST).iter().map(HeaderValue::as_bytes);
        let is_for_us = is_called_by_our_name(hosts, service.host());
        let is_refused = !is_for_us && ends.is_some_and(|ends| ends.is_local);
        let has_header = |name: &str| parts.headers.contains_key(name);
        if route == Route::Metrics
            && !is_refused
            && !service.shows_metrics(peer.filter(|_| is_for_us), has_header)
        {
            route = Route::Unknown;
        }
        let open = match route {
            Route::About => Some(Call::About),
            Route::Health => Some(Call::Health),
            Route::Metrics => Some(Call::Metrics),
            _ => None,
        };
        let is_v2 = v2::is_meant(&parts);
        let endpoint = match open {
            None if is_v2 => v2::endpoint(&parts, &path, &route),
            _ => Endpoint::of(&route),
        };
        let call = match open {
            // What is signed is from somebody who has a secret, whatever they call us.
            Some(_) if is_refused => Err(not_our_name().into()),
            Some(call) => Ok(call),
            None => Call::signed(Head { parts, target, path, route, is_v2, peer }, body, service).await,
        };
        Ok(Self { endpoint, call })
    }
}

fn not_our_name() -> ApiError {
    let why = "the Host of this request is no name of this broker; call it by its address or as localhost";
    ApiError::new(Code::Forbidden, why)
}

/// The head of a request that must be signed.
struct Head {
    parts: Parts,
    target: String,
    path: String,
    route: Route,
    is_v2: bool,
    peer: Option<IpAddr>,
}

impl Call {
    async fn signed(head: Head, body: Body, service: &Service) -> Result<Self, Answer> {
        let Head { parts, target, path, route, is_v2, peer } = head;
        if !is_v2 && let Some(address) = peer {
            service.auth.admit(address)?;
        }
        let limit = Limit::of(&route, service);
        let Kept { bytes: body, place } = if has_body(&parts.method) {
            if let Err(refusal) = expects(service, &parts.headers, is_v2) {
                // What is too long is refused for that, whoever sends it: so does the reference.
                measure(body, limit.bounds(), &service.clock).await.map_err(|why| limit.refusal(why))?;
                return Err(service.auth.refuse(refusal).into());
            }
            let read = service.room.read(body, limit.bounds(), &service.clock).await;
            read.map_err(|why| limit.refusal(why))?
        } else {
            Kept::default()
        };
        if is_v2 {
            let caller = v2::Caller::authenticated(service, &parts, (&target, &path, route), (body, place))?;
            return Ok(Self::ByV2(caller));
        }
        let signed = Signed { method: parts.method.as_str(), target: &target, body: &body };
        let given = Given::of(&parts.headers);
        let agent = service.auth.authenticate(given.credentials(), signed)?;
        let no_route = ApiError::not_found(parts.method.as_str(), &path);
        Ok(Self::By(Caller { agent, route, body, no_route, _place: place }))
    }
}

/// What is wrong with a request before its body is known.
fn expects(service: &Service, headers: &HeaderMap, is_v2: bool) -> Result<(), Refusal> {
    if is_v2 {
        return v2::expects(service, headers).map_err(Refusal::Plain);
    }
    service.auth.expects(Given::of(headers).credentials())
}

/// The agent, the time and the signature of a v1 request, as far as it has them.
struct Given([Option<String>; 3]);

impl Given {
    fn of(headers: &HeaderMap) -> Self {
        let names = [signing::AGENT_HEADER, signing::TIMESTAMP_HEADER, signing::SIGNATURE_HEADER];
        Self(names.map(|name| header(headers, name)))
    }

    fn credentials(&self) -> Option<Credentials<'_>> {
        let [Some(agent), Some(timestamp), Some(signature)] = &self.0 else { return None };
        Some(Credentials { agent, timestamp, signature })
    }
}

/// A header that says something. Repeated ones are joined, bytes are read as Latin-1: so does the reference.
pub(super) fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    let latin1 = |value: &axum::http::HeaderValue| {
        value.as_bytes().iter().copied().map(char::from).collect::<String>()
    };
    let joined = headers.get_all(name).iter().map(latin1).collect::<Vec<_>>().join(", ");
    (!joined.is_empty()).then_some(joined)
}

/// The reference does not read the body of these, and signatures cover an empty one.
fn has_body(method: &Method) -> bool {
    ![Method::GET, Method::HEAD, Method::DELETE, Method::OPTIONS].contains(method)
}

/// How long a body may be, and how a longer one is refused.
#[derive(Clone, Copy)]
struct Limit {
    bytes: usize,
    code: Code,
}

impl Limit {
    /// Zips are longer than messages, where they are taken at all.
    fn of(route: &Route, service: &Service) -> Self {
        match service.carrier.parcels() {
            Some(parcels) if *route == Route::Parcel(ParcelRoute::Upload) => {
                Self { bytes: parcels.largest(), code: Code::TooLarge }
            }
            _ => Self { bytes: MAX_BODY, code: Code::BadRequest },
        }
    }

    const fn bounds(self) -> Bounds {
        Bounds { bytes: self.bytes, time: BODY_TIME }
    }

    fn refusal(self, why: NoBody) -> ApiError {
        match (why, self.code) {
            (NoBody::TooLarge, Code::TooLarge) => {
                ApiError::new(self.code, format!("files are over the limit of {} bytes, zipped", self.bytes))
            }
            (NoBody::TooLarge, code) => ApiError::new(code, "body too large"),
            (NoBody::TooSlow, _) => ApiError::bad_request("the body took too long"),
            (NoBody::Broken, _) => ApiError::bad_request("the body did not arrive"),
            (NoBody::NoRoom, _) => {
                ApiError::new(Code::Busy, "too much is being sent at the same time; try again")
            }
        }
    }
}
