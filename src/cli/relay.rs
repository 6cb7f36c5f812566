//! `redsyn-bridge relay --config FILE serve | user add|ls|rm | node add|ls|rm | invites`: a relay for many nodes, and
//! who may use it. The commands reach a relay that runs through its door, and the store itself when none does.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::print;
use crate::config::relay::RelayConfig;
use crate::domain::clock::SystemClock;
use crate::domain::random::SystemRandom;
use crate::relay::Settings;
use crate::relay::admin::AdminCommand;
use crate::relay::limits::CallLimits;
use crate::runtime::error::RunError;
use crate::runtime::relay_door::{self, Door};
use crate::runtime::relay_host::RelayStore;
use crate::runtime::signals::{self, Hangups};
use crate::runtime::telemetry;
use crate::runtime::tls::Certificates;

const LOG: &str = "redsyn_bridge=info";

#[derive(Debug, Args)]
pub struct RelayArgs {
    /// The relay's configuration
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    #[command(subcommand)]
    command: RelayCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum RelayCommand {
    /// Serve until SIGTERM or Ctrl-C
    Serve,
    /// People
    #[command(subcommand)]
    User(UserCommand),
    /// Nodes: machines and servers of people
    #[command(subcommand)]
    Node(NodeCommand),
    /// List the invitations that wait for somebody to join
    Invites {
        #[arg(long)]
        json: bool,
    },
}

#[derive(Clone, Debug, Subcommand)]
enum UserCommand {
    /// Add a person; prints their id
    Add {
        #[arg(long)]
        email: String,
        #[arg(long)]
        plan: String,
        #[arg(long)]
        json: bool,
    },
    /// List people and their nodes
    Ls {
        #[arg(long)]
        json: bool,
    },
    /// Remove a person: their tokens, agents, subscriptions, webhooks and teams
    Rm {
        /// Email or id of the person
        user: String,
        #[arg(long)]
        json: bool,
    },
}

#[derive(Clone, Debug, Subcommand)]
enum NodeCommand {
    /// Add a node; prints its token, which is never shown again
    Add {
        /// Email or id of the person
        #[arg(long)]
        user: String,
        #[arg(long)]
        name: String,
        #[arg(long)]
        json: bool,
    },
    /// List nodes
    Ls {
        /// Only those of this person: email or id
        #[arg(long)]
        user: Option<String>,
        #[arg(long)]
        json: bool,
    },
    /// Remove a node: its token is refused from then on
    Rm {
        /// Its id, as `node ls` shows it
        node: String,
        #[arg(long)]
        json: bool,
    },
}

pub fn run(args: &RelayArgs) -> ExitCode {
    telemetry::init(if matches!(args.command, RelayCommand::Serve) { LOG } else { "off" });
    match super::block_on(command(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::fail(&error),
    }
}

async fn command(args: &RelayArgs) -> Result<(), RunError> {
    let config = RelayConfig::load(&args.config).map_err(|error| RunError::Config(error.to_string()))?;
    let stop = CancellationToken::new();
    signals::cancel_on_signal(stop.clone());
    let Some((command, json)) = asked(&args.command) else {
        return serve(&config, stop).await;
    };
    let answer = match relay_door::ask(&config.data_dir, &command).await? {
        Some(answer) => answer,
        None => on_the_store(&config, command.clone()).await?,
    };
    show(&command, &answer, json);
    Ok(())
}

/// What is asked of the relay, and whether the answer is wanted as JSON. `None`: to be one.
fn asked(command: &RelayCommand) -> Option<(AdminCommand, bool)> {
    Some(match command.clone() {
        RelayCommand::Serve => return None,
        RelayCommand::User(UserCommand::Add { email, plan, json }) => {
            (AdminCommand::UserAdd { email, plan }, json)
        }
        RelayCommand::User(UserCommand::Ls { json }) => (AdminCommand::UserLs, json),
        RelayCommand::User(UserCommand::Rm { user, json }) => (AdminCommand::UserRm { user }, json),
        RelayCommand::Node(NodeCommand::Add { user, name, json }) => {
            (AdminCommand::NodeAdd { user, name }, json)
        }
        RelayCommand::Node(NodeCommand::Ls { user, json }) => (AdminCommand::NodeLs { user }, json),
        RelayCommand::Node(NodeCommand::Rm { node, json }) => (AdminCommand::NodeRm { node }, json),
        RelayCommand::Invites { json } => (AdminCommand::Invites, json),
    })
}

async fn open(config: &RelayConfig) -> Result<RelayStore, RunError> {
    let settings = Settings {
        plans: Arc::new(config.plans.clone()),
        trusted_proxies: config.trusted_proxies.clone(),
        insecure_targets: config.insecure_targets,
        limits: CallLimits { per_token: config.limits.per_token, per_address: config.limits.per_address },
        remote_metrics: config.remote_metrics,
        retention: config.retention,
        ..Settings::default()
    };
    RelayStore::open(&config.data_dir, settings, SystemClock::shared(), SystemRandom::shared()).await
}

async fn serve(config: &RelayConfig, stop: CancellationToken) -> Result<(), RunError> {
    for warning in &config.warnings {
        print::aside(format_args!("warning: {warning}"));
    }
    let certificates = config.tls.as_ref().map(Certificates::load).transpose()?;
    let scheme = if certificates.is_some() { "https" } else { "http" };
    let tls = certificates.as_ref().map(Certificates::subscribe);
    let store = open(config).await?;
    let service = Arc::clone(&store.service);
    let mut host = store.listen_with(&config.listen.to_string(), "listen", tls).await?;
    let mut door = match Door::open(&config.data_dir, service, &SystemRandom).await {
        Ok(door) => door,
        Err(error) => return Err(host.stop().await.err().unwrap_or(error)),
    };
    // From here on a hang-up is heard; without a certificate of its own the relay has no use for one.
    let mut renewal = certificates.map(|certificates| (certificates, Hangups::new()));
    print::line(format_args!("listening on {scheme}://{}", host.address()));
    let ended = tokio::select! {
        () = stop.cancelled() => Ok(()),
        ended = host.ended() => ended,
        ended = door.ended() => ended,
        () = renew(&mut renewal) => Ok(()),
    };
    door.close(&SystemClock).await;
    ended.and(host.stop().await)
}

/// Never ends.
async fn renew(renewal: &mut Option<(Certificates, Hangups)>) {
    match renewal {
        Some((certificates, hangups)) => certificates.renew(&SystemClock::shared(), hangups).await,
        None => std::future::pending().await,
    }
}

async fn on_the_store(config: &RelayConfig, command: AdminCommand) -> Result<Value, RunError> {
    let store = open(config).await?;
    let done = store.service.administer(command).await;
    let done = done.map_err(|error| RunError::other(error.to_string()));
    store.close().await?;
    done
}

/// Just the one thing a script wants, a line for each of a list, or everything.
fn show(command: &AdminCommand, answer: &Value, json: bool) {
    if json {
        print::line(answer);
        return;
    }
    let columns: &[&str] = match command {
        AdminCommand::UserAdd { .. } | AdminCommand::UserRm { .. } | AdminCommand::NodeRm { .. } => &["id"],
        AdminCommand::NodeAdd { .. } => &["token"],
        AdminCommand::UserLs => &["id", "email", "plan", "nodes"],
        AdminCommand::NodeLs { .. } => &["id", "email", "name"],
        AdminCommand::Invites => &["org", "team", "email"],
    };
    let rows = match answer {
        Value::Array(rows) => rows.iter().collect(),
        one => vec![one],
    };
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|row| columns.iter().map(|name| cell(&row[*name])).collect()).collect();
    for line in aligned(&rows) {
        print::line(line);
    }
}

/// A text as it is; a list of nodes as their names.
fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(|item| cell(&item["name"])).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    rows.iter()
        .map(|row| {
            let cells = row.iter().enumerate().map(|(column, cell)| format!("{cell:<0$}", width(column)));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        })
        .collect()
}
