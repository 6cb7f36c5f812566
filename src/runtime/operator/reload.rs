//! Reads the configuration again: contacts, agents and policies of the `redsyn` section. What else has changed waits
//! for the next start.

use serde_json::{Value, json};

use super::Operator;
use crate::config::Config;

impl Operator {
    /// # Errors
    /// When the file cannot be used; then everything stays as it was.
    pub async fn reload(&self) -> Result<Value, String> {
        let live = self.live.as_ref().ok_or("nothing runs: the next start reads the configuration anyway")?;
        let file = live.config_file.as_ref().ok_or("the configuration of this process is in no file")?;
        let config = Config::load(file).map_err(|error| format!("nothing was changed: {error}"))?;
        let control =
            live.control.as_ref().ok_or("there is no bridge in this process: a restart reads the rest")?;
        let redsyn = config.redsyn.ok_or("the redsyn section is gone: a restart ends the bridge")?;
        if Some(&redsyn.relay) != self.relay.as_ref() {
            return Err("redsyn.relay has changed, which needs a restart; nothing was changed".to_owned());
        }
        let told = control.reload(&redsyn).await;
        let names = control.names.get();
        tracing::info!(agents = names.agents().count(), contacts = names.contacts().count(), "reloaded");
        Ok(json!({
            "agents": names.agents().map(|(name, agent)| json!({"name": name.as_str(),
                "address": agent.address.to_string()})).collect::<Vec<_>>(),
            "contacts": names.contacts().count(),
            "announced": told.is_ok(),
            "why": told.err().map(|error| error.to_string()),
            "warnings": config.warnings,
        }))
    }
}
