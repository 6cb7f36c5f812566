//! Arguments in, exit code out.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use redsyn_bridge::broker::carrier::NoCarrier;
use redsyn_bridge::broker::{Service, serve};
use redsyn_bridge::config::{Config, Storage};
use redsyn_bridge::domain::clock::SystemClock;
use redsyn_bridge::domain::random::SystemRandom;
use redsyn_bridge::store::sqlite::local::LocalStore;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the broker until it is told to stop.
    Serve {
        #[arg(long)]
        config: PathBuf,
    },
}

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let Command::Serve { config } = Arguments::parse().command;
    let config = match Config::load(&config) {
        Ok(config) => config,
        Err(error) => {
            tracing::error!(%error, "configuration_refused");
            return ExitCode::from(2);
        }
    };
    for warning in &config.warnings {
        tracing::warn!(%warning, "configuration_odd");
    }
    if config.broker.secret.is_none() {
        tracing::error!(error = "broker.secret is missing", "configuration_refused");
        return ExitCode::from(2);
    }
    match run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "broker_failed");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(config: Config) -> anyhow::Result<()> {
    let Some(secret) = config.broker.secret.clone() else { anyhow::bail!("broker.secret is missing") };
    let store = match config.broker.storage {
        Storage::Memory => LocalStore::in_memory()?,
        Storage::Sqlite => {
            std::fs::create_dir_all(&config.broker.data_dir)?;
            LocalStore::open(&config.broker.data_dir)?
        }
        Storage::Jsonl => anyhow::bail!("storage: jsonl is not there yet"),
    };
    let service = Service::new(
        &config,
        secret,
        store.clone(),
        SystemClock::shared(),
        SystemRandom::shared(),
        Arc::new(NoCarrier),
    );
    let listener = tokio::net::TcpListener::bind((config.broker.host.as_str(), config.broker.port)).await?;
    tracing::info!(address = %listener.local_addr()?, "broker_listening");
    let mut terminate = signal(SignalKind::terminate())?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    serve(listener, Arc::new(service), stop).await?;
    store.close().await?;
    Ok(())
}
