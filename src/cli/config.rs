//! `redsyn-bridge config check`: what a configuration means here, secrets masked.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use serde_json::{Value, json};

use super::print;
use crate::config::redsyn::{Accept, Encrypt, RedsynConfig, RelayMode, TokenSource};
use crate::config::{BrokerSecret, Config, Storage};

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
    let config = match Config::load(file) {
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

fn understood(config: &Config) -> Value {
    let broker = &config.broker;
    let secret = match &broker.secret {
        BrokerSecret::Value(_) => MASK.to_owned(),
        BrokerSecret::File(file) => format!("in {}", file.display()),
    };
    let storage = match broker.storage {
        Storage::Memory => "memory",
        Storage::Sqlite => "sqlite",
        Storage::Jsonl => "jsonl",
    };
    let agents = config.agents.0.iter().map(|(name, agent)| {
        let entry = json!({
            "secret": agent.secret.as_ref().map(|_| MASK),
            "allowed_targets": agent.allowed_targets,
        });
        (name.to_string(), entry)
    });
    json!({
        "broker": {
            "listens on": format!("{}:{}", broker.host, broker.port),
            "secret": secret,
            "data": broker.data_dir.display().to_string(),
            "storage": storage,
            "messageTtlDays": broker.message_ttl.as_secs() / 86_400,
            "leaseSeconds": broker.lease_seconds,
            "maxAttempts": broker.max_attempts,
            "rateLimitLoopback": broker.rate.loopback,
            "rateLimitRemote": broker.rate.remote,
        },
        "security": {
            "lockAfterFailures": config.security.lock_after_failures,
            "lockMinutes": config.security.lock_for.as_secs() / 60,
        },
        "agents": agents.collect::<serde_json::Map<_, _>>(),
        "metrics": {"allow_remote": config.remote_metrics},
        "redsyn": config.redsyn.as_ref().map(redsyn),
    })
}

fn redsyn(config: &RedsynConfig) -> Value {
    let relay = match &config.relay {
        RelayMode::Embedded { listen } => format!("embedded, on {listen}"),
        RelayMode::Remote(url) => url.to_string(),
        RelayMode::Off => "off".to_owned(),
    };
    let token = match &config.token {
        TokenSource::Value(_) => MASK.to_owned(),
        TokenSource::File(file) => format!("in {}", file.display()),
        TokenSource::Default => "in the data folder".to_owned(),
    };
    let encrypt = match config.encrypt {
        Encrypt::Prefer => "prefer",
        Encrypt::Require => "require",
        Encrypt::Never => "never",
    };
    let agents = config.agents.iter().map(|(name, agent)| {
        let accept = match agent.accept {
            Accept::Any => "any",
            Accept::Signed => "signed",
            Accept::Encrypted => "encrypted",
        };
        let entry = json!({
            "address": agent.address.to_string(),
            "takes requests from": agent.policy.accepts(&agent.address),
            "accept": accept,
            "trust": if agent.policy.full_trust { "full" } else { "none" },
            "hold": agent.hold,
        });
        (name.to_string(), entry)
    });
    let contacts = config.contacts.iter().map(|(alias, address)| (alias.clone(), json!(address.to_string())));
    json!({
        "relay": relay,
        "token": token,
        "version": config.version,
        "encrypt": encrypt,
        "agents": agents.collect::<serde_json::Map<_, _>>(),
        "contacts": contacts.collect::<serde_json::Map<_, _>>(),
    })
}

/// `key  value` lines, sections indented; what is not set is left out.
fn lines(section: &Value, depth: usize) -> String {
    let Value::Object(fields) = section else { return String::new() };
    let width = fields.keys().map(String::len).max().unwrap_or_default();
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
    use super::*;

    #[test]
    fn secrets_are_masked_and_the_rest_is_told() {
        let yaml = "broker:\n  secret: hunter2\nagents:\n  a:\n    secret: hunter3\nredsyn:\n  \
                    relay: https://relay.example/redsyn/v1\n  token: hunter4\n  scope: acme/finance/ana\n  agents:\n    close: {}\n";
        let config = Config::parse(yaml, "config.yaml".as_ref()).unwrap();
        let text = lines(&understood(&config), 0);
        assert!(!text.contains("hunter"), "{text}");
        for part in
            ["127.0.0.1:19121", "acme/finance/ana/close", "team finance", "https://relay.example/redsyn/v1"]
        {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
    }
}
