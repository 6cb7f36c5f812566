//! What is only looked at. Ids, addresses and reasons; never bodies, tokens or private keys.

use serde_json::{Value, json};

use super::{Operator, store};
use crate::bridge::keys::NodeKeys;
use crate::bridge::link::LinkState;
use crate::config::redsyn::RelayMode;
use crate::crypto::sign::VerifyingKey;
use crate::domain::clock::Timestamp;
use crate::proto::dsh::names::AgentName;
use crate::proto::dsh::v1;
use crate::proto::dsh::v1::iso::iso;
use crate::store::bridge::{HeldIn, Traced, Waiting};

impl Operator {
    pub(super) async fn status(&self) -> Result<Value, String> {
        let now = self.clock.now();
        let depths = self.decisions.store.depths().await.map_err(store)?;
        let peers = self.local.peers(now.minus(v1::ONLINE)).await.map_err(store)?;
        let names = self.decisions.names.get();
        let mut agents: Vec<Value> = Vec::new();
        for peer in &peers {
            let address = peer.agent.agent().and_then(|name| Some(names.agent(&name)?.address.to_string()));
            agents.push(json!({"name": peer.agent.as_str(), "address": address,
                               "alive": self.live.is_some() && peer.online, "lastSeen": time(peer.last_seen)}));
        }
        for (name, agent) in names.agents() {
            if peers.iter().all(|peer| peer.agent.as_str() != name.as_str()) {
                agents.push(json!({"name": name.as_str(), "address": agent.address.to_string(),
                                   "alive": false, "lastSeen": null}));
            }
        }
        let broker = self.live.as_ref().map(|live| format!("http://{}", live.broker));
        Ok(json!({
            "version": env!("CARGO_PKG_VERSION"),
            "running": self.live.is_some(),
            "process": self.live.as_ref().map(|_| std::process::id()),
            "broker": {"address": broker, "storage": self.local.storage()},
            "relay": self.relay(),
            "outbox": depths.outbox,
            "held": {"inbound": depths.held_in, "outbound": depths.held_out},
            "agents": agents,
        }))
    }

    fn relay(&self) -> Value {
        let mode = match &self.relay {
            None => "none",
            Some(RelayMode::Off) => "off",
            Some(RelayMode::Embedded { .. }) => "embedded",
            Some(RelayMode::Remote(_)) => "remote",
        };
        let url = match (&self.live, &self.relay) {
            (Some(live), _) => live.relay_url.clone(),
            (None, Some(RelayMode::Remote(url))) => Some(url.to_string()),
            (None, _) => None,
        };
        let Some(control) = self.control() else {
            return json!({"mode": mode, "url": url, "connected": false});
        };
        let (state, since, why) = match control.link.state() {
            LinkState::Starting => ("starting", None, Some("the first calls are under way".to_owned())),
            LinkState::Up { since } => ("up", Some(since), None),
            LinkState::Down { since, why } => ("down", Some(since), Some(why)),
        };
        let connected = control.link.is_connected();
        let silent = "no call has succeeded in the last minute";
        let why = why.or_else(|| (!connected).then(|| silent.to_owned()));
        let agents = control.link.refused().into_iter();
        let agents = agents.map(|(agent, why)| json!({"agent": agent.as_str(), "why": why}));
        let calls = control.link.lacks.all().into_iter();
        let calls = calls.map(|(call, why)| json!({"call": call.as_str(), "why": why}));
        let date = control.link.lacks_date().map(|why| json!({"call": "Redsyn-Version", "why": why}));
        let lacks: Vec<Value> = agents.chain(calls).chain(date).collect();
        json!({
            "mode": mode, "url": url, "connected": connected, "state": state, "since": since.map(time),
            "why": why, "lastSuccess": control.link.last_success().map(time), "lacks": lacks,
        })
    }

    pub(super) async fn held(&self) -> Result<Value, String> {
        let inbound = self.decisions.store.held_in().await.map_err(store)?;
        let outbound = self.decisions.store.held_out().await.map_err(store)?;
        let names = self.decisions.names.get();
        // Accepting the key alone would not do for these.
        let must_confirm = |held: &HeldIn| {
            held.key.is_some() && names.agent(&held.agent).is_some_and(|agent| agent.policy.full_trust)
        };
        let inbound: Vec<Value> = inbound
            .into_iter()
            .map(|held| {
                json!({
                    "confirm": must_confirm(&held), "id": held.id, "agent": held.agent.as_str(), "person": held.person,
                    "from": held.envelope.get("from"), "kind": held.envelope.get("kind"), "why": held.reason,
                    "since": time(held.since), "fingerprint": held.key.as_deref().and_then(fingerprint),
                    "released": held.released,
                })
            })
            .collect();
        let outbound: Vec<Value> = outbound
            .into_iter()
            .map(|held| {
                json!({
                    "id": held.entry.id, "localId": held.entry.local_id, "agent": held.entry.agent.as_str(),
                    "person": held.entry.remote.person(), "to": held.entry.remote.to_string(),
                    "kind": held.entry.kind.as_str(), "why": held.reason,
                    "fingerprint": held.key.as_deref().and_then(fingerprint),
                    "expires": time(held.entry.expires_at),
                })
            })
            .collect();
        Ok(json!({"inbound": inbound, "outbound": outbound}))
    }

