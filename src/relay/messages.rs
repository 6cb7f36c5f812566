//! Sending an envelope, and what can be asked of a message afterwards.

use std::net::IpAddr;
use std::sync::Arc;

use serde_json::Value;

use super::RelayError;
use super::metrics::Counter;
use super::service::Service;
use super::views::ThreadMessageJson;
use crate::crypto::sign::VerifyingKey;
use crate::proto::redsyn::address::{Destination, Session, ShortAddress};
use crate::proto::redsyn::envelope::{EnvelopeError, SentEnvelope};
use crate::proto::redsyn::ids::{Kind, MessageId};
use crate::proto::redsyn::signed::check_arrival;
use crate::store::relay::{Caller, Draft, Route, Sender, Sent, Signed};

/// The most bytes of `refs`. The spec names no limit; what only points elsewhere needs no more than a body.
const REFS_LIMIT: usize = 64 * 1024;
/// The longest thread: a thread's first name is the id of a message.
const THREAD_MAX: usize = 200;

impl Service {
    /// `POST /messages`.
    ///
    /// # Errors
    /// The first rule the envelope breaks.
    pub async fn send(
        self: &Arc<Self>,
        caller: &Caller,
        ip: Option<IpAddr>,
        envelope: Value,
    ) -> Result<Sent, RelayError> {
        let id = envelope.get("id").and_then(Value::as_str).and_then(|id| id.parse::<MessageId>().ok());
        let draft = match self.draft(caller, ip, envelope) {
            Ok(draft) => draft,
            // A retry is answered with the first message whatever it says now (A14).
            Err(error) => return self.sent_before(caller, id, error).await,
        };
        let (store, now) = (Arc::clone(&self.store), self.now());
        let sent = self.settle(async move { store.send(draft, now).await }).await?;
        let (id, duplicate) = (&sent.receipt.id, sent.duplicate);
        let counter = if duplicate { Counter::MessagesDuplicate } else { Counter::MessagesAccepted };
        self.metrics.add(counter, 1);
        tracing::info!(id = ?id.as_str(), to = sent.receipt.to, node = %caller.node, duplicate, "relay_message_accepted");
        Ok(sent)
    }

    async fn sent_before(
        &self,
        caller: &Caller,
        id: Option<MessageId>,
        error: RelayError,
    ) -> Result<Sent, RelayError> {
        let Some(id) = id else { return Err(error) };
        match self.store.sent_before(caller.person, id).await? {
            Some(receipt) => Ok(Sent { receipt, duplicate: true }),
            None => Err(error),
        }
    }

    /// Checks everything about an envelope that needs no store.
    fn draft(&self, caller: &Caller, ip: Option<IpAddr>, envelope: Value) -> Result<Draft, RelayError> {
        let envelope = SentEnvelope::parse(envelope).map_err(refused_shape)?;
        if envelope.from.session == Some(Session::New) {
            return Err(RelayError::invalid("from cannot name a session that does not exist yet"));
        }
        if envelope.thread.as_ref().is_some_and(|thread| thread.chars().count() > THREAD_MAX) {
            return Err(RelayError::invalid(format!("thread has at most {THREAD_MAX} characters")));
        }
        let refs = Value::Array(envelope.refs.clone()).to_string();
        if refs.len() > REFS_LIMIT {
            return Err(RelayError::TooLarge("refs are over 64 KB".into()));
        }
        let signature = match &envelope.sig {
            None => Ok(None),
            Some(sig) => self.signature(caller, &envelope, sig).map(Some),
        };
        Ok(Draft {
            sender: Sender { person: caller.person, ip },
            route: route(&envelope)?,
            id: match &envelope.id {
                Some(id) => id.clone(),
                None => self.new_message_id()?,
            },
            kind: envelope.kind,
            thread: envelope.thread,
            ts: envelope.ts,
            ttl_secs: envelope.ttl,
            encrypted: envelope.body.is_encrypted(),
            body: envelope.body.into_value().to_string(),
            refs,
            error: envelope.error,
            zip: envelope.zip,
            from: envelope.from,
            signature,
        })
    }

    fn signature(&self, caller: &Caller, envelope: &SentEnvelope, sig: &Value) -> Result<Signed, String> {
        let registered: Option<VerifyingKey> = caller.public_key.as_deref().and_then(|key| key.parse().ok());
        let payload = check_arrival(envelope.raw(), registered.as_ref(), self.now().secs())
            .map_err(|error| error.to_string())?;
        let text = |name| sig.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Signed {
            key: text("key"),
            value: text("value"),
            payload: payload.into_string(),
            node: caller.node_name.clone(),
            fingerprint: registered.map(|key| key.fingerprint()).unwrap_or_default(),
        })
    }

    fn new_message_id(&self) -> Result<MessageId, RelayError> {
        let id = format!("m{}", self.random.hex_at(self.now().millis()));
        id.parse().map_err(|_| RelayError::invalid("an id is missing"))
    }

    /// `POST /messages/{id}/cancel`.
    ///
    /// # Errors
    /// When it is not the caller's request, or somebody took it.
    pub async fn cancel(self: &Arc<Self>, caller: &Caller, id: MessageId) -> Result<(), RelayError> {
        let (store, now, person) = (Arc::clone(&self.store), self.now(), caller.person);
        self.settle(async move { store.cancel(person, id, now).await }).await
    }

    /// `GET /messages/{id}/files`: the zip.
    ///
    /// # Errors
    /// When the caller may not see the message, or its files are gone.
    pub async fn files(&self, caller: &Caller, id: MessageId) -> Result<Vec<u8>, RelayError> {
        Ok(self.store.files(caller.person, id).await?)
    }

    /// `GET /threads/{id}`: as far as it concerns the caller.
    ///
    /// # Errors
    /// When nothing of it does.
    pub async fn thread(
        &self,
        caller: &Caller,
        thread: String,
    ) -> Result<Vec<ThreadMessageJson>, RelayError> {
        let messages = self.store.thread(caller.person, thread).await?;
        Ok(messages.into_iter().map(ThreadMessageJson::new).collect())
    }
}

fn refused_shape(error: EnvelopeError) -> RelayError {
    match error {
        EnvelopeError::TooLarge(text) => RelayError::TooLarge(text),
        EnvelopeError::Version | EnvelopeError::Shape(_) => RelayError::invalid(error.to_string()),
    }
}

fn route(envelope: &SentEnvelope) -> Result<Route, RelayError> {
    if let (Kind::Progress | Kind::Reply, Some(request)) = (envelope.kind, &envelope.reply_to) {
        return Ok(Route::Answer { to_request: request.clone() });
    }
    let to = envelope.to.as_deref().unwrap_or_default();
    let to: ShortAddress = to.parse().map_err(|error| RelayError::invalid(format!("to: {error}")))?;
    match (envelope.kind, to.resolve(&envelope.from.agent)) {
        (Kind::Request, Destination::Agent(to)) => Ok(Route::Request { to }),
        (Kind::Request, Destination::Topic(_)) => {
            Err(RelayError::invalid("a request goes to an agent, not to a topic"))
        }
        (Kind::Event, Destination::Agent(_)) => {
            Err(RelayError::invalid("an event goes to a topic, not to an agent"))
        }
        (Kind::Event, Destination::Topic(topic)) => Ok(Route::Event { topic }),
        (Kind::Progress | Kind::Reply, _) => Err(RelayError::invalid("an answer needs reply_to")),
    }
}
