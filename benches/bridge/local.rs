//! A local agent: sends, pulls, answers and confirms at its own bridge.

use serde_json::{Value, json};

use crate::TEXT;
use crate::agent::Caller;
use crate::stage::Side;

pub struct Local {
    caller: Caller,
    agent: &'static str,
    remote: String,
}

impl Local {
    pub async fn connect(side: &Side) -> Self {
        let caller = Caller::connect(side.broker).await;
        Self { caller, agent: side.agent, remote: side.remote.clone() }
    }

    /// From now on the bridge takes this agent's mail.
    pub async fn register(&mut self) {
        self.call("/register", &json!({})).await;
    }

    /// Sends a request; its id.
    pub async fn ask(&mut self) -> String {
        let body = json!({"to": self.remote, "kind": "request", "body": {"text": "x".repeat(TEXT)}});
        let sent = self.call("/messages", &body).await;
        sent["id"].as_str().unwrap().to_owned()
    }

    /// What has come, once something has.
    pub async fn pull(&mut self) -> Vec<Value> {
        loop {
            let mut pulled = self.call("/v1/pull", &json!({"limit": 50, "waitSeconds": 25})).await;
            if let Value::Array(messages) = pulled["messages"].take()
                && !messages.is_empty()
            {
                return messages;
            }
        }
    }

    pub async fn answer(&mut self, request: &Value) {
        let body = json!({"to": request["from"], "kind": "reply", "parentId": request["id"],
                          "body": {"text": "y".repeat(TEXT)}});
        self.call("/messages", &body).await;
    }

    pub async fn confirm(&mut self, message: &Value) {
        let body = json!({"messageId": message["id"], "leaseId": message["leaseId"], "outcome": "completed"});
        self.call("/v1/ack", &body).await;
    }

    async fn call(&mut self, path: &str, body: &Value) -> Value {
        let answer = self.caller.call("POST", path, self.agent, &body.to_string()).await;
        serde_json::from_slice(&answer).unwrap()
    }
}
