//! `/orgs`: organisations, teams, members.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::answer::{Answer, ok};
use super::extract::{Caller, JsonObject, Names};
use crate::relay::{RelayError, Service};

pub(super) async fn create(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    body: JsonObject,
) -> Result<Answer<Value>, RelayError> {
    let (org, me) = service.create_org(&caller, body.text("handle")?, body.text("me")?).await?;
    Ok(Answer(StatusCode::CREATED, json!({"handle": org, "me": me, "team": "general"})))
}

pub(super) async fn create_team(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    Names([org]): Names<1>,
    body: JsonObject,
) -> Result<Answer<Value>, RelayError> {
    let team = service.create_team(&caller, &org, body.text("handle")?).await?;
    Ok(Answer(StatusCode::CREATED, json!({"org": org, "handle": team})))
}

pub(super) async fn add_member(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    Names([org, team]): Names<2>,
    body: JsonObject,
) -> Result<Answer<Value>, RelayError> {
    let who = service.add_team_member(&caller, &org, &team, body.text("who")?).await?;
    Ok(ok(json!({"org": org, "team": team, "who": who})))
}

pub(super) async fn invite(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    Names([org]): Names<1>,
    body: JsonObject,
) -> Result<Answer<Value>, RelayError> {
    let (email, team) = service.invite(&caller, &org, body.text("email")?, body.text("team")?).await?;
    Ok(Answer(StatusCode::CREATED, json!({"org": org, "email": email.as_str(), "team": team})))
}

pub(super) async fn join(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    Names([org]): Names<1>,
    body: JsonObject,
) -> Result<Answer<Value>, RelayError> {
    let (me, team) = service.join(&caller, &org, body.text("me")?).await?;
    Ok(ok(json!({"org": org, "me": me, "team": team})))
}

pub(super) async fn usage(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    Names([org]): Names<1>,
) -> Result<Answer<Value>, RelayError> {
    Ok(ok(service.usage(&caller, &org).await?))
}
