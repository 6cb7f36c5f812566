//! Arguments to the library, and its exit code back to the shell.

use std::process::ExitCode;

use clap::Parser;
use redsyn_bridge::cli::{self, Cli};

fn main() -> ExitCode {
    cli::run(&Cli::parse())
}
