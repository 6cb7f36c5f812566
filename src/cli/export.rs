//! `redsyn-bridge export --format node-sqlite|node-jsonl --to DIR`: the files of the Node broker, to go back to it.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;

use super::progress;
use crate::config::{Config, Storage};
use crate::domain::random::SystemRandom;
use crate::runtime::data_folder::DataFolder;
use crate::runtime::error::RunError;
use crate::runtime::hand_over::{self, HandedOver, hand_over};
use crate::runtime::{local_store, takeover, telemetry};
use crate::store::sqlite::v2::V2Store;

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
    let config = Config::load(&args.config)?;
    if config.broker.storage == Storage::Memory {
        return Err(RunError::Config(format!(
            "{}: broker.persist is false, so there is nothing to export",
            args.config.display()
        )));
    }
    let folder = DataFolder::open(&config.broker.data_dir, "broker.dataDir")?;
    let (store, loaded) = local_store::open(&config)?;
    if let Some(loaded) = &loaded {
        takeover::opened(loaded, folder.path());
    }
    let format = match args.format {
        Format::NodeSqlite => hand_over::Format::Sqlite,
        Format::NodeJsonl => hand_over::Format::Jsonl,
    };
    let v2_store = V2Store::new(store.db().clone(), SystemRandom::shared());
    let written = hand_over(&store, &v2_store, format, &args.to, &mut progress("exported")).await;
    let closed = store.close().await.map_err(|error| RunError::other(format!("closing the store: {error}")));
    let written = written?;
    closed?;
    if args.json {
        println!("{}", json!({ "files": written }));
        return Ok(());
    }
    for HandedOver { file, messages, away } in written {
        println!("{messages} messages in {}", file.display());
        if away > 0 {
            println!(
                "{away} of them are for somebody beyond this machine: the Node broker delivers them to nobody"
            );
        }
    }
    Ok(())
}
