//! `redsyn-bridge selfcheck`: what must be right for a node to work, each with what to do when it is not. Exit code 0
//! only when nothing failed.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use super::ask::{self, Asked};
use super::table::{number, table, text};
use super::{called, print};
use crate::config::{Config, Storage};
use crate::crypto::secret::Secret;
use crate::domain::clock::SystemClock;
use crate::domain::random::SystemRandom;
use crate::dsh_client::DshClient;
use crate::proto::dsh::names::AgentName;
use crate::runtime::error::RunError;
use crate::runtime::node::{Node, Overrides};
use crate::runtime::operator::Request;
use crate::runtime::telemetry;

/// Below this a day of traffic could fill the disk.
const LEAST_SPACE: u64 = 200 * 1024 * 1024;
/// A relay refuses signatures that are ten minutes off; half of it is time to act.
const MOST_SKEW: Duration = Duration::from_secs(5 * 60);

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub asked: Asked,
}

/// One thing that was looked at.
struct Check {
    name: &'static str,
    /// `None`: it could not be looked at, which is no failure.
    holds: Option<bool>,
    what: String,
}

impl Check {
    fn right(name: &'static str, what: impl Into<String>) -> Self {
        Self { name, holds: Some(true), what: what.into() }
    }

    fn wrong(name: &'static str, what: impl Into<String>) -> Self {
        Self { name, holds: Some(false), what: what.into() }
    }

    fn skipped(name: &'static str, what: impl Into<String>) -> Self {
        Self { name, holds: None, what: what.into() }
    }

    fn of(name: &'static str, result: Result<String, String>) -> Self {
        match result {
            Ok(what) => Self::right(name, what),
            Err(what) => Self::wrong(name, what),
        }
    }

    const fn word(&self) -> &'static str {
        match self.holds {
            Some(true) => "ok",
            Some(false) => "FAILED",
            None => "skipped",
        }
    }
}

