//! `/links` and `/orgs/{org}/links`.

use std::sync::Arc;

use axum::extract::State;
use serde_json::{Value, json};

use super::answer::{Answer, created_if, ok};
use super::extract::{Caller, JsonObject, Names};
use crate::relay::views::LinkJson;
use crate::relay::{RelayError, Service};

pub(super) async fn link(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    Names([org]): Names<1>,
    body: JsonObject,
) -> Result<Answer<LinkJson>, RelayError> {
    let (link, proposed) = service.link(&caller, &org, body.text("other")?).await?;
    Ok(created_if(proposed, link))
}

pub(super) async fn expose(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    Names([org, other]): Names<2>,
    JsonObject(body): JsonObject,
) -> Result<Answer<LinkJson>, RelayError> {
    Ok(ok(service.expose(&caller, (org, other), &body).await?))
}

pub(super) async fn set_rules(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    Names([org, other]): Names<2>,
    JsonObject(body): JsonObject,
) -> Result<Answer<LinkJson>, RelayError> {
    Ok(ok(service.set_link_rules(&caller, (org, other), &body).await?))
}

pub(super) async fn revoke(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    Names([org, other]): Names<2>,
) -> Result<Answer<LinkJson>, RelayError> {
    Ok(ok(service.revoke_link(&caller, (org, other)).await?))
}

pub(super) async fn list(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
) -> Result<Answer<Value>, RelayError> {
    Ok(ok(json!({"links": service.links(&caller).await?})))
}
