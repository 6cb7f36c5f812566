//! `redsyn-bridge config check`: what a configuration means here, secrets masked.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use serde_json::{Map, Value, json};

use super::print;
use crate::config::redsyn::{Accept, MappedAgent, Receipts, RedsynConfig, RelayMode, TokenSource};
use crate::config::{Agent, BrokerSecret, Config, Storage};

/// Stands for every secret.
const MASK: &str = "***";

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Read a configuration and print what was understood
    Check {
        #[arg(long, default_value = super::DEFAULT_CONFIG)]
        config: PathBuf,
        #[arg(long)]
        json: bool,
    },
}

pub fn run(args: &Args) -> ExitCode {
    let ConfigCommand::Check { config: file, json } = &args.command;
    let config = match Config::load_and_look(file) {
        Ok(config) => config,
        Err(error) => return super::fail(&error.into()),
    };
    if *json {
        print::line(json!({"config": understood(&config), "warnings": config.warnings}));
        return ExitCode::SUCCESS;
    }
    print::line(format_args!("{} is right", file.display()));
    print::text(lines(&understood(&config), 1));
    for warning in &config.warnings {
        print::line(format_args!("warning: {warning}"));
    }
    ExitCode::SUCCESS
}

/// Everything under the key that it has in the file; what is not set and has no default is null.
fn understood(config: &Config) -> Value {
    let broker = &config.broker;
    let (secret, secret_file) = match &broker.secret {
        BrokerSecret::Value(_) => (Some(MASK), None),
        BrokerSecret::File(file) => (None, Some(file.display().to_string())),
    };
    let storage = match broker.storage {
        Storage::Memory => "memory",
        Storage::Sqlite => "sqlite",
        Storage::Jsonl => "jsonl",
    };
    json!({
        "broker": {
            "host": broker.host,
            "port": broker.port,
            "secret": secret,
            "secretFile": secret_file,
            "dataDir": broker.data_dir.display().to_string(),
            "persist": broker.storage != Storage::Memory,
            "storage": storage,
            "messageTtlDays": broker.message_ttl.as_secs() / 86_400,
            "leaseSeconds": broker.lease_seconds,
            "maxAttempts": broker.max_attempts,
            "notifyFailedToSender": broker.notify_failed_to_sender,
            "rateLimitLoopback": broker.rate.loopback,
            "rateLimitRemote": broker.rate.remote,
        },
        "security": {
            "lockAfterFailures": config.security.lock_after_failures,
            "lockMinutes": config.security.lock_for.as_secs() / 60,
            "admin_agents": config.security.admin_agents,
        },
        "agents": config.agents.0.iter().map(|(name, one)| (name.to_string(), agent(one))).collect::<Map<_, _>>(),
        "metrics": {"allow_remote": config.remote_metrics},
        "redsyn": config.redsyn.as_ref().map(redsyn),
    })
}

fn agent(agent: &Agent) -> Value {
    let keys = agent.keys.iter().map(|(id, key)| {
        // Whole seconds, as they are written.
        let not_after = key.not_after.map(|seconds| seconds.to_string());
        (id.clone(), json!({"secret": MASK, "not_after": not_after}))
    });
    json!({
        "secret": agent.secret.as_ref().map(|_| MASK),
        "keys": keys.collect::<Map<_, _>>(),
        "allowed_targets": agent.allowed_targets,
        "allowed_read_targets": agent.allowed_read_targets,
        "allowed_continue_targets": agent.allowed_continue_targets,
        "allowed_write_targets": agent.allowed_write_targets,
    })
}

fn redsyn(config: &RedsynConfig) -> Value {
    let (relay, listen) = match &config.relay {
        RelayMode::Embedded { listen } => ("embedded".to_owned(), Some(listen)),
        RelayMode::Remote(url) => (url.to_string(), None),
        RelayMode::Off => ("off".to_owned(), None),
    };
    let (token, token_file) = match &config.token {
        TokenSource::Value(_) => (MASK.to_owned(), None),
        TokenSource::File(file) => ("in the file".to_owned(), Some(file.display().to_string())),
        TokenSource::Default => ("in the data folder".to_owned(), None),
    };
    let receipts = match config.receipts {
        Receipts::None => "none",
        Receipts::Progress => "progress",
    };
    let agents = config.agents.iter().map(|(name, agent)| (name.to_string(), mapped(agent)));
    let contacts = config.contacts.iter().map(|(alias, address)| (alias.clone(), json!(address.to_string())));
    json!({
        "relay": relay,
        "listen": listen,
        "insecure": config.insecure,
        "token": token,
        "tokenFile": token_file,
        "version": config.version,
        "scope": config.scope.as_ref().map(ToString::to_string),
        "encrypt": config.encrypt.as_str(),
        "receipts": receipts,
        "agents": agents.collect::<Map<_, _>>(),
        "contacts": contacts.collect::<Map<_, _>>(),
    })
}

