//! The second generation on the network: its headers, and one handler per route.

use axum::http::HeaderMap;
use axum::http::request::Parts;

use super::answer::Answer;
use super::call::header;
use super::handlers::by_parcel;
use crate::broker::metrics::Endpoint;
use crate::broker::service::Service;
use crate::broker::v2::auth::{Credentials, Request};
use crate::intake::room::Place;
use crate::proto::dsh::error::{ApiError, Code};
use crate::proto::dsh::js;
use crate::proto::dsh::v1::route::{ParcelRoute, Route as AnyRoute};
use crate::proto::dsh::v2::name::Name;
use crate::proto::dsh::v2::request;
use crate::proto::dsh::v2::route::{self, Route};
use crate::proto::dsh::v2::signing::{AGENT_HEADER, KEY_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER};
use crate::store::v2::Action;

/// What an authenticated agent asks for.
pub(super) struct Caller {
    agent: Name,
    asked: Asked,
    /// The body's.
    _place: Place,
}

enum Asked {
    Text(Route, String),
    Parcel(ParcelRoute, Vec<u8>),
}

/// A request with an agent header of the second generation, empty or not, is of the second generation.
pub(super) fn is_meant(parts: &Parts) -> bool {
    parts.headers.contains_key(AGENT_HEADER)
}

/// Where a request of the second generation is meant for.
pub(super) fn endpoint(parts: &Parts, path: &str, any: &AnyRoute) -> Endpoint {
    match any {
        AnyRoute::Parcel(route) => Endpoint::of_parcel_v2(route),
        _ => Endpoint::of_v2(route::parse(parts.method.as_str(), path)),
    }
}

impl Caller {
    /// `path` is the one that routes, `target` the one that was signed. `any` is the route where generations do not
    /// matter.
    pub(super) fn authenticated(
        service: &Service,
        parts: &Parts,
        (target, path, any): (&str, &str, AnyRoute),
        (body, place): (Vec<u8>, Place),
    ) -> Result<Self, ApiError> {
        let method = parts.method.as_str();
        if let (AnyRoute::Parcel(asked), Some(_)) = (any, service.carrier.parcels()) {
            let agent = authenticate(service, &parts.headers, Request { method, target, body: &body })?;
            return Ok(Self { agent, asked: Asked::Parcel(asked, body), _place: place });
        }
        // The reference decodes before it verifies: what is no UTF-8 is signed as it is read.
        let body = String::from_utf8_lossy(&body).into_owned();
        let agent = authenticate(service, &parts.headers, Request { method, target, body: body.as_bytes() })?;
        let no_route = || ApiError::new(Code::NotFound, format!("no v2 route {method} {path}"));
        let route = route::parse(method, path).ok_or_else(no_route)?;
        Ok(Self { agent, asked: Asked::Text(route, body), _place: place })
    }
}

fn authenticate(service: &Service, headers: &HeaderMap, request: Request<'_>) -> Result<Name, ApiError> {
    service.v2.authenticate(Given::of(headers).credentials(), request)
}

/// What is wrong with a request before its body is known.
pub(super) fn expects(service: &Service, headers: &HeaderMap) -> Result<(), ApiError> {
    service.v2.expects(Given::of(headers).credentials())
}

/// The agent, the key, the time and the signature of a request, as far as it has them.
struct Given([Option<String>; 4]);

impl Given {
    fn of(headers: &HeaderMap) -> Self {
        let names = [AGENT_HEADER, KEY_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER];
        Self(names.map(|name| header(headers, name)))
    }

    fn credentials(&self) -> Option<Credentials<'_>> {
        let [Some(agent), key, Some(timestamp), Some(signature)] = &self.0 else { return None };
        let agent = js::trim(agent);
        let key_id = key.as_deref().map(js::trim).filter(|id| !id.is_empty());
        (!agent.is_empty()).then_some(Credentials { agent, key_id, timestamp, signature })
    }
}

pub(super) async fn by_route(service: &Service, caller: Caller) -> Result<Answer, ApiError> {
    let Caller { agent, asked, _place } = caller;
    let (route, body) = match (asked, service.carrier.parcels()) {
        (Asked::Text(route, body), _) => (route, body),
        (Asked::Parcel(asked, body), Some(parcels)) => {
            return by_parcel(parcels, parcels.agent_of(&agent)?, asked, body).await;
        }
        (Asked::Parcel(..), None) => return Err(ApiError::no_such_message()),
    };
    let v2 = &service.v2;
    match route {
        Route::Create => {
            let request = request::Create::parse(&body, &agent)?;
            Answer::ok(&v2.create(agent, request).await?)
        }
        Route::Pull => {
            let request = request::Pull::parse(&body, &agent)?;
            Answer::ok(&v2.pull(agent, request).await?)
        }
        Route::Ack => {
            let request = request::Ack::parse(&body, &agent)?;
            Answer::ok(&v2.ack(agent, request).await?)
        }
        Route::Renew => {
            let request = request::Renew::parse(&body, &agent)?;
            Answer::ok(&v2.renew(agent, request).await?)
        }
        Route::Status => {
            let ids = request::status(&body, &agent)?;
            Answer::ok(&v2.status(agent, ids).await?)
        }
        Route::Recent => {
            let limit = request::recent(&body, &agent)?;
            Answer::ok(&v2.recent(agent, limit).await?)
        }
        Route::Query => {
            let request = request::Query::parse(&body, &agent)?;
            Answer::ok(&v2.query(agent, request).await?)
        }
        Route::Unfinished => {
            let limit = request::unfinished(&body, &agent)?;
            Answer::ok(&v2.unfinished(agent, limit).await?)
        }
        Route::Requeue => Answer::ok(&v2.manage(agent, Action::Requeue, request::managed(&body)?).await?),
        Route::Cancel => Answer::ok(&v2.manage(agent, Action::Cancel, request::managed(&body)?).await?),
    }
}
