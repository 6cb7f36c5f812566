//! The command line: one file or folder per command. A command gives an exit code and prints for people.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub mod vectors;

#[derive(Debug, Parser)]
#[command(name = "redsyn-bridge", version, about)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check our cryptography and addresses against a file of known answers
    Vectors(vectors::Args),
}

pub fn run(cli: &Cli) -> ExitCode {
    match &cli.command {
        Command::Vectors(args) => vectors::run(args),
    }
}
