//! `redsyn-bridge vectors FILE`: runs every case of a file of vectors (the form of `compat/vectors/vectors.json`)
//! through our own code. Exit code 0 when every strict case passes, 1 when one fails, 2 when the file is no such file.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

mod addresses;
mod canonical;
mod case;
mod envelopes;
mod file;
mod keys;
mod report;
mod sealed;
mod webhooks;

pub use case::Failure;
pub use file::{FormError, check};
pub use report::{Checked, Outcome, Report};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file of vectors, JSON
    pub file: PathBuf,
    /// Print one JSON object instead of lines
    #[arg(long)]
    pub json: bool,
}

const CANNOT_CHECK: u8 = 2;

pub fn run(args: &Args) -> ExitCode {
    let shown = args.file.display();
    let checked = read(&args.file)
        .map_err(|error| format!("cannot read {shown}: {error}"))
        .and_then(|bytes| check(&bytes).map_err(|error| format!("{shown} is no file of vectors: {error}")));
    match checked {
        Ok(report) => print(&report, args.json),
        Err(sentence) => {
            // If even this cannot be written, the exit code still says it.
            let _ = writeln!(io::stderr(), "redsyn-bridge: {sentence}");
            ExitCode::from(CANNOT_CHECK)
        }
    }
}

fn print(report: &Report, json: bool) -> ExitCode {
    let mut out = io::stdout().lock();
    let written = if json { writeln!(out, "{:#}", report.to_json()) } else { write!(out, "{report}") };
    match written {
        Ok(()) if report.failed() == 0 => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(_) => ExitCode::from(CANNOT_CHECK),
    }
}

/// Far more than any file of vectors; a device that never ends must not fill the memory.
const FILE_LIMIT: u64 = 64 * 1024 * 1024;

fn read(file: &std::path::Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    std::fs::File::open(file)?.take(FILE_LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_LIMIT { Err(std::io::Error::other("it is over 64 MB")) } else { Ok(bytes) }
}
