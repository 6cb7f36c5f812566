//! Asks a node something: the process that runs, through its admin endpoint, or the store when none does.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};

use super::print;
use crate::admin::client::{self, AdminError};
use crate::config::{Config, Storage};
use crate::domain::clock::SystemClock;
use crate::domain::random::SystemRandom;
use crate::runtime::admin;
use crate::runtime::data_folder::DataFolder;
use crate::runtime::error::RunError;
use crate::runtime::operator::{Operator, Request};
use crate::runtime::telemetry;

/// What all these commands take.
#[derive(Clone, Debug, clap::Args)]
pub struct Asked {
    /// The configuration file of the node
    #[arg(long, default_value = super::DEFAULT_CONFIG, global = true)]
    pub config: PathBuf,
    /// Print one JSON object instead of text
    #[arg(long, global = true)]
    pub json: bool,
}

/// Runs a command: asks, then prints the answer as JSON or as `text` has it.
pub(super) fn run(asked: &Asked, request: &Request, text: impl FnOnce(&Value) -> String) -> ExitCode {
    telemetry::init("off");
    match super::block_on(ask(&asked.config, request)) {
        Ok(answer) if asked.json => print::line(&answer),
        Ok(answer) => print::text(text(&answer)),
        Err(error) if asked.json => {
            print::line(json!({"error": error.to_string()}));
            return ExitCode::from(error.exit_code());
        }
        Err(error) => return super::fail(&error),
    }
    ExitCode::SUCCESS
}

/// The answer.
///
/// # Errors
/// Why there is none.
pub(super) async fn ask(file: &Path, request: &Request) -> Result<Value, RunError> {
    let config = Config::load(file)?;
    let folder = &config.broker.data_dir;
    if config.broker.storage == Storage::Memory && config.redsyn.is_none() {
        return Err(RunError::other(format!(
            "broker.persist is false: a broker that keeps nothing has no folder to be asked through; see `{}`",
            super::called("selfcheck")
        )));
    }
    if !folder.is_dir() {
        return Err(RunError::other(format!(
            "there is no data folder {} yet: `{}` makes it",
            folder.display(),
            super::called("serve")
        )));
    }
    match DataFolder::for_a_moment(folder, "broker.dataDir")? {
        Some(free) => {
            let operator =
                Operator::of_stopped(&config, &free, SystemClock::shared(), SystemRandom::shared())?;
            let answer = operator.answer(request.clone()).await.map_err(RunError::Other);
            let closed = operator.local.close().await;
            let answer = answer?;
            closed.map_err(|error| RunError::other(format!("closing the store: {error}")))?;
            Ok(answer)
        }
        None => running(folder, request).await,
    }
}

async fn running(folder: &Path, request: &Request) -> Result<Value, RunError> {
    let endpoint = admin::find(folder).ok_or_else(|| {
        RunError::other(format!(
            "a process has {} open and cannot be asked: it is just starting, stopping, or no `serve`; try again",
            folder.display()
        ))
    })?;
    let request = serde_json::to_value(request).map_err(|error| RunError::other(error.to_string()))?;
    client::call(&endpoint, &request).await.map_err(|error| match error {
        AdminError::Refused(why) => RunError::Other(why),
        error => RunError::other(format!("the running process {}: {error}", endpoint.process)),
    })
}
