//! What only the running process can check: its relay, with its own token.

use serde_json::{Value, json};

use super::Operator;

impl Operator {
    pub(super) async fn self_check(&self) -> Result<Value, String> {
        let Some(live) = &self.live else { return Ok(json!({"running": false})) };
        let relay = match &live.control {
            None => Value::Null,
            Some(control) => {
                let probed = control.link.probe().await;
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
