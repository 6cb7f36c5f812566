//! `redsyn-bridge selfcheck`: what must be right for a node to work, each with what to do when it is not. Exit code 0
//! only when nothing failed.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use super::ask::{self, Asked};
use super::table::text;
use super::{called, print};
use crate::config::{Config, Storage};
use crate::crypto::secret::Secret;
use crate::domain::clock::{Clock, SystemClock};
use crate::domain::random::SystemRandom;
use crate::dsh_client::{self, DshClient, DshError};
use crate::proto::dsh::names::AgentName;
use crate::proto::dsh::v1;
use crate::runtime::error::RunError;
use crate::runtime::node::{Node, Overrides, host_and_port};
use crate::runtime::operator::Request;
use crate::runtime::telemetry;

/// Below this a day of traffic could fill the disk.
const LEAST_SPACE: u64 = 200 * 1024 * 1024;
/// How long a person who looks on waits for an answer of this machine.
const PATIENCE: Duration = Duration::from_secs(10);
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
    let mut checks = Checks { list: Vec::new(), are_shown: !args.asked.json };
    let looked = super::block_on(async {
        look(&args.asked, &config, &mut checks).await;
        Ok(())
    });
    if let Err(error) = looked {
        return super::fail(&error);
    }
    let held = checks.list.iter().all(|check| check.holds != Some(false));
    if args.asked.json {
        let list = checks.list.iter();
        let list = list.map(|check| json!({"check": check.name, "ok": check.holds, "what": check.what}));
        print::line(json!({"ok": held, "checks": list.collect::<Vec<_>>()}));
    }
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What was looked at so far. Each is shown as soon as it is known: the next may take its time.
struct Checks {
    list: Vec<Check>,
    are_shown: bool,
}

impl Checks {
    fn push(&mut self, check: Check) {
        if self.are_shown {
            // As wide as the longest word and the longest name.
            print::line(format_args!("  {:<7}  {:<13}  {}", check.word(), check.name, check.what));
        }
        self.list.push(check);
    }
}

async fn look(asked: &Asked, config: &Config, checks: &mut Checks) {
    checks.push(configuration(asked, config));
    checks.push(Check::of("disk", disk(&config.broker.data_dir, config.broker.storage)));
    checks.push(Check::of("round trip", round_trip().await.map_err(|error| error.to_string())));
    let keeps = config.broker.storage != Storage::Memory || config.redsyn.is_some();
    let node = match keeps && config.broker.data_dir.is_dir() {
        true => ask::ask(&asked.config, &Request::SelfCheck).await,
        false => Ok(Value::Null),
    };
    let node = match node {
        Ok(node) => node,
        Err(error) => return checks.push(Check::wrong("broker", error.to_string())),
    };
    let runs = node.get("running") == Some(&Value::Bool(true));
    let base = if runs { text(&node, "broker") } else { reachable(config) };
    let skew = broker(&base, runs || !keeps, runs, checks).await;
    relay(&node, runs, skew, checks);
}

/// Where the configured broker can be called from this machine.
fn reachable(config: &Config) -> String {
    let host = match config.broker.host.as_str() {
        "0.0.0.0" => "127.0.0.1",
        "::" => "::1",
        host => host,
    };
    format!("http://{}", host_and_port(host, config.broker.port))
}

/// Calls the broker as a client does. `is_ours`: whoever answers there may be this node. Gives the difference of the
/// clocks.
async fn broker(base: &str, is_ours: bool, runs: bool, checks: &mut Checks) -> Option<Duration> {
    let about = match dsh_client::about(base, PATIENCE).await {
        Ok(about) => about,
        Err(DshError::NoAnswer(error)) if !runs && error.is_connect() => {
            let next = format!("nothing runs; start it with `{}`, then check again", called("serve"));
            checks.push(Check::skipped("broker", next));
            return None;
        }
        Err(error) => {
            checks.push(Check::wrong("broker", format!("{base} does not answer as a broker: {error}")));
            return None;
        }
    };
    let answer = &about.answer;
    let (name, protocol, software) =
        (text(answer, "broker"), text(answer, "protocol"), text(answer, "implementation"));
    checks.push(if name != v1::BROKER {
        Check::wrong("broker", format!("{base} is another program; stop it or set broker.port"))
    } else if protocol != v1::PROTOCOL {
        Check::wrong("broker", format!("{base} speaks protocol {protocol}, not {}", v1::PROTOCOL))
    } else if software.is_empty() {
        Check::wrong(
            "broker",
            format!("{base} is the Node broker; stop it, then `{}` takes its place", called("serve")),
        )
    } else if is_ours {
        Check::right("broker", format!("{software} answers on {base} (protocol {protocol})"))
    } else {
        Check::wrong(
            "broker",
            format!("{base} is a {software} with another data folder; stop it or set broker.port"),
        )
    });
    let ours = SystemClock.now();
    about.date.map(|date| Duration::from_millis(date.millis().abs_diff(ours.millis())))
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
    let there = folder.ancestors().find(|one| one.exists()).unwrap_or(Path::new("."));
    if !there.is_dir() {
        return Err(format!("{} is no folder; move it away or set broker.dataDir", there.display()));
    }
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
    let overrides = Overrides { broker: Some("127.0.0.1:0".to_owned()), ..Overrides::default() };
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

/// What the running process found about its relay, and whose clock says what.
fn relay(node: &Value, runs: bool, broker_skew: Option<Duration>, checks: &mut Checks) {
    let relay = node.get("relay").unwrap_or(&Value::Null);
    let why = text(relay, "why");
    let relay_skew = relay.get("skewMs").and_then(Value::as_i64);
    checks.push(if !runs {
        Check::skipped("relay", "only the running process calls it")
    } else if relay.is_null() {
        Check::skipped("relay", "none is configured")
    } else if !why.is_empty() {
        Check::wrong("relay", why)
    } else {
        Check::right("relay", format!("{} answers and knows this node's token", text(relay, "url")))
    });
    let (skew, whose) = match (relay_skew, broker_skew) {
        (Some(skew), _) => (Duration::from_millis(skew.unsigned_abs()), "the relay's"),
        (None, Some(skew)) => (skew, "the broker's"),
        (None, None) => return checks.push(Check::skipped("clock", "nobody told the time")),
    };
    let what = format!("{} s off {whose}", skew.as_secs());
    checks.push(if skew <= MOST_SKEW {
        Check::right("clock", what)
    } else {
        Check::wrong("clock", format!("{what}; set this machine's clock"))
    });
}
