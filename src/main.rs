//! Arguments to the library, and its exit code back to the shell.

use std::process::ExitCode;

use clap::Parser;
use redsyn_bridge::cli::{self, Cli};

#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    cli::run(&Cli::parse())
}
