//! `relay --config FILE serve | user add|ls | node add`.

use std::fs::{File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::relay::RelayConfig;
use crate::domain::clock::SystemClock;
use crate::domain::random::SystemRandom;
use crate::relay::{Service, Settings, serve};
use crate::store::relay::PersonId;
use crate::store::sqlite::relay::SqliteRelay;

/// How long a stopped relay may take: longer than it gives its connections, as long as a supervisor waits.
const STOP_TIME: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
pub struct RelayArgs {
    /// The relay's configuration.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    #[command(subcommand)]
    command: RelayCommand,
}

#[derive(Debug, Subcommand)]
enum RelayCommand {
    /// Serve until SIGTERM or Ctrl-C.
    Serve,
    /// People.
    #[command(subcommand)]
    User(UserCommand),
    /// Nodes: machines and servers of people.
    #[command(subcommand)]
    Node(NodeCommand),
}

#[derive(Debug, Subcommand)]
enum UserCommand {
    /// Add a person; prints their id.
    Add {
        #[arg(long)]
        email: String,
        #[arg(long)]
        plan: String,
        #[arg(long)]
        json: bool,
    },
    /// List people and their nodes.
    Ls {
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
enum NodeCommand {
    /// Add a node; prints its token, which is never shown again.
    Add {
        /// Email or id of the person.
        #[arg(long)]
        user: String,
        #[arg(long)]
        name: String,
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command on a runtime of its own.
pub fn run(args: &RelayArgs) -> ExitCode {
    match try_run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If even this cannot be written, the exit code still says it.
            let _ = writeln!(std::io::stderr(), "redsyn-bridge: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn try_run(args: &RelayArgs) -> anyhow::Result<()> {
    let config = RelayConfig::load(&args.config)?;
    if matches!(args.command, RelayCommand::Serve) {
        tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        let _lock = lock(&config.data_dir)?;
        let service = open(&config).await?;
        let done = command(&args.command, &config, &service).await;
        let closed = service.close().await;
        done.and_then(|()| Ok(closed?))
    });
    // A blocked file operation must not keep the process from ending.
    runtime.shutdown_timeout(STOP_TIME);
    done
}

async fn command(command: &RelayCommand, config: &RelayConfig, service: &Arc<Service>) -> anyhow::Result<()> {
    match command {
        RelayCommand::Serve => serve_until_signal(config, service).await,
        RelayCommand::User(UserCommand::Add { email, plan, json }) => {
            let id = service.create_person(email, plan).await?;
            print(*json, &id, || json!({"id": id.to_string(), "email": email, "plan": plan}))
        }
        RelayCommand::User(UserCommand::Ls { json }) => list(service, *json).await,
        RelayCommand::Node(NodeCommand::Add { user, name, json }) => {
            let person = person(service, user).await?;
            let token = service.create_node(person, name).await?;
            print(
                *json,
                &token.expose(),
                || json!({"token": token.expose(), "user": person.to_string(), "name": name}),
            )
        }
    }
}

/// One process owns a store. The lock goes with the process, however it ends.
fn lock(data_dir: &Path) -> anyhow::Result<File> {
    std::fs::create_dir_all(data_dir).with_context(|| format!("cannot create {}", data_dir.display()))?;
    let path = data_dir.join("relay.lock");
    let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            bail!("a relay is running on {}: stop it first", data_dir.display())
        }
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", path.display()))
        }
    }
}

async fn open(config: &RelayConfig) -> anyhow::Result<Arc<Service>> {
    let (plans, random) = (Arc::new(config.plans.clone()), SystemRandom::shared());
    let store = SqliteRelay::open(&config.data_dir, Arc::clone(&plans), Arc::clone(&random))
        .await
        .with_context(|| format!("cannot open the store in {}", config.data_dir.display()))?;
    let settings = Settings { plans, trusted_proxies: config.trusted_proxies.clone() };
    Ok(Service::new(Arc::new(store), SystemClock::shared(), random, settings))
}

async fn serve_until_signal(config: &RelayConfig, service: &Arc<Service>) -> anyhow::Result<()> {
    let listener = TcpListener::bind(config.listen)
        .await
        .with_context(|| format!("cannot listen on {}", config.listen))?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    writeln!(std::io::stdout(), "listening on http://{}", listener.local_addr()?)?;
    serve(listener, Arc::clone(service), stop).await?;
    Ok(())
}

async fn person(service: &Service, user: &str) -> anyhow::Result<PersonId> {
    if let Ok(id) = user.parse() {
        return Ok(id);
    }
    let person = service.person_by_email(user).await?;
    person.map(|person| person.id).with_context(|| format!("there is no person {user}"))
}

async fn list(service: &Service, json: bool) -> anyhow::Result<()> {
    let people = service.list().await?;
    let mut out = std::io::stdout().lock();
    if json {
        let people: Vec<_> = people
            .iter()
            .map(|one| {
                let nodes: Vec<_> = one
                    .nodes
                    .iter()
                    .map(|node| json!({"id": node.id.to_string(), "name": node.name, "has_key": node.has_key}))
                    .collect();
                json!({"id": one.person.id.to_string(), "email": one.person.email, "plan": one.person.plan, "nodes": nodes})
            })
            .collect();
        writeln!(out, "{}", json!(people))?;
        return Ok(());
    }
    for one in people {
        let names: Vec<_> = one.nodes.iter().map(|node| node.name.as_str()).collect();
        writeln!(out, "{}\t{}\t{}\t{}", one.person.id, one.person.email, one.person.plan, names.join(","))?;
    }
    Ok(())
}

/// Just the one thing a script wants, or everything.
fn print(
    json: bool,
    bare: &dyn std::fmt::Display,
    all: impl FnOnce() -> serde_json::Value,
) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", all())?
    } else {
        writeln!(out, "{bare}")?
    }
    Ok(())
}