fn mapped(agent: &MappedAgent) -> Value {
    let accept = match agent.accept {
        Accept::Any => "any",
        Accept::Signed => "signed",
        Accept::Encrypted => "encrypted",
    };
    json!({
        "address": agent.address.to_string(),
        "description": Some(&agent.description).filter(|text| !text.is_empty()),
        "allow": agent.policy.allow.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "takes requests from": agent.policy.accepts(&agent.address),
        "trust": if agent.policy.full_trust { "full" } else { "none" },
        "accept": accept,
        "topics": agent.topics.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "hold": agent.hold,
        "grant": {"continue": agent.grant.continues, "write": agent.grant.write},
    })
}

/// `key  value` lines, sections indented; what is not set is left out.
fn lines(section: &Value, depth: usize) -> String {
    let Value::Object(fields) = section else { return String::new() };
    let set = fields.iter().filter(|(_, value)| !value.is_null());
    let width = set.map(|(key, _)| key.len()).max().unwrap_or_default();
    let indent = "  ".repeat(depth);
    let line = |(key, value): (&String, &Value)| match value {
        Value::Null => String::new(),
        Value::Object(inner) if inner.is_empty() => String::new(),
        Value::Object(_) => format!("{indent}{key}\n{}", lines(value, depth + 1)),
        Value::String(text) => format!("{indent}{key:<width$}  {text}\n"),
        other => format!("{indent}{key:<width$}  {other}\n"),
    };
    fields.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::config::fields::asked;

    /// Together they have every key there is, each with a value that nothing else has.
    const EVERYTHING: [&str; 3] = [
        "broker:
  host: 127.0.0.7
  port: 19007
  secret: hidden-1
  dataDir: ./mail-here
  persist: true
  storage: jsonl
  messageTtlDays: 11
  leaseSeconds: 612
  maxAttempts: 13
  notifyFailedToSender: false
  rateLimitLoopback: 614
  rateLimitRemote: 115
security:
  lockAfterFailures: 16
  lockMinutes: 17
  admin_agents: [ops-18]
agents:
  alpha:
    secret: hidden-2
    keys:
      key-19:
        secret: hidden-3
        not_after: 1830297620
    allowed_targets: [beta-21, gamma-22]
    allowed_read_targets: [beta-23]
    allowed_continue_targets: [beta-24]
    allowed_write_targets: [beta-25]
metrics:
  allow_remote: true
redsyn:
  relay: http://relay.example/redsyn/v1
  insecure: true
  token: hidden-4
  version: 2026-09-25
  scope: acme/finance/ana
  encrypt: require
  receipts: progress
  agents:
    close:
      address: acme/sales/ana/close-26
      description: closes the month 27
      allow: [org, team:ops-28, org:globex, beto-29]
      accept: encrypted
      trust: full
      topics: [topic:globex/erp/prices-30]
      hold: true
      grant:
        continue: ['*/*/*/agent-31']
        write: [globex/erp/bob/billing-32]
  contacts:
    bob-33: globex/erp/bob/billing-34
",
        "broker: {secretFile: ./secret-35, persist: false}\n\
         redsyn: {relay: embedded, listen: '127.0.0.1:19036', scope: acme/finance/ana}\n",
        "broker: {secret: hidden-5}\n\
         redsyn: {relay: 'https://relay.example/redsyn/v1', tokenFile: ./token-37, scope: acme/finance/ana}\n",
    ];

    #[test]
    fn every_key_is_shown_under_its_name_and_no_secret_is() {
        let mut missing = BTreeSet::new();
        let mut present = BTreeSet::new();
        for yaml in EVERYTHING {
            let (config, keys) = asked::during(|| Config::parse(yaml, Path::new("/etc/relay/config.yaml")));
            let understood = understood(&config.unwrap());
            let text = lines(&understood, 0);
            assert!(!text.contains("hidden"), "{text}");
            for (path, texts) in keys {
                let Some(texts) = texts else {
                    missing.insert(path);
                    continue;
                };
                let shown =
                    &understood.pointer(&format!("/{}", path.replace('.', "/"))).unwrap_or(&Value::Null);
                for written in texts {
                    let expected = if written.starts_with("hidden") { MASK } else { &written };
                    assert!(shown.to_string().contains(expected), "{path} is {shown}, not {expected}");
                    assert!(text.contains(expected), "no {expected} of {path} in\n{text}");
                }
                present.insert(path);
            }
        }
        let forgotten: Vec<_> = missing.difference(&present).collect();
        assert!(forgotten.is_empty(), "EVERYTHING has no {forgotten:?}");
        assert!(present.contains("redsyn.agents.close.grant.write") && present.len() > 50, "{present:?}");
    }

    #[test]
    fn names_and_what_follows_from_a_value_are_shown_too() {
        let [config, ..] = EVERYTHING.map(|yaml| Config::parse(yaml, Path::new("config.yaml")).unwrap());
        let text = lines(&understood(&config), 0);
        for part in ["alpha", "key-19", "bob-33", "globex/erp/bob/billing-34", "organization globex"] {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
    }
}
