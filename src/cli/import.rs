//! `redsyn-bridge import --from DIR`: take over the messages of a Node broker by hand.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;

use super::progress;
use crate::config::{Config, Storage};
use crate::domain::clock::{Clock, SystemClock};
use crate::domain::random::SystemRandom;
use crate::runtime::data_folder::DataFolder;
use crate::runtime::error::RunError;
use crate::runtime::takeover::{self, Taken, Takeover};
use crate::runtime::{local_store, telemetry};
use crate::store::sqlite::v2::V2Store;

const LOG: &str = "redsyn_bridge=warn";

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The data folder of the Node broker, which must not be running
    #[arg(long, value_name = "DIR")]
    pub from: PathBuf,
    /// The configuration of the store to import into
    #[arg(long, value_name = "FILE", default_value = super::DEFAULT_CONFIG)]
    pub config: PathBuf,
    /// Print the counts as JSON
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args) -> ExitCode {
    telemetry::init(LOG);
    match super::block_on(import(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::fail(&error),
    }
}

async fn import(args: &Args) -> Result<(), RunError> {
    let config = Config::load(&args.config)?;
    if config.broker.storage == Storage::Memory {
        return Err(RunError::Config(format!(
            "{}: broker.persist is false, so there is no store to import into",
            args.config.display()
        )));
    }
    let folder = DataFolder::open(&config.broker.data_dir, "broker.dataDir")?;
    let (store, loaded) = local_store::open(&config)?;
    let now = SystemClock.now();
    let takeover = Takeover {
        store: &store,
        v2_store: V2Store::new(store.db().clone(), SystemRandom::shared()),
        from: &args.from,
        data: folder.path(),
        storage: config.broker.storage,
        too_old: now.minus(config.broker.message_ttl),
        now,
    };
    // Opening the JSONL store in the Node broker's own folder has taken over what was there.
    let opened = loaded.as_ref().and_then(|loaded| takeover::opened(loaded, folder.path()));
    let taken = takeover.by_hand(&mut progress("imported")).await;
    let closed = store.close().await.map_err(|error| RunError::other(format!("closing the store: {error}")));
    let mut taken = taken?;
    closed?;
    taken.extend(opened.filter(|_| takeover::is_same(&args.from, folder.path())));
    print(&taken, &args.from, args.json)
}

fn print(taken: &[Taken], from: &Path, json: bool) -> Result<(), RunError> {
    if taken.is_empty() {
        return Err(RunError::other(format!(
            "{} holds nothing of a Node broker: no relay.db, messages.jsonl, relay-v2.db or relay-v2.jsonl",
            from.display()
        )));
    }
    if json {
        println!("{}", json!({ "files": taken }));
    } else {
        for taken in taken {
            println!("{taken}");
        }
    }
    Ok(())
}
