//! A recorded case and the filling in of its placeholders.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use redsyn_bridge::proto::dsh::v1::iso::iso;
use serde_json::{Map, Value};

pub(super) type Vars = HashMap<String, Value>;

/// Where a case is played that was recorded in memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Storage {
    Sqlite,
    Jsonl,
}

impl Storage {
    const fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Jsonl => "jsonl",
        }
    }
}

#[derive(Debug)]
pub(super) struct Case {
    pub(super) id: String,
    pub(super) config: String,
    pub(super) secret: String,
    pub(super) secrets: Map<String, Value>,
    /// The broker may refuse to start; then no step is played.
    pub(super) may_not_start: bool,
    /// Files in the data folder before the start.
    pub(super) seed: Map<String, Value>,
    pub(super) steps: Vec<Value>,
}

impl Case {
    pub(super) fn load(file: &Path) -> Self {
        let case = super::json::parse(&std::fs::read_to_string(file).unwrap()).unwrap();
        Self {
            id: text(&case, "id").unwrap(),
            config: text(&case, "config").unwrap(),
            secret: text(&case, "secret").unwrap(),
            secrets: case["secrets"].as_object().cloned().unwrap_or_default(),
            may_not_start: case["mayNotStart"] == true,
            seed: case["seed"].as_object().cloned().unwrap_or_default(),
            steps: case["steps"].as_array().unwrap().clone(),
        }
    }

    /// The same case on another storage; `None` when its storage is what it is about.
    pub(super) fn stored_in(self, storage: Storage) -> Option<Self> {
        let about_storage =
            self.id.contains("storage") || self.id.starts_with("persist") || self.may_not_start;
        // A restart in memory forgets everything.
        let forgets =
            self.steps.iter().any(|step| step["do"] == "restart") && self.config.contains("persist: false");
        if about_storage || forgets {
            return None;
        }
        let kept = |line: &&str| !line.trim_start().starts_with("persist:");
        let mut config: String = self.config.lines().filter(kept).map(|line| format!("{line}\n")).collect();
        config = config.replacen("broker:\n", &format!("broker:\n  storage: {}\n", storage.name()), 1);
        // What `GET /` tells of it is the one thing that differs.
        let named = |text: String, key: &str| {
            text.replace(&format!("\"{key}\":\"memory\""), &format!("\"{key}\":\"{}\"", storage.name()))
        };
        let steps = named(named(Value::Array(self.steps).to_string(), "storage"), "body.storage");
        let steps = super::json::parse(&steps).unwrap().as_array().unwrap().clone();
        Some(Self { config, steps, ..self })
    }

    pub(super) fn waits_ms(&self) -> u64 {
        self.steps.iter().filter(|step| step["do"] == "wait").map(|step| step["ms"].as_u64().unwrap()).sum()
    }
}

pub(super) fn text(value: &Value, key: &str) -> Option<String> {
    value[key].as_str().map(str::to_owned)
}

/// `{{name}}` and `{{repeat:text:times}}`.
pub(super) fn fill(text: &str, vars: &Vars) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let Some((name, after)) = after.split_once("}}") else {
            out.push_str("{{");
            rest = after;
            continue;
        };
        match name.strip_prefix("repeat:").and_then(|repeat| repeat.rsplit_once(':')) {
            Some((text, times)) => out.push_str(&text.repeat(times.parse().unwrap())),
            None => match vars.get(name) {
                Some(Value::String(value)) => out.push_str(value),
                Some(value) => out.push_str(&value.to_string()),
                None => out.push_str(&format!("{{{{{name}}}}}")),
            },
        }
        rest = after;
    }
    out + rest
}

/// The same in every text of a JSON value; `{"$now": 60}` is the time in a minute.
pub(super) fn fill_value(value: &Value, vars: &Vars) -> Value {
    match value {
        Value::String(text) => fill(text, vars).into(),
        Value::Array(items) => items.iter().map(|item| fill_value(item, vars)).collect(),
        Value::Object(members) if members.len() == 1 && members.contains_key("$now") => {
            (i64::try_from(now().as_secs()).unwrap() + members["$now"].as_i64().unwrap()).into()
        }
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| (fill(key, vars), fill_value(value, vars)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

#[expect(clippy::disallowed_methods, reason = "the broker under test reads the system clock")]
pub(super) fn now() -> Duration {
    std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// What a seeded file is filled with.
pub(super) fn seed_vars() -> Vars {
    let now = i64::try_from(now().as_millis()).unwrap();
    let hour = 3_600_000;
    let seconds = |millis: i64| format!("{}.{:03}", millis / 1000, millis % 1000);
    [
        ("NOW_ISO", iso(now)),
        ("OLD_ISO", iso(now - 9 * 24 * hour)),
        ("NOW_S", seconds(now)),
        ("NOW_MS", now.to_string()),
        ("SOON_S", seconds(now + hour)),
        ("PAST_S", seconds(now - hour)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.into()))
    .collect()
}

/// Lets the clock of the broker under test move on.
#[expect(clippy::disallowed_methods, reason = "the broker under test reads the system clock")]
pub(super) fn pause(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}
