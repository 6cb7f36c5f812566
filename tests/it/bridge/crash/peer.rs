//! One side of an exchange: a real bridge behind a proxy of its own, and its agent, in either generation.

use std::time::Duration;

use redsyn_bridge::domain::delivery::Status;
use serde_json::{Value, json};

use super::super::v2_process;
use super::Moment;
use crate::support::bridge::BridgeProcess;
use crate::support::process::run;
use crate::support::proxy::Proxy;
use crate::support::v2::V2Agent;
use crate::support::world::{Member, World, base};

/// A hang is a failure too.
pub const HANG: Duration = Duration::from_secs(60);

/// The generation of the local protocol that an agent speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    V1,
    V2,
}

/// What an agent sends.
#[derive(Clone, Debug, Default)]
pub struct Letter {
    pub kind: &'static str,
    pub to: String,
    pub text: String,
    /// The message that it answers.
    pub parent: Option<String>,
    /// The first message of its conversation.
    pub root: Option<String>,
    /// What `redsyn` says of it, in the first generation.
    pub redsyn: Option<Value>,
}

/// What an agent was given, as far as both generations tell it.
#[derive(Clone, Debug)]
pub struct Mail {
    pub id: String,
    pub kind: String,
    pub parent: Option<String>,
    pub text: String,
    pub from: String,
    pub redsyn: Value,
    lease: Value,
}

#[derive(Debug)]
pub struct Peer {
    pub bridge: BridgeProcess,
    pub proxy: Proxy,
    pub speaks: Speaks,
    sent: u32,
    /// The ids of all it was given, in that order.
    given: Vec<String>,
}

impl Peer {
    pub async fn start(
        world: &World,
        storage: &str,
        member: &Member,
        other: &Member,
        speaks: Speaks,
    ) -> Self {
        let proxy = Proxy::start(world.relay.address()).await;
        let folder = world.folder.path().join(member.org);
        let bridge = BridgeProcess::start_on(storage, &folder, member, other, &base(proxy.address));
        Self { bridge, proxy, speaks, sent: 0, given: Vec::new() }
    }

    /// Brings the agent to life, and says which generation it takes its mail in.
    pub async fn join(&self) {
        assert!(self.pull(0).await.is_none());
    }

    /// Starts the bridge again that was killed.
    pub async fn restart(&mut self) {
        self.bridge.restart();
        // A pull would bring an agent to life as well; this one takes nothing.
        self.bridge.register().await;
    }

    async fn v2(&self, path: &str, body: &Value) -> Value {
        v2_process::post(&self.bridge, self.bridge.agent, path, body).await
    }

    pub async fn send(&mut self, letter: &Letter) -> String {
        self.sent += 1;
        match self.speaks {
            Speaks::V1 => {
                let mut envelope =
                    json!({"to": letter.to, "kind": letter.kind, "body": {"text": letter.text}});
                for (name, value) in [("parentId", &letter.parent), ("rootId", &letter.root)] {
                    if let Some(value) = value {
                        envelope[name] = json!(value);
                    }
                }
                if let Some(redsyn) = &letter.redsyn {
                    envelope["redsyn"] = redsyn.clone();
                }
                self.bridge.send(&envelope).await
            }
            Speaks::V2 => {
                let mut message = json!({"origin": self.bridge.agent, "target": letter.to, "kind": letter.kind,
                                         "body": letter.text, "idempotency_key": format!("k{}", self.sent)});
                for (name, value) in [("parent_id", &letter.parent), ("root_id", &letter.root)] {
                    if let Some(value) = value {
                        message[name] = json!(value);
                    }
                }
                let created = self.v2("/v1/messages", &message).await;
                assert_eq!(created["created"], json!(true), "{created}");
                created["message_id"].as_str().unwrap().to_owned()
            }
        }
    }

    /// One message, if one comes within so many seconds.
    async fn pull(&self, wait: u32) -> Option<Mail> {
        let mail = match self.speaks {
            Speaks::V1 => {
                let body = json!({"limit": 1, "waitSeconds": wait});
                let pulled = self.bridge.client.post("/v1/pull", &body).await.unwrap();
                let message = pulled["messages"].as_array().unwrap().first()?.clone();
                Mail {
                    id: word(&message["id"]),
                    kind: word(&message["kind"]),
                    parent: message["parentId"].as_str().map(str::to_owned),
                    text: message["body"]["text"]
                        .as_str()
                        .map_or_else(|| message["body"].to_string(), str::to_owned),
                    from: word(&message["from"]),
                    redsyn: message["redsyn"].clone(),
                    lease: message["leaseId"].clone(),
                }
            }
            Speaks::V2 => {
                let pulled = self.v2("/v1/pull", &json!({"limit": 1, "wait_seconds": wait})).await;
                let message = pulled["messages"].as_array().unwrap().first()?.clone();
                Mail {
                    id: word(&message["message_id"]),
                    kind: word(&message["kind"]),
                    parent: message["parent_id"].as_str().map(str::to_owned),
                    text: word(&message["body"]),
                    from: word(&message["origin"]),
                    redsyn: message["redsyn"].clone(),
                    lease: message["lease_token"].clone(),
                }
            }
        };
        Some(mail)
    }

