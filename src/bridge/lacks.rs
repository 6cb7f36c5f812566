//! What the relay does not offer. It is used as far as it goes, and `status` tells what is missing and what that means.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::link::Link;

/// A call that a relay may not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    RegisterKey,
    AgentKey,
    Subscriptions,
    Directory,
    Me,
}

impl Call {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RegisterKey => "PUT /nodes/key",
            Self::AgentKey => "GET /agents/…/key",
            Self::Subscriptions => "PUT /subscriptions",
            Self::Directory => "GET /directory",
            Self::Me => "GET /me",
        }
    }

    /// What a node goes without.
    const fn meaning(self) -> &'static str {
        match self {
            Self::RegisterKey => "nobody can seal for this node, and the relay checks no signature",
            Self::AgentKey => "mail goes in the open, or not at all where `encrypt` is `require`",
            Self::Subscriptions => "no events come from the configured topics",
            Self::Directory => "nobody knows which remote agents are online",
            Self::Me => "the token can be checked only by using it",
        }
    }
}

/// The calls that were found missing.
#[derive(Debug, Default)]
pub struct Lacks(Mutex<BTreeMap<Call, String>>);

impl Lacks {
    /// The relay has no such call; `why` in its words.
    pub(super) fn note(&self, call: Call, why: &dyn std::fmt::Display) {
        let told = format!("{}: {why}", call.meaning());
        if self.lock().insert(call, told).is_none() {
            tracing::warn!(call = call.as_str(), %why, "relay_lacks");
        }
    }

    /// It has.
    pub(super) fn has(&self, call: Call) {
        self.lock().remove(&call);
    }

    pub fn all(&self) -> Vec<(Call, String)> {
        self.lock().iter().map(|(call, why)| (*call, why.clone())).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Call, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link {
    /// A relay gives the same answer for the key of an agent that has none and where it has no keys at all. The key of
    /// an agent of ours, which has been announced, tells which it is; asked once after each introduction.
    pub(super) async fn found_no_key(&self) {
        if !self.has_to_look_for_keys() {
            return;
        }
        let Some(own) = self.addresses().into_iter().next() else { return };
        match self.client().agent_key(&own).await {
            Ok(Some(_)) => self.lacks.has(Call::AgentKey),
            Ok(None) => self.lacks.note(Call::AgentKey, &format!("it has none even for {own}")),
            // The next introduction asks again.
            Err(error) => tracing::debug!(%error, "own_key_unknown"),
        }
    }
}