    pub(super) async fn outbox(&self) -> Result<Value, String> {
        let waiting = self.decisions.store.outbox().await.map_err(store)?;
        let now = self.clock.now();
        Ok(json!({"outbox": waiting.iter().map(|one| entry(one, now)).collect::<Vec<_>>()}))
    }

    pub(super) async fn trace(&self, id: String) -> Result<Value, String> {
        let agents: Vec<AgentName> =
            self.decisions.names.get().agents().map(|(name, _)| name.clone()).collect();
        let traced = self.decisions.store.trace(id.clone(), agents).await.map_err(store)?;
        if traced.is_empty() {
            return Err(format!("no message here is called {id:?}, neither locally nor at the relay"));
        }
        let now = self.clock.now();
        Ok(json!({"messages": traced.iter().map(|one| message(one, now)).collect::<Vec<_>>()}))
    }

    pub(super) async fn pins(&self) -> Result<Value, String> {
        let pins = self.decisions.store.pins().await.map_err(store)?;
        let held = self.held().await?;
        let pins: Vec<Value> = pins
            .into_iter()
            .map(|pin| {
                json!({
                    "person": pin.person, "fingerprint": fingerprint(&pin.key), "key": pin.key,
                    "verified": pin.verified, "since": time(pin.since), "unsigned": pin.may_be_unsigned,
                })
            })
            .collect();
        Ok(json!({"pins": pins, "held": held}))
    }

    pub(super) fn keys_show(&self) -> Result<Value, String> {
        let current = match self.control() {
            Some(control) => Some(public(&control.keys.current())),
            None => self.keys.current().map_err(|error| error.to_string())?.as_ref().map(public),
        };
        let Some(mut shown) = current else {
            return Err("this node has no keys yet: the first start makes them".to_owned());
        };
        let next = self.keys.next().map_err(|error| error.to_string())?;
        if let (Some(fields), Some(next)) = (shown.as_object_mut(), next) {
            fields.insert("next".into(), public(&next));
        }
        Ok(shown)
    }
}

/// What may be known of a node's keys.
pub(super) fn public(keys: &NodeKeys) -> Value {
    let key = keys.signing.verifying_key();
    json!({
        "fingerprint": key.fingerprint(),
        "signingKey": key.to_string(),
        "encKey": keys.enc.enc_key().to_string(),
    })
}

pub(super) fn time(at: Timestamp) -> String {
    iso(at.millis())
}

fn fingerprint(key: &str) -> Option<String> {
    key.parse().ok().map(|key: VerifyingKey| key.fingerprint())
}

fn entry(waiting: &Waiting, now: Timestamp) -> Value {
    let why = match (&waiting.held, &waiting.why) {
        (Some(held), _) => format!("held: {held}"),
        (None, _) if !waiting.is_next => "an earlier message of its conversation goes first".to_owned(),
        (None, Some(why)) => why.clone(),
        (None, None) => "it has not been tried yet".to_owned(),
    };
    let is_tried = waiting.held.is_none() && waiting.is_next;
    json!({
        "id": waiting.id, "localId": waiting.local_id, "agent": waiting.agent, "kind": waiting.kind,
        "to": waiting.to, "attempts": waiting.attempts, "why": why, "held": waiting.held.is_some(),
        "nextTry": is_tried.then(|| time(waiting.next_at.max(now))), "expires": time(waiting.expires_at),
    })
}

fn message(traced: &Traced, now: Timestamp) -> Value {
    let local = traced.local.as_ref().map(|local| {
        let stages = [
            ("stored", Some(local.stored)),
            ("held", local.stages.held),
            ("accepted", local.stages.accepted),
            ("leased", local.stages.leased),
            ("acked", local.stages.acked),
            ("answered", local.stages.answered),
            ("failed", local.stages.failed),
        ];
        let reached = stages.into_iter().filter_map(|(name, at)| Some((name.to_owned(), json!(time(at?)))));
        json!({
            "from": local.from, "to": local.to, "kind": local.kind, "status": local.status,
            "attempts": local.attempts, "stages": reached.collect::<serde_json::Map<_, _>>(),
        })
    });
    let crossed = traced.crossed.as_ref().map(|crossed| {
        json!({
            "id": crossed.id, "direction": if crossed.is_inbound { "in" } else { "out" },
            "kind": crossed.kind.as_str(), "agent": crossed.agent.as_str(), "address": crossed.address.to_string(),
            "remote": crossed.remote.to_string(), "thread": crossed.thread, "session": crossed.session,
        })
    });
    json!({
        "localId": traced.local_id,
        "local": local,
        "redsyn": crossed,
        "outbox": traced.waiting.as_ref().map(|waiting| entry(waiting, now)),
        "held": traced.held.as_ref().map(|(why, since)| json!({"why": why, "since": time(*since)})),
    })
}