    /// The next message.
    pub async fn take(&mut self) -> Mail {
        let next = async {
            loop {
                if let Some(mail) = self.pull(20).await {
                    return mail;
                }
            }
        };
        let mail = tokio::time::timeout(HANG, next).await.expect("no message came");
        if self.given.last() != Some(&mail.id) {
            self.given.push(mail.id.clone());
        }
        mail
    }

    /// Says that the message is dealt with, or gives it back.
    pub async fn ack(&self, mail: &Mail, outcome: &str) {
        match self.speaks {
            Speaks::V1 => {
                let ack = json!({"messageId": mail.id, "leaseId": mail.lease, "outcome": outcome});
                self.bridge.client.post("/v1/ack", &ack).await.unwrap();
            }
            Speaks::V2 => {
                let ack = json!({"message_id": mail.id, "lease_token": mail.lease, "outcome": outcome});
                self.v2("/v1/ack", &ack).await;
            }
        }
    }

    /// Takes a request back, unless the bridge is killed meanwhile.
    pub fn cancel(&self, id: &str) -> impl Future<Output = bool> + use<> {
        let (speaks, v1) = (self.speaks, self.bridge.client.clone());
        let v2 = V2Agent::new(&self.bridge.base(), "test-secret", self.bridge.agent);
        let id = id.to_owned();
        async move {
            match speaks {
                Speaks::V1 => v1.post(&format!("/bridge/v1/messages/{id}/cancel"), &json!({})).await.is_ok(),
                Speaks::V2 => {
                    let canceled = v2.post("/v1/admin/cancel", &json!({"message_id": id})).await;
                    canceled.is_ok_and(|(status, _)| status == 200)
                }
            }
        }
    }

    /// What has become of a message that the agent sent, in the words of the first generation.
    pub async fn status(&self, id: &str) -> String {
        match self.speaks {
            Speaks::V1 => word(&self.bridge.status(id).await["status"]),
            Speaks::V2 => {
                let told = self.v2("/v1/status", &json!({"message_ids": [id]})).await;
                match told["messages"][0]["status"].as_str().unwrap() {
                    "completed" => Status::Done.as_str().to_owned(),
                    other => other.to_owned(),
                }
            }
        }
    }

    /// The message has left for the relay and come to an answer.
    pub async fn left(&self, id: &str) {
        let gone = async {
            while self.status(id).await == "queued" {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(HANG, gone).await.expect("it stays in the outbox");
    }

    /// Runs a command on the node, running or not.
    pub async fn command(&self, arguments: &'static [&'static str]) {
        let folder = self.bridge.folder.clone();
        let output = tokio::task::spawn_blocking(move || run(&folder, arguments)).await.unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    pub fn stop_at(&self, moment: Moment) {
        if let Some(stop) = moment.stop() {
            self.proxy.stop_at(stop);
        }
    }

    pub async fn stopped(&self) {
        tokio::time::timeout(HANG, self.proxy.stopped()).await.expect("the moment never came");
    }

    /// Nothing waits for the agent, and it was never sent anything but what it was given, in that order.
    pub async fn has_no_more(&self) {
        let more = self.pull(0).await;
        assert!(more.is_none(), "{more:#?}");
        let agent = json!(self.bridge.agent);
        let all = match self.speaks {
            Speaks::V1 => self.bridge.recent().await,
            Speaks::V2 => {
                let found = self.v2("/v1/messages/query", &json!({"limit": 100})).await;
                found["messages"].as_array().unwrap().clone()
            }
        };
        let (to, id) = match self.speaks {
            Speaks::V1 => ("to", "id"),
            Speaks::V2 => ("target", "message_id"),
        };
        let received = all.iter().filter(|message| message[to] == agent);
        let mut received: Vec<String> = received.map(|message| word(&message[id])).collect();
        received.reverse();
        assert_eq!(received, self.given);
    }
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no word: {value}")).to_owned()
}
