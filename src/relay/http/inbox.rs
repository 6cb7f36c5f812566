//! `/inbox`.

use std::future::Future;
use std::sync::Arc;

use axum::extract::State;
use serde::Serialize;
use serde_json::{Value, json};

use super::answer::{Answer, ok};
use super::extract::{AgentPath, Caller, JsonObject, Params};
use crate::proto::redsyn::ids::MessageId;
use crate::relay::inbox::InboxQuery;
use crate::relay::views::DeliveredJson;
use crate::relay::{RelayError, Service};

#[derive(Debug, Serialize)]
pub(super) struct Items {
    items: Vec<DeliveredJson>,
}

/// A held call keeps in memory what it captures, so what was read from the request is let go of first.
pub(super) fn take(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    AgentPath(agent): AgentPath,
    params: Params,
) -> impl Future<Output = Result<Answer<Items>, RelayError>> + Send {
    let taking = query(&params).map(|query| Box::pin(service.take(&caller, agent, &query)));
    async move { Ok(ok(Items { items: taking?.await? })) }
}

fn query(params: &Params) -> Result<InboxQuery, RelayError> {
    let default = InboxQuery::default();
    let lease_secs = params.secs("lease")?.unwrap_or(default.lease_secs);
    if lease_secs == 0 {
        return Err(RelayError::Invalid("lease must be at least a second".into()));
    }
    let reply_to = params.get("reply_to").map(str::parse).transpose();
    Ok(InboxQuery {
        wait_secs: params.secs("wait")?.unwrap_or(default.wait_secs),
        lease_secs,
        reply_to: reply_to.map_err(|_| RelayError::Invalid("reply_to must be the id of a request".into()))?,
        peek: params.flag("peek"),
    })
}

pub(super) async fn confirm(
    State(service): State<Arc<Service>>,
    Caller(caller): Caller,
    AgentPath(agent): AgentPath,
    JsonObject(body): JsonObject,
) -> Result<Answer<Value>, RelayError> {
    let confirmed = service.confirm(&caller, agent, ids(&body)?).await?;
    Ok(ok(json!({"acked": confirmed})))
}

/// A text that can be no id names no message, and is passed over like any unknown id.
fn ids(body: &serde_json::Map<String, Value>) -> Result<Vec<MessageId>, RelayError> {
    let wrong = || RelayError::Invalid("ids must be a list of texts".into());
    let ids = body.get("ids").and_then(Value::as_array).ok_or_else(wrong)?;
    let texts = ids.iter().map(|id| id.as_str().ok_or_else(wrong)).collect::<Result<Vec<_>, _>>()?;
    Ok(texts.into_iter().filter_map(|text| text.parse().ok()).collect())
}
