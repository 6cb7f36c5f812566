//! `redsyn-bridge export --format node-sqlite|node-jsonl --to DIR`: the files of the Node broker, to go back to it.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;

use super::at_rest::AtRest;
use crate::runtime::error::RunError;
use crate::runtime::hand_over::{self, HandedOver, hand_over};
use crate::runtime::progress::Progress;
use crate::runtime::{takeover, telemetry};

const LOG: &str = "redsyn_bridge=warn";

#[derive(Debug, clap::Args)]
pub struct Args {
    /// What the Node broker is to read
    #[arg(long, value_enum)]
    pub format: Format,
    /// Where the files go; none that is there is overwritten
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// The configuration of the store to export
    #[arg(long, value_name = "FILE", default_value = super::DEFAULT_CONFIG)]
    pub config: PathBuf,
    /// Print the counts as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Format {
    /// `relay.db` and `relay-v2.db`, for Node 22.5 and newer
    NodeSqlite,
    /// `messages.jsonl` and `relay-v2.jsonl`, for older ones
    NodeJsonl,
}

pub fn run(args: &Args) -> ExitCode {
    telemetry::init(LOG);
    match super::block_on(export(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::fail(&error),
    }
}

async fn export(args: &Args) -> Result<(), RunError> {
    let at_rest = AtRest::open(&args.config, "nothing to export")?;
    let written = write(args, &at_rest).await;
    let written = at_rest.close(written).await?;
    if args.json {
        super::print::line(json!({ "files": written }));
        return Ok(());
    }
    for HandedOver { file, messages, away } in written {
        super::print::line(format_args!("{messages} messages in {}", file.display()));
        if away > 0 {
            super::print::line(format_args!(
                "{away} of them are for somebody beyond this machine: the Node broker delivers them to nobody"
            ));
        }
    }
    Ok(())
}

async fn write(args: &Args, at_rest: &AtRest) -> Result<[HandedOver; 2], RunError> {
    let AtRest { folder, store, v2_store, loaded, stop, .. } = at_rest;
    if let Some(loaded) = loaded {
        takeover::opened(loaded, folder.path());
    }
    let format = match args.format {
        Format::NodeSqlite => hand_over::Format::Sqlite,
        Format::NodeJsonl => hand_over::Format::Jsonl,
    };
    let mut progress = Progress::new(Some(|done, all| super::tell("exported", done, all)));
    hand_over(store, v2_store, format, &args.to, &mut progress, stop).await
}