pub fn run(args: &Args) -> ExitCode {
    telemetry::init("off");
    let config = match Config::load(&args.asked.config) {
        Ok(config) => config,
        Err(error) => return super::fail(&error.into()),
    };
    let checks = match super::block_on(async { Ok(look(&args.asked, &config).await) }) {
        Ok(checks) => checks,
        Err(error) => return super::fail(&error),
    };
    let held = checks.iter().all(|check| check.holds != Some(false));
    if args.asked.json {
        let list =
            checks.iter().map(|check| json!({"check": check.name, "ok": check.holds, "what": check.what}));
        print::line(json!({"ok": held, "checks": list.collect::<Vec<_>>()}));
    } else {
        let row = |check: &Check| vec![check.word().to_owned(), check.name.to_owned(), check.what.clone()];
        print::text(table(&checks.iter().map(row).collect::<Vec<_>>()));
    }
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn look(asked: &Asked, config: &Config) -> Vec<Check> {
    let mut checks = vec![configuration(asked, config)];
    checks.push(Check::of("disk", disk(&config.broker.data_dir, config.broker.storage)));
    checks.push(Check::of("round trip", round_trip().await.map_err(|error| error.to_string())));
    match ask::ask(&asked.config, &Request::SelfCheck).await {
        Ok(answer) => running(&answer, &mut checks),
        Err(error) => checks.push(Check::skipped("broker", error.to_string())),
    }
    checks
}

fn configuration(asked: &Asked, config: &Config) -> Check {
    let file = asked.config.display();
    if config.warnings.is_empty() {
        return Check::right("configuration", format!("{file} is right"));
    }
    Check::right("configuration", format!("{file} is right, but: {}", config.warnings.join("; ")))
}

/// Whether the folder can be written, and has room.
fn disk(folder: &Path, storage: Storage) -> Result<String, String> {
    if storage == Storage::Memory && !folder.is_dir() {
        return Ok("nothing is kept".to_owned());
    }
    // Before the first start: what it will be made in.
    let there = folder.ancestors().find(|one| one.is_dir()).unwrap_or(Path::new("."));
    tempfile::tempfile_in(there).map_err(|error| {
        format!("cannot write to {}: {error}; make it writable or set broker.dataDir", there.display())
    })?;
    let free = fs4::available_space(there).map_err(|error| format!("{}: {error}", there.display()))?;
    let megabytes = free / (1024 * 1024);
    if free < LEAST_SPACE {
        return Err(format!("{megabytes} MB are free in {}; make room", there.display()));
    }
    Ok(format!("{} can be written, {megabytes} MB are free", there.display()))
}

/// Two agents of a broker that exists for this alone: nothing of the node's own is touched.
async fn round_trip() -> Result<String, RunError> {
    let failed = |error: &dyn std::fmt::Display| RunError::other(format!("a scratch broker: {error}"));
    let folder = tempfile::tempdir().map_err(|error| failed(&error))?;
    let file = folder.path().join("config.yaml");
    let config = Config::parse("broker:\n  secret: scratch\n  dataDir: ./data\n", &file)?;
    let overrides = Overrides { broker: Some("127.0.0.1:0".to_owned()), config_file: None };
    let node = Node::start(&config, &overrides, SystemClock::shared(), SystemRandom::shared()).await?;
    let base = format!("http://{}", node.broker());
    let result = exchange(&base).await;
    let stopped = node.stop().await;
    let id = result.map_err(|error| failed(&error))?;
    stopped?;
    Ok(format!("a request and its answer crossed a scratch broker ({id})"))
}

async fn exchange(base: &str) -> Result<String, String> {
    let agent = |name: &str| {
        let name = AgentName::parse(name).ok_or("the scratch agent has no name")?;
        DshClient::new(base, name, Secret::new("scratch"), SystemClock::shared())
            .map_err(|error| error.to_string())
    };
    let (asks, answers) = (agent("scratch-a")?, agent("scratch-b")?);
    let post = async |client: &DshClient, path: &str, body: Value| {
        client.post(path, &body).await.map_err(|error| error.to_string())
    };
    post(&asks, "/register", json!({"agent": "scratch-a"})).await?;
    post(&answers, "/register", json!({"agent": "scratch-b"})).await?;
    let sent = post(&asks, "/messages", json!({"to": "scratch-b", "kind": "request", "body": {"text": "?"}}))
        .await?;
    let id = text(&sent, "id");
    let first = |pulled: &Value| pulled.pointer("/messages/0").cloned().ok_or("nothing arrived");
    let request = first(&post(&answers, "/v1/pull", json!({"waitSeconds": 5})).await?)?;
    let reply = json!({"to": "scratch-a", "kind": "reply", "parentId": id, "body": {"text": "!"}});
    post(&answers, "/messages", reply).await?;
    let ack = json!({"messageId": request["id"], "leaseId": request["leaseId"], "outcome": "completed"});
    post(&answers, "/v1/ack", ack).await?;
    let reply = first(&post(&asks, "/v1/pull", json!({"waitSeconds": 5})).await?)?;
    if text(&reply, "parentId") == id {
        Ok(id)
    } else {
        Err("the answer belongs to something else".to_owned())
    }
}

/// What the running process found, if one runs.
fn running(answer: &Value, checks: &mut Vec<Check>) {
    let Some(relay) = answer.get("relay").filter(|_| answer.get("running") == Some(&Value::Bool(true)))
    else {
        let next = format!("nothing runs; start it with `{}`, then check again", called("serve"));
        checks.push(Check::skipped("broker", next.clone()));
        checks.push(Check::skipped("relay", next));
        return;
    };
    checks.push(Check::right("broker", format!("it runs and answers on {}", text(answer, "broker"))));
    if relay.is_null() {
        checks.push(Check::skipped("relay", "none is configured"));
        return;
    }
    let why = text(relay, "why");
    if !why.is_empty() {
        checks.push(Check::wrong("relay", why));
        checks.push(Check::skipped("clock", "the relay did not tell its time"));
        return;
    }
    checks.push(Check::right("relay", format!("{} answers and knows this node's token", text(relay, "url"))));
    let skew = number(relay, "skewMs").unsigned_abs();
    let what = format!("{} s off the relay's", skew / 1000);
    let is_fine = u128::from(skew) <= MOST_SKEW.as_millis();
    checks.push(if is_fine {
        Check::right("clock", what)
    } else {
        Check::wrong("clock", format!("{what}; set this machine's clock"))
    });
}
