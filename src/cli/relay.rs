//! `redsyn-bridge relay --config FILE serve | user add|ls | node add`: a relay for many nodes, and who may use it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::config::relay::RelayConfig;
use crate::domain::clock::SystemClock;
use crate::domain::random::SystemRandom;
use crate::relay::{RelayError, Service, Settings};
use crate::runtime::error::RunError;
use crate::runtime::relay_host::RelayStore;
use crate::runtime::{signals, telemetry};
use crate::store::relay::{PersonId, PersonSummary};

const LOG: &str = "redsyn_bridge=info";

#[derive(Debug, Args)]
pub struct RelayArgs {
    /// The relay's configuration
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    #[command(subcommand)]
    command: RelayCommand,
}

#[derive(Debug, Subcommand)]
enum RelayCommand {
    /// Serve until SIGTERM or Ctrl-C
    Serve,
    /// People
    #[command(subcommand)]
    User(UserCommand),
    /// Nodes: machines and servers of people
    #[command(subcommand)]
    Node(NodeCommand),
}

#[derive(Debug, Subcommand)]
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
}

#[derive(Debug, Subcommand)]
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
    let store =
        RelayStore::open(&config.data_dir, settings(&config), SystemClock::shared(), SystemRandom::shared())
            .await?;
    if matches!(args.command, RelayCommand::Serve) {
        return serve(store, &config, stop).await;
    }
    let done = administer(&store.service, &args.command).await;
    done.and(store.close().await)
}

fn settings(config: &RelayConfig) -> Settings {
    Settings {
        plans: Arc::new(config.plans.clone()),
        trusted_proxies: config.trusted_proxies.clone(),
        insecure_targets: config.insecure_targets,
    }
}

async fn serve(store: RelayStore, config: &RelayConfig, stop: CancellationToken) -> Result<(), RunError> {
    let mut host = store.listen(&config.listen.to_string(), "listen").await?;
    println!("listening on http://{}", host.address());
    let ended = tokio::select! {
        () = stop.cancelled() => Ok(()),
        ended = host.ended() => ended,
    };
    ended.and(host.stop().await)
}

async fn administer(service: &Service, command: &RelayCommand) -> Result<(), RunError> {
    match command {
        RelayCommand::Serve => {}
        RelayCommand::User(UserCommand::Add { email, plan, json }) => {
            let id = service.create_person(email, plan).await.map_err(refused)?;
            print(*json, &id, || json!({"id": id.to_string(), "email": email, "plan": plan}));
        }
        RelayCommand::User(UserCommand::Ls { json }) => list(&service.list().await.map_err(refused)?, *json),
        RelayCommand::Node(NodeCommand::Add { user, name, json }) => {
            let person = person(service, user).await?;
            let token = service.create_node(person, name).await.map_err(refused)?;
            print(
                *json,
                &token.expose(),
                || json!({"token": token.expose(), "user": person.to_string(), "name": name}),
            );
        }
    }
    Ok(())
}

fn refused(error: RelayError) -> RunError {
    RunError::other(error.to_string())
}

async fn person(service: &Service, user: &str) -> Result<PersonId, RunError> {
    if let Ok(id) = user.parse() {
        return Ok(id);
    }
    let person = service.person_by_email(user).await.map_err(refused)?;
    person
        .map(|person| person.id)
        .ok_or_else(|| RunError::other(format!("there is no person {user}: add them with `relay user add`")))
}

fn list(people: &[PersonSummary], json: bool) {
    if json {
        let people: Vec<_> = people.iter().map(as_json).collect();
        println!("{}", json!(people));
        return;
    }
    let width = people.iter().map(|one| one.person.email.len()).max().unwrap_or_default();
    for one in people {
        let nodes: Vec<_> = one.nodes.iter().map(|node| node.name.as_str()).collect();
        println!(
            "{}  {:<width$}  {}  {}",
            one.person.id,
            one.person.email,
            one.person.plan,
            nodes.join(", ")
        );
    }
}

fn as_json(one: &PersonSummary) -> serde_json::Value {
    let nodes: Vec<_> = one
        .nodes
        .iter()
        .map(|node| json!({"id": node.id.to_string(), "name": node.name, "has_key": node.has_key}))
        .collect();
    json!({"id": one.person.id.to_string(), "email": one.person.email, "plan": one.person.plan, "nodes": nodes})
}

/// Just the one thing a script wants, or everything.
fn print(json: bool, bare: &dyn std::fmt::Display, all: impl FnOnce() -> serde_json::Value) {
    if json { println!("{}", all()) } else { println!("{bare}") }
}
