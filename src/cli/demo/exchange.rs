//! The exchange itself, hop by hop: each is waited for, checked, and told.

use std::time::Duration;

use serde_json::{Value, json};

use super::stage::{Side, Stage, step};
use super::story::Story;
use crate::bridge::events::Event;
use crate::crypto::base64url;
use crate::domain::clock::{Clock, SystemClock};
use crate::proto::redsyn::ids::{Kind, MessageId};
use crate::runtime::error::RunError;

/// A hop that takes longer than this has failed.
const HOP_LIMIT: Duration = Duration::from_secs(20);

const ANSWER: &str = "Yes: paid in full.";

pub(super) async fn exchange(stage: &Stage, story: &Story, text: &str) -> Result<(), RunError> {
    let mut close = stage.close.lock().await;
    let mut billing = stage.billing.lock().await;
    for side in [&*close, &*billing] {
        side.client.post("/register", &json!({"agent": side.agent})).await.map_err(step)?;
    }

    let request = json!({"to": billing.address, "kind": "request", "body": {"text": text}});
    let sent = close.client.post("/messages", &request).await.map_err(step)?;
    let id = message_id(&sent)?;
    story.hop("close", &format!("asks {}: {text:?}", billing.address));
    story.hop("acme", &format!("201: stored with its outbox row, id {id}"));
    cross(story, &mut close, &mut billing, &id, Kind::Request, &id, text).await?;

    let pulled = billing.client.post("/v1/pull", &json!({})).await.map_err(step)?;
    let message = only_message(&pulled)?;
    check(message.pointer("/body/text").and_then(Value::as_str) == Some(text), "billing read another text")?;
    check(message.pointer("/redsyn/verified") == Some(&json!(true)), "the request was not verified")?;
    check(message.pointer("/redsyn/encrypted") == Some(&json!(true)), "the request was not sealed")?;
    story.hop("billing", &format!("pulls it and reads {text:?}"));

    let reply = json!({"to": message.get("from"), "kind": "reply", "parentId": message.get("id"),
                       "body": {"text": ANSWER}});
    let sent = billing.client.post("/messages", &reply).await.map_err(step)?;
    let reply_id = message_id(&sent)?;
    let ack =
        json!({"messageId": message.get("id"), "leaseId": message.get("leaseId"), "outcome": "completed"});
    billing.client.post("/v1/ack", &ack).await.map_err(step)?;
    story.hop("billing", &format!("answers {ANSWER:?} and acks the request"));
    cross(story, &mut billing, &mut close, &reply_id, Kind::Reply, &id, ANSWER).await?;

    let pulled = close.client.post("/v1/pull", &json!({})).await.map_err(step)?;
    let answer = only_message(&pulled)?;
    check(answer.pointer("/body/text").and_then(Value::as_str) == Some(ANSWER), "close read another answer")?;
    check(
        answer.get("parentId").and_then(Value::as_str) == Some(id.as_str()),
        "the answer names another request",
    )?;
    check(answer.pointer("/redsyn/verified") == Some(&json!(true)), "the answer was not verified")?;
    story.hop("close", &format!("pulls the answer to {id}: {ANSWER:?}"));
    let ack =
        json!({"messageId": answer.get("id"), "leaseId": answer.get("leaseId"), "outcome": "completed"});
    close.client.post("/v1/ack", &ack).await.map_err(step)?;
    Ok(())
}

