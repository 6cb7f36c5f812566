//! Reads the configuration again: agents with their secrets and lists, who may manage messages, and the contacts, agents
//! and policies of the `redsyn` section. What else has changed needs a restart, and then nothing is changed.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Live, Operator};
use crate::broker::Service;
use crate::broker::access::Access;
use crate::config::Config;
use crate::crypto::secret::Secret;

/// The broker that runs, and what it was started with.
#[derive(Debug)]
pub struct Reloadable {
    pub service: Arc<Service>,
    /// That of the whole machine.
    pub secret: Secret,
    pub config: Config,
}

impl Operator {
    /// # Errors
    /// When the file cannot be used; then everything stays as it was.
    pub async fn reload(&self) -> Result<Value, String> {
        let live = self.live.as_ref().ok_or("nothing runs: the next start reads the configuration anyway")?;
        let file = live.config_file.as_ref().ok_or("the configuration of this process is in no file")?;
        let config = Config::load(file).map_err(|error| format!("nothing was changed: {error}"))?;
        let waits = needs_restart(&live.reloadable.config, &config);
        if !waits.is_empty() {
            return Err(format!("{} changed, which needs a restart; nothing was changed", waits.join(", ")));
        }
        let Reloadable { service, secret, .. } = &live.reloadable;
        service.admit(Access::new(&config, secret));
        tracing::info!(agents = config.agents.0.len(), "access_reloaded");
        let configured = json!(config.agents.0.len());
        let mut answer = Map::from_iter([("configured".to_owned(), configured)]);
        answer.insert("warnings".to_owned(), json!(config.warnings));
        answer.extend(self.reload_bridge(live, &config).await);
        Ok(Value::Object(answer))
    }

    /// What is told of the `redsyn` section.
    async fn reload_bridge(&self, live: &Live, config: &Config) -> Map<String, Value> {
        let (Some(control), Some(redsyn)) = (&live.control, &config.redsyn) else { return Map::new() };
        let told = control.reload(redsyn).await;
        let names = control.names.get();
        tracing::info!(agents = names.agents().count(), contacts = names.contacts().count(), "reloaded");
        let agents = names
            .agents()
            .map(|(name, agent)| json!({"name": name.as_str(), "address": agent.address.to_string()}));
        let told = [
            ("agents", agents.collect()),
            ("contacts", json!(names.contacts().count())),
            ("announced", json!(told.is_ok())),
            ("why", json!(told.err().map(|error| error.to_string()))),
        ];
        told.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// The keys whose change only a start can follow.
fn needs_restart(before: &Config, after: &Config) -> Vec<&'static str> {
    let (old, new) = (&before.broker, &after.broker);
    let (was, is) = (&before.security, &after.security);
    let mut changed = vec![
        ("broker.host", old.host != new.host),
        ("broker.port", old.port != new.port),
        ("broker.secret", old.secret != new.secret),
        ("broker.dataDir", old.data_dir != new.data_dir),
        ("broker.storage", old.storage != new.storage),
        ("broker.messageTtlDays", old.message_ttl != new.message_ttl),
        ("broker.leaseSeconds", old.lease_seconds != new.lease_seconds),
        ("broker.maxAttempts", old.max_attempts != new.max_attempts),
        ("broker.rateLimitLoopback", old.rate.loopback != new.rate.loopback),
        ("broker.rateLimitRemote", old.rate.remote != new.rate.remote),
        ("broker.notifyFailedToSender", old.notify_failed_to_sender != new.notify_failed_to_sender),
        ("security.lockAfterFailures", was.lock_after_failures != is.lock_after_failures),
        ("security.lockMinutes", was.lock_for != is.lock_for),
        ("metrics.allow_remote", before.remote_metrics != after.remote_metrics),
        ("redsyn", before.redsyn.is_some() != after.redsyn.is_some()),
    ];
    if let (Some(old), Some(new)) = (&before.redsyn, &after.redsyn) {
        changed.extend([
            ("redsyn.relay", old.relay != new.relay),
            ("redsyn.token", old.token != new.token),
            ("redsyn.version", old.version != new.version),
            ("redsyn.scope", old.scope != new.scope),
            ("redsyn.encrypt", old.encrypt != new.encrypt),
            ("redsyn.receipts", old.receipts != new.receipts),
        ]);
    }
    changed.into_iter().filter_map(|(key, has_changed)| has_changed.then_some(key)).collect()
}
