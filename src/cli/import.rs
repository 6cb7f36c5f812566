//! `redsyn-bridge import --from DIR`: take over the messages of a Node broker by hand.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;

use super::at_rest::AtRest;
use crate::domain::clock::{Clock, SystemClock};
use crate::runtime::error::RunError;
use crate::runtime::progress::Progress;
use crate::runtime::takeover::{self, Taken, Takeover};
use crate::runtime::telemetry;

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
    let at_rest = AtRest::open(&args.config, "no store to import into")?;
    let taken = take(args, &at_rest).await;
    let taken = at_rest.close(taken).await?;
    print(&taken, &args.from, args.json)
}

async fn take(args: &Args, at_rest: &AtRest) -> Result<Vec<Taken>, RunError> {
    let AtRest { config, folder, store, v2_store, loaded, stop } = at_rest;
    let now = SystemClock.now();
    let takeover = Takeover {
        store,
        v2_store: v2_store.clone(),
        from: &args.from,
        data: folder.path(),
        storage: config.broker.storage,
        too_old: now.minus(config.broker.message_ttl),
        now,
        stop: stop.clone(),
    };
    // Opening the JSONL store in the Node broker's own folder has taken over what was there.
    let opened = loaded.as_ref().and_then(|loaded| takeover::opened(loaded, folder.path()));
    let mut progress = Progress::new(Some(|done, all| super::tell("imported", done, all)));
    let mut taken = takeover.by_hand(&mut progress).await?;
    taken.extend(opened.filter(|_| takeover::is_same(&args.from, folder.path())));
    Ok(taken)
}

fn print(taken: &[Taken], from: &Path, json: bool) -> Result<(), RunError> {
    if taken.is_empty() {
        return Err(RunError::other(format!(
            "{} holds nothing of a Node broker: no relay.db, messages.jsonl, relay-v2.db or relay-v2.jsonl",
            from.display()
        )));
    }
    if json {
        super::print::line(json!({ "files": taken }));
    } else {
        for taken in taken {
            super::print::line(taken);
            let states = taken.states.iter().map(|(state, count)| (*state, *count));
            let keys = [("idempotency keys", taken.idempotency_keys)];
            for (kind, count) in states.chain(keys).filter(|(_, count)| *count > 0) {
                super::print::line(format_args!("  {count} {kind}"));
            }
        }
    }
    Ok(())
}
