//! What the demo prints: one line a hop, aligned, with the time since the start.

use serde_json::json;

use crate::domain::clock::{Clock, SystemClock, Timestamp};

/// Wide enough for the longest actor, `billing`.
const ACTOR_WIDTH: usize = 8;

#[derive(Debug)]
pub(super) struct Story {
    began: Timestamp,
    json: bool,
}

impl Story {
    pub(super) fn begin(json: bool) -> Self {
        Self { began: SystemClock.now(), json }
    }

    pub(super) fn title(&self, text: &str) {
        if !self.json {
            println!("redsyn-bridge demo: {text}\n");
        }
    }

    /// One hop, as it happens.
    pub(super) fn hop(&self, actor: &str, text: &str) {
        let since = SystemClock.now().since(self.began);
        if self.json {
            println!("{}", json!({"ms": since.as_millis(), "actor": actor, "hop": text}));
        } else {
            println!("{:>8.3} s  {actor:<ACTOR_WIDTH$}  {text}", since.as_secs_f64());
        }
    }

    pub(super) fn end(&self, text: &str) {
        let since = SystemClock.now().since(self.began);
        if self.json {
            println!("{}", json!({"ms": since.as_millis(), "held": true}));
        } else {
            println!(
                "\n{text} ({:.3} s). Next: `{}` runs it for your own agents.",
                since.as_secs_f64(),
                super::super::called("serve")
            );
        }
    }
}
