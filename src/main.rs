//! Arguments to the library, its result to the exit code.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use redsyn_bridge::cli;

/// Local message broker for coding agents, bridge to REDSYN, and REDSYN relay.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Relay(cli::relay::RelayArgs),
}

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let Command::Relay(args) = Arguments::parse().command;
    cli::relay::run(args).unwrap_or_else(|error| {
        eprintln!("{error:#}");
        ExitCode::FAILURE
    })
}
