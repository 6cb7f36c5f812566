//! What only the running process can check: its relay, with its own token.

use std::time::Duration;

use serde_json::{Value, json};

use super::Operator;

/// How long a person who looks on waits for the relay.
const PATIENCE: Duration = Duration::from_secs(10);

impl Operator {
    pub(super) async fn self_check(&self) -> Result<Value, String> {
        let Some(live) = &self.live else { return Ok(json!({"running": false})) };
        let relay = match &live.control {
            None => Value::Null,
            Some(control) => {
                let probed = tokio::select! {
                    probed = control.link.probe() => probed,
                    () = self.clock.sleep(PATIENCE) => {
                        Err(format!("no answer within {} s", PATIENCE.as_secs()))
                    }
                };
                json!({
                    "url": live.relay_url,
                    "skewMs": probed.as_ref().ok(),
                    "why": probed.as_ref().err(),
                })
            }
        };
        Ok(json!({"running": true, "broker": format!("http://{}", live.broker), "relay": relay}))
    }
}
