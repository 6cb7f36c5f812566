//! One handler per route: parse the body, ask the service, choose the status.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;

use super::answer::Answer;
use super::call::{Call, Caller};
use super::v2;
use crate::broker::service::Service;
use crate::proto::dsh::error::ApiError;
use crate::proto::dsh::v1::request;
use crate::proto::dsh::v1::route::Route;

type Answered = Result<Answer, ApiError>;

/// Every request. The routes are matched by hand, since the reference authenticates before it looks for one.
pub(super) async fn handle(State(service): State<Arc<Service>>, call: Result<Call, Answer>) -> Answer {
    let answered = match call {
        Ok(Call::About) => Answer::ok(&service.about()),
        Ok(Call::Health) => health(&service).await,
        Ok(Call::By(caller)) => by_route(&service, caller).await,
        Ok(Call::ByV2(caller)) => v2::by_route(&service, caller).await,
        Err(refusal) => Ok(refusal),
    };
    answered.unwrap_or_else(Answer::from)
}

async fn health(service: &Service) -> Answered {
    Answer::ok(&service.health().await?)
}

async fn by_route(service: &Service, caller: Caller) -> Answered {
    let Caller { agent, route, body, no_route } = caller;
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
        Route::About | Route::Health | Route::Unknown => Err(no_route),
    }
}
