//! What every call has: its counts, and on its answer the API date it used and the relay's own time. Outside of the
//! router, since a held poll keeps whatever is around it in memory.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, DATE};
use axum::http::{HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use axum::{BoxError, Router};
use futures_util::FutureExt;
use hyper_util::service::TowerToHyperService;

use super::date::http_date;
use super::extract::{Peer, client_of};
use crate::intake::room::Place;
use crate::proto::redsyn::ids::VERSION_HEADER;
use crate::relay::metrics::Counter;
use crate::relay::{RelayError, Service, versions};

/// What is noted of a call while it is answered. One piece of memory for all of it: held polls are many.
#[derive(Clone, Debug, Default)]
pub(super) struct Noted(Arc<Notes>);

#[derive(Debug, Default)]
struct Notes {
    /// The API date, once it is known who calls and what they asked for.
    version: OnceLock<&'static str>,
    /// The body's place, until the call is answered.
    place: OnceLock<Place>,
}

impl Noted {
    pub(super) fn version(&self, version: &'static str) {
        // Set once per call; a second value would be the same.
        let _ = self.0.version.set(version);
    }

    pub(super) fn place(&self, place: Place) {
        // A call has one body.
        let _ = self.0.place.set(place);
    }
}

/// The app for one connection.
pub(super) struct Framed {
    app: TowerToHyperService<Router>,
    service: Arc<Service>,
    peer: SocketAddr,
}

impl Framed {
    pub(super) fn new(app: Router, service: Arc<Service>, peer: SocketAddr) -> Self {
        Self { app: TowerToHyperService::new(app), service, peer }
    }

    /// Counts the call, before anything else is done for it.
    fn admit(&self, request: &Request) -> Result<(), RelayError> {
        if let Some(address) = client_of(request.headers(), request.extensions(), self.service.settings()) {
            self.service.admit_address(address)?;
        }
        // It would run its GET and throw the answer away: for an inbox, messages leased to nobody.
        if request.method() == Method::HEAD { Err(RelayError::WrongMethod) } else { Ok(()) }
    }
}

impl<B> hyper::service::Service<hyper::Request<B>> for Framed
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, request: hyper::Request<B>) -> Self::Future {
        let mut request = request.map(Body::new);
        let (service, noted) = (Arc::clone(&self.service), Noted::default());
        request.extensions_mut().insert(Peer(self.peer));
        request.extensions_mut().insert(noted.clone());
        if let Err(error) = self.admit(&request) {
            let refused = finish(&service, &noted, error.into_response());
            return Box::pin(std::future::ready(Ok(refused)));
        }
        let answer = self.app.call(request);
        Box::pin(answer.map(move |answer| Ok(finish(&service, &noted, answer?))))
    }
}

/// Errors have it, too. Clients correct their clock by the second.
fn finish(service: &Service, noted: &Noted, mut response: Response) -> Response {
    let counter = match response.status().as_u16() {
        ..400 => Counter::AnswersOk,
        400..500 => Counter::AnswersRefused,
        _ => Counter::AnswersFailed,
    };
    service.metrics().add(counter, 1);
    let used = noted.0.version.get().copied().unwrap_or(versions::NEWEST);
    let headers = response.headers_mut();
    headers.insert(VERSION_HEADER, HeaderValue::from_static(used));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(date) = HeaderValue::from_str(&http_date(service.clock().now())) {
        headers.insert(DATE, date);
    }
    response
}
