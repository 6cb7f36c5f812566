//! The command line: one file or folder per command. A command gives an exit code and prints for people.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub mod relay;
pub mod vectors;

#[derive(Debug, Parser)]
#[command(name = "redsyn-bridge", version, about)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run or administer a REDSYN relay
    Relay(relay::RelayArgs),
    /// Check our cryptography and addresses against a file of known answers
    Vectors(vectors::Args),
}

pub fn run(cli: &Cli) -> ExitCode {
    match &cli.command {
        Command::Relay(args) => relay::run(args),
        Command::Vectors(args) => vectors::run(args),
    }
}
