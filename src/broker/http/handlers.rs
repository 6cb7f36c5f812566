//! One handler per route: parse the body, ask the service, choose the status.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;

use super::answer::Answer;
use super::call::{Asked, Call, Caller};
use super::v2;
use crate::broker::carrier::Parcels;
use crate::broker::service::Service;
use crate::proto::dsh::error::ApiError;
use crate::proto::dsh::names::AgentName;
use crate::proto::dsh::v1::route::{ParcelRoute, Route};
use crate::proto::dsh::v1::{answer, request};

type Answered = Result<Answer, ApiError>;

/// Every request. The routes are matched by hand, since the reference authenticates before it looks for one.
pub(super) async fn handle(State(service): State<Arc<Service>>, asked: Asked) -> Answer {
    let answered = match asked.call {
        Ok(Call::About) => Answer::ok(&service.about()),
        Ok(Call::Health) => health(&service).await,
        Ok(Call::Metrics) => service.measured().await.map(Answer::metrics),
        Ok(Call::By(caller)) => by_route(&service, caller).await,
        Ok(Call::ByV2(caller)) => v2::by_route(&service, caller).await,
        Err(refusal) => Ok(refusal),
    };
    let answer = answered.unwrap_or_else(Answer::from);
    service.metrics.answered(asked.endpoint, answer.refused());
    answer
}

async fn health(service: &Service) -> Answered {
    match service.health().await {
        Ok(health) => Answer::ok(&health),
        Err(error) => Ok(Answer::unwell(&error)),
    }
}

async fn by_route(service: &Service, caller: Caller) -> Answered {
    let Caller { agent, route, body, no_route, _place } = caller;
    match (route, service.carrier.parcels()) {
        (Route::Parcel(asked), Some(parcels)) => by_parcel(parcels, agent, asked, body).await,
        // Whatever the body is.
        (Route::Parcel(_) | Route::Unknown, _) => Err(no_route),
        (route, _) => by_text(service, agent, route, body, no_route).await,
    }
}

/// What only a carrier does, whichever generation the agent has signed in.
pub(super) async fn by_parcel(
    parcels: &dyn Parcels,
    agent: AgentName,
    asked: ParcelRoute,
    body: Vec<u8>,
) -> Answered {
    match asked {
        ParcelRoute::Upload => Answer::ok(&answer::Uploaded { file: parcels.upload(agent, body).await? }),
        ParcelRoute::Files(id) => Ok(Answer::zip(parcels.files(agent, id).await?)),
        ParcelRoute::Withdraw(id) => {
            parcels.withdraw(agent, id.clone()).await?;
            Answer::ok(&answer::Withdrawn { id, cancelled: true })
        }
    }
}

async fn by_text(
    service: &Service,
    agent: AgentName,
    route: Route,
    body: Vec<u8>,
    no_route: ApiError,
) -> Answered {
    let body = String::from_utf8(body).map_err(|_| ApiError::bad_request("the body is not UTF-8"))?;
    match route {
        Route::Register => {
            request::register(&body, &agent)?;
            Answer::ok(&service.register(agent).await?)
        }
        Route::Peers => Answer::ok(&service.peers().await?),
        Route::Send => {
            let request = request::Send::parse(&body, &agent)?;
            let accepted = service.send(agent, request).await?;
            let status = if accepted.duplicate { StatusCode::OK } else { StatusCode::CREATED };
            Answer::with(status, &accepted)
        }
        Route::Poll { since, limit } => Answer::ok(&service.poll(agent, since, limit).await?),
        Route::Pull => {
            let request = request::Pull::parse(&body, &agent)?;
            Answer::ok(&service.pull(agent, request).await?)
        }
        Route::Ack => Answer::ok(&service.ack(agent, request::Ack::parse(&body)?).await?),
        Route::Status => Answer::ok(&service.status(agent, request::status(&body)?).await?),
        Route::Recent => {
            let limit = request::recent(&body, &agent)?;
            Answer::ok(&service.recent(agent, limit).await?)
        }
        Route::Query => {
            let request = request::Query::parse(&body, &agent)?;
            Answer::ok(&service.query(agent, request).await?)
        }
        Route::Receipt { id, hexadecimal } => {
            let receipt = service.receipt(agent, (id, hexadecimal), &body, no_route).await?;
            Answer::with(StatusCode::CREATED, &receipt)
        }
        Route::About | Route::Health | Route::Metrics | Route::Parcel(_) | Route::Unknown => Err(no_route),
    }
}
