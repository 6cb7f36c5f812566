//! `redsyn-bridge serve`: run until Ctrl-C or SIGTERM.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::print;
use crate::config::Config;
use crate::domain::clock::{Clock, SystemClock};
use crate::domain::random::SystemRandom;
use crate::runtime::error::RunError;
use crate::runtime::node::{Node, Overrides};
use crate::runtime::{signals, telemetry};

/// What the log shows unless RUST_LOG says otherwise: what a person should act on.
const LOG: &str = "redsyn_bridge=warn";

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration file
    #[arg(long, default_value = super::DEFAULT_CONFIG)]
    pub config: PathBuf,
    /// Stop when standard input ends: for a parent that must not be outlived
    #[arg(long)]
    pub stop_on_eof: bool,
}

impl Default for Args {
    fn default() -> Self {
        Self { config: PathBuf::from(super::DEFAULT_CONFIG), stop_on_eof: false }
    }
}

pub fn run(args: &Args) -> ExitCode {
    telemetry::init(LOG);
    match super::block_on(serve(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::fail(&error),
    }
}

async fn serve(args: &Args) -> Result<(), RunError> {
    let file = args.config.as_path();
    let config = Config::load(file)?;
    for warning in &config.warnings {
        print::aside(format_args!("warning: {warning}"));
    }
    // Before anything is made, so that an early signal ends a start as cleanly as a run.
    let stop = CancellationToken::new();
    signals::cancel_on_signal(stop.clone());
    if args.stop_on_eof {
        signals::cancel_on_eof(stop.clone());
    }
    let overrides = Overrides {
        config_file: Some(file.to_owned()),
        stop: stop.clone(),
        tell: Some(|done, all| super::tell("taken over", done, all)),
        ..Overrides::default()
    };
    // A task of its own, since it may be busy for longer than a stop may take.
    let mut start = tokio::spawn(async move {
        Node::start(&config, &overrides, SystemClock::shared(), SystemRandom::shared()).await
    });
    let started = tokio::select! {
        started = &mut start => started,
        () = too_late(&stop) => {
            return not_started("stopped before the start was done; the next start does it from the beginning");
        }
    };
    let node = match started.map_err(|error| RunError::other(format!("the start failed: {error}")))? {
        Err(RunError::Stopped(why)) => return not_started(&why),
        node => node?,
    };
    print::text(first_screen(&node, file));
    node.run(stop).await
}

/// Whoever asks for the end gets it: exit code 0, as after a run.
fn not_started(why: &str) -> Result<(), RunError> {
    print::aside(why);
    Ok(())
}

/// Resolves when a start that was asked to end has had its time. What it leaves behind then is what a kill leaves.
async fn too_late(stop: &CancellationToken) {
    /// Less than the five seconds that a stop may take.
    const LIMIT: Duration = Duration::from_secs(4);
    stop.cancelled().await;
    SystemClock.sleep(LIMIT).await;
}

/// At most 15 lines that a newcomer can act on: where it listens, where the secret is, who has which address, and
/// one command to try.
fn first_screen(node: &Node, file: &Path) -> String {
    const MOST_AGENTS: usize = 6;
    let mut lines =
        vec![format!("redsyn-bridge {} is running ({})", env!("CARGO_PKG_VERSION"), file.display())];
    let mut row = |name: &str, text: String| lines.push(format!("  {name:<8} {text}"));
    row("broker", format!("http://{} ({} store)", node.broker(), node.storage));
    if !node.taken.is_empty() {
        let taken: Vec<_> = node.taken.iter().map(ToString::to_string).collect();
        row("import", taken.join("; "));
    }
    match &node.secret_file {
        Some(secret) => row("secret", secret.display().to_string()),
        None => row("secret", format!("broker.secret in {}", file.display())),
    }
    match (node.embedded_relay(), node.relay_url()) {
        (Some(_), Some(url)) => row("relay", format!("{url} (embedded)")),
        (None, Some(url)) => row("relay", format!("{url} (link is coming up; mail waits safely meanwhile)")),
        (_, None) => {
            row("relay", "none: a plain local broker (see the redsyn section of config.yaml)".into())
        }
    }
    let addresses = node.addresses();
    let width = addresses.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    for (index, (name, address)) in addresses.iter().take(MOST_AGENTS).enumerate() {
        row(if index == 0 { "agents" } else { "" }, format!("{name:<width$}  {address}"));
    }
    if addresses.len() > MOST_AGENTS {
        row("", format!("and {} more", addresses.len() - MOST_AGENTS));
    }
    let demo = super::alone("demo");
    row("try", format!("{demo}   (a sealed request crosses two bridges, and its answer returns)"));
    row("stop", "Ctrl-C".into());
    lines.join("\n") + "\n"
}
