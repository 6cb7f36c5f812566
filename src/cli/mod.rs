//! The command line: one file or folder per command. A command gives an exit code and prints for people.
//!
//! Exit codes: 0 done, 1 it failed or a signal came before it was done, 2 the command line or the configuration is
//! wrong, 130 a second signal ended it at once. `serve` is done when a signal ends it, also during its start.

use std::borrow::Cow;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::{Parser, Subcommand};

use crate::runtime::error::RunError;

mod ask;
mod at_rest;
pub mod config;
pub mod demo;
pub mod export;
pub mod import;
pub mod init;
pub mod keys;
pub mod look;
mod print;
pub mod relay;
pub mod selfcheck;
pub mod serve;
mod table;
pub mod vectors;

/// The configuration that is read when none is named.
const DEFAULT_CONFIG: &str = "config.yaml";

#[derive(Debug, Parser)]
#[command(name = "redsyn-bridge", version, about)]
pub struct Cli {
    /// Without one: `serve`, from ./config.yaml
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the broker, the bridge and the embedded relay until Ctrl-C (the default)
    Serve(serve::Args),
    /// Write a configuration with a fresh secret
    Init(init::Args),
    /// Look at a configuration without starting anything
    Config(config::Args),
    /// See a sealed request cross two bridges and its answer return
    Demo(demo::Args),
    /// What runs, whether the relay answers, and what waits
    Status(look::Args),
    /// Mail that waits for a decision of yours
    Held(look::Args),
    /// Mail on its way out, why it waits, and the next try
    Outbox(look::Args),
    /// How far a message has come
    Trace(look::TraceArgs),
    /// Look at all that must be right for this node to work
    Selfcheck(selfcheck::Args),
    /// Have the running process read contacts, agents and policies again
    Reload(look::Args),
    /// This node's keys, and decisions about those of others
    Keys(keys::Args),
    /// Run or administer a REDSYN relay for many nodes
    Relay(relay::RelayArgs),
    /// Take over the messages of a Node broker (a start in its data folder does so by itself)
    Import(import::Args),
    /// Write the messages as the files of the Node broker, to go back to it
    Export(export::Args),
    /// Check our cryptography and addresses against a file of known answers
    Vectors(vectors::Args),
}

/// The configuration of the command that runs, when it is not the default: what we tell a person to type names it, too.
static NAMED_CONFIG: OnceLock<PathBuf> = OnceLock::new();

impl Command {
    fn config(&self) -> Option<&Path> {
        let config = match self {
            Self::Serve(args) => &args.config,
            Self::Init(args) => &args.config,
            Self::Status(args) | Self::Held(args) | Self::Outbox(args) | Self::Reload(args) => {
                &args.asked.config
            }
            Self::Trace(args) => &args.asked.config,
            Self::Selfcheck(args) => &args.asked.config,
            Self::Keys(args) => &args.asked.config,
            Self::Import(args) => &args.config,
            Self::Export(args) => &args.config,
            Self::Config(_) | Self::Demo(_) | Self::Relay(_) | Self::Vectors(_) => return None,
        };
        Some(config)
    }
}

pub fn run(cli: &Cli) -> ExitCode {
    let config = cli.command.as_ref().and_then(Command::config);
    if let Some(config) = config.filter(|config| *config != Path::new(DEFAULT_CONFIG)) {
        // Set once: a process runs one command.
        let _ = NAMED_CONFIG.set(config.to_owned());
    }
    match &cli.command {
        None => serve::run(&serve::Args::default()),
        Some(Command::Serve(args)) => serve::run(args),
        Some(Command::Init(args)) => init::run(args),
        Some(Command::Config(args)) => config::run(args),
        Some(Command::Demo(args)) => demo::run(args),
        Some(Command::Status(args)) => look::status(args),
        Some(Command::Held(args)) => look::held(args),
        Some(Command::Outbox(args)) => look::outbox(args),
        Some(Command::Trace(args)) => look::trace(args),
        Some(Command::Selfcheck(args)) => selfcheck::run(args),
        Some(Command::Reload(args)) => look::reload(args),
        Some(Command::Keys(args)) => keys::run(args),
        Some(Command::Relay(args)) => relay::run(args),
        Some(Command::Import(args)) => import::run(args),
        Some(Command::Export(args)) => export::run(args),
        Some(Command::Vectors(args)) => vectors::run(args),
    }
}

/// Runs a command that needs the asynchronous runtime.
fn block_on<T>(work: impl Future<Output = Result<T, RunError>>) -> Result<T, RunError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| RunError::other(format!("cannot start: {error}")))?;
    let result = runtime.block_on(work);
    // What is still busy was given up.
    runtime.shutdown_background();
    result
}

/// Tells on standard error how far a long work is.
fn tell(done: &str, count: usize, all: Option<usize>) {
    let all = all.map_or_else(String::new, |all| format!(" of {all}"));
    print::aside(format_args!("{done} {count}{all} messages"));
}

/// Says why on standard error.
fn fail(error: &RunError) -> ExitCode {
    print::aside(error);
    ExitCode::from(error.exit_code())
}

/// A command of ours as a person here can type it: a newcomer's PATH does not have the program yet, and the file they
/// named is named again.
fn called(command: &str) -> String {
    match NAMED_CONFIG.get() {
        None => alone(command),
        Some(config) => format!("{} --config {}", alone(command), quoted(&config.to_string_lossy())),
    }
}

/// The same for a command that takes no configuration.
fn alone(command: &str) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "redsyn-bridge".to_owned());
    format!("{} {command}", quoted(&program))
}

/// As a shell takes it for one word.
fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |one: char| one.is_alphanumeric() || "-_./\\:~+@".contains(one);
    if word.chars().all(is_plain) { Cow::Borrowed(word) } else { Cow::Owned(format!("\"{word}\"")) }
}
