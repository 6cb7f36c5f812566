//! The command line: one file or folder per command. A command gives an exit code and prints for people.
//!
//! Exit codes: 0 done, 1 it failed, 2 the command line or the configuration is wrong.

use std::future::Future;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::runtime::error::RunError;

pub mod config;
pub mod demo;
pub mod export;
pub mod import;
pub mod init;
pub mod relay;
pub mod serve;
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
    /// Run or administer a REDSYN relay for many nodes
    Relay(relay::RelayArgs),
    /// Take over the messages of a Node broker (a start in its data folder does so by itself)
    Import(import::Args),
    /// Write the messages as the files of the Node broker, to go back to it
    Export(export::Args),
    /// Check our cryptography and addresses against a file of known answers
    Vectors(vectors::Args),
}

pub fn run(cli: &Cli) -> ExitCode {
    match &cli.command {
        None => serve::run(&serve::Args::default()),
        Some(Command::Serve(args)) => serve::run(args),
        Some(Command::Init(args)) => init::run(args),
        Some(Command::Config(args)) => config::run(args),
        Some(Command::Demo(args)) => demo::run(args),
        Some(Command::Relay(args)) => relay::run(args),
        Some(Command::Import(args)) => import::run(args),
        Some(Command::Export(args)) => export::run(args),
        Some(Command::Vectors(args)) => vectors::run(args),
    }
}

/// Runs a command that needs the asynchronous runtime.
fn block_on(work: impl Future<Output = Result<(), RunError>>) -> Result<(), RunError> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| RunError::other(format!("cannot start: {error}")))?
        .block_on(work)
}

/// Tells on standard error how far a long work is, so rarely that it hides nothing else.
fn progress(done: &'static str) -> impl FnMut(usize, Option<usize>) {
    const EVERY: usize = 10_000;
    let mut told = 0;
    move |count, all| {
        if count / EVERY > told {
            let all = all.map_or_else(String::new, |all| format!(" of {all}"));
            eprintln!("{done} {count}{all} messages");
        }
        told = count / EVERY;
    }
}

/// Says why on standard error.
fn fail(error: &RunError) -> ExitCode {
    eprintln!("redsyn-bridge: {error}");
    ExitCode::from(error.exit_code())
}

/// A command of ours as a person here can type it: a newcomer's PATH does not have the program yet.
fn called(command: &str) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "redsyn-bridge".to_owned());
    format!("{program} {command}")
}