/// Follows one message of `thread` from the outbox of `from` to the store of `to`.
async fn cross(
    story: &Story,
    from: &mut Side,
    to: &mut Side,
    id: &MessageId,
    kind: Kind,
    thread: &MessageId,
    text: &str,
) -> Result<(), RunError> {
    let accepted = wait_for(from, |event| match event {
        Event::Accepted { id: accepted, to, sealed, .. } if accepted == id => Some((to.clone(), *sealed)),
        _ => None,
    });
    let (recipient, sealed) = accepted.await?;
    check(sealed, "the message went out unsealed")?;
    story.hop(from.org, &format!("{kind} sealed and signed; the relay answers 201 for {recipient}"));
    let seen = what_the_relay_sees(from, id, thread, text).await?;
    story.hop("relay", &format!("sees from, to, times and {seen} of ciphertext; not the text"));
    let checked = wait_for(to, |event| match event {
        Event::Checked { id: checked, from, fingerprint, .. } if checked == id => {
            Some((from.clone(), fingerprint.clone()))
        }
        _ => None,
    });
    let (signer, fingerprint) = checked.await?;
    let fingerprint = fingerprint.ok_or_else(|| step("the message was not signed"))?;
    story.hop(to.org, &format!("took it; signed by {}: {fingerprint}; seal opened", signer.person()));
    wait_for(to, |event| {
        matches!(event, Event::Delivered { id: delivered, .. } if delivered == id).then_some(())
    })
    .await?;
    story.hop(to.org, &format!("{kind} stored for {}", to.agent));
    wait_for(to, |event| matches!(event, Event::Acked { ids } if ids.contains(id)).then_some(())).await?;
    story.hop(to.org, "acked to the relay");
    Ok(())
}

/// The size of the ciphertext, after making sure that nothing the relay holds shows the text.
async fn what_the_relay_sees(
    side: &Side,
    id: &MessageId,
    thread: &MessageId,
    text: &str,
) -> Result<String, RunError> {
    let thread = side.relay.get(&format!("/threads/{thread}")).await.map_err(step)?;
    let items =
        thread.get("items").and_then(Value::as_array).ok_or_else(|| step("the relay shows no thread"))?;
    let item = items
        .iter()
        .find(|item| item.get("id").and_then(Value::as_str) == Some(id.as_str()))
        .ok_or_else(|| step("the relay does not show the message"))?;
    let ciphertext =
        item.pointer("/body/enc/ct").and_then(Value::as_str).ok_or_else(|| step("it is not sealed"))?;
    let fields = item.get("body").and_then(Value::as_object).map_or(0, serde_json::Map::len);
    check(fields == 2 && item.get("refs") == Some(&json!([])), "something travels beside the seal")?;
    let bytes = base64url::decode(ciphertext).map_err(step)?;
    // Four letters or more do not turn up in random bytes by chance.
    let shows = text.len() >= 4 && bytes.windows(text.len()).any(|window| window == text.as_bytes());
    check(!shows, "the relay can read the text")?;
    Ok(format!("{} bytes", bytes.len()))
}

async fn wait_for<T>(side: &mut Side, wanted: impl Fn(&Event) -> Option<T>) -> Result<T, RunError> {
    let deadline = SystemClock.sleep(HOP_LIMIT);
    tokio::pin!(deadline);
    loop {
        let event = tokio::select! {
            event = side.events.recv() => event.map_err(step)?,
            () = &mut deadline => return Err(step(format!("nothing happened at {} for {HOP_LIMIT:?}", side.org))),
        };
        if let Some(found) = wanted(&event) {
            return Ok(found);
        }
        if let Event::Failed { why, .. }
        | Event::Refused { why, .. }
        | Event::HeldOut { why, .. }
        | Event::HeldIn { why, .. } = event
        {
            return Err(step(why));
        }
    }
}

fn message_id(sent: &Value) -> Result<MessageId, RunError> {
    let id = sent.get("id").and_then(Value::as_str).ok_or_else(|| step("the broker gave no id"))?;
    id.parse().map_err(step)
}

fn only_message(pulled: &Value) -> Result<Value, RunError> {
    match pulled.get("messages").and_then(Value::as_array).map(Vec::as_slice) {
        Some([message]) => Ok(message.clone()),
        other => Err(step(format!("expected one message, found {}", other.map_or(0, <[Value]>::len)))),
    }
}

fn check(held: bool, otherwise: &str) -> Result<(), RunError> {
    if held { Ok(()) } else { Err(step(otherwise)) }
}
