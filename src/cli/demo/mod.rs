//! `redsyn-bridge demo`: the README's picture in motion. One relay and two bridges on free ports in a temporary
//! folder; a sealed request crosses, and its answer returns. Exit code 0 only if every step held.

mod exchange;
mod stage;
mod story;

use std::process::ExitCode;

use crate::runtime::error::RunError;
use crate::runtime::telemetry;
use exchange::exchange;
use stage::Stage;
use story::Story;

const DEFAULT_TEXT: &str = "Is invoice 123 paid?";

#[derive(Debug, clap::Args)]
pub struct Args {
    /// What agent `close` asks `billing`
    #[arg(long, default_value = DEFAULT_TEXT)]
    pub text: String,
    /// Print each hop as a line of JSON
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args) -> ExitCode {
    // The story is the output; what goes wrong is told in it.
    telemetry::init("off");
    match super::block_on(play(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::fail(&error),
    }
}

async fn play(args: &Args) -> Result<(), RunError> {
    let story = Story::begin(args.json);
    story.title("acme's agent `close` asks globex's agent `billing`; the relay between them cannot read it");
    let stage = Stage::set(&story).await?;
    let result = exchange(&stage, &story, &args.text).await;
    let stopped = stage.strike().await;
    result?;
    stopped?;
    story.end("every step held");
    Ok(())
}
