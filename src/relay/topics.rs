//! Topics: who listens to what. Publishing is sending an event, and lies with the messages.

use serde_json::{Value, json};

use super::RelayError;
use super::service::Service;
use crate::proto::redsyn::address::{AgentAddress, Destination, ShortAddress, TopicAddress};
use crate::store::relay::Caller;

/// An agent and a topic, both in full.
#[derive(Clone, Debug)]
pub struct Subscription {
    agent: AgentAddress,
    topic: TopicAddress,
}

impl Subscription {
    /// The agent comes with its full address; the topic may be short (A16).
    ///
    /// # Errors
    /// When one of them is none.
    pub fn parse(agent: &str, topic: &str) -> Result<Self, RelayError> {
        let agent: AgentAddress = agent
            .parse()
            .map_err(|_| RelayError::invalid("agent must be the full address of one of your agents"))?;
        let short: ShortAddress =
            topic.parse().map_err(|error| RelayError::invalid(format!("topic: {error}")))?;
        match short.resolve(&agent) {
            Destination::Topic(topic) => Ok(Self { agent, topic }),
            Destination::Agent(_) => Err(RelayError::invalid("topic must be topic:…")),
        }
    }

    fn to_json(&self) -> Value {
        json!({"agent": self.agent, "topic": self.topic})
    }
}

impl Service {
    /// `PUT /subscriptions`.
    ///
    /// # Errors
    /// When the agent is not the caller's, or its organisation may not listen to the topic.
    pub async fn subscribe(&self, caller: &Caller, to: Subscription) -> Result<Value, RelayError> {
        let answer = to.to_json();
        self.store.subscribe(caller.person, to.agent, to.topic, self.now()).await?;
        Ok(answer)
    }

    /// `POST /subscriptions/remove`.
    ///
    /// # Errors
    /// When the agent is not the caller's.
    pub async fn unsubscribe(&self, caller: &Caller, from: Subscription) -> Result<Value, RelayError> {
        let answer = from.to_json();
        self.store.unsubscribe(caller.person, from.agent, from.topic).await?;
        Ok(answer)
    }

    /// `GET /topics`.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn topics(&self, caller: &Caller) -> Result<Value, RelayError> {
        let topics = self.store.topics_of(caller.person).await?;
        let topics: Vec<Value> = topics
            .into_iter()
            .map(|topic| json!({"topic": topic.topic, "subscribers": topic.listeners}))
            .collect();
        Ok(json!({"topics": topics}))
    }
}
