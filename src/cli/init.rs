//! `redsyn-bridge init`: a configuration with a fresh secret. Never overwrites one.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::domain::random::{Random, SystemRandom};
use crate::runtime::error::RunError;
use crate::runtime::secrets;

/// The commented reference, of which a new configuration is a copy.
const REFERENCE: &str = include_str!("../../config.yaml");
/// The line that a secret takes the place of.
const SECRET_KEY: &str = "  secretFile:";

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file to write
    #[arg(long, default_value = super::DEFAULT_CONFIG)]
    pub config: PathBuf,
}

pub fn run(args: &Args) -> ExitCode {
    match write(args) {
        Ok(text) => {
            super::print::text(text);
            ExitCode::SUCCESS
        }
        Err(error) => super::fail(&error),
    }
}

fn write(args: &Args) -> Result<String, RunError> {
    let file = &args.config;
    if file.exists() {
        let text = format!("{} exists and stays as it is; move it away to make a new one", file.display());
        return Err(RunError::other(text));
    }
    secrets::write_new(file, &configuration(&SystemRandom))?;
    let private = if cfg!(unix) { " (mode 0600)" } else { "" };
    Ok(format!(
        "wrote {} with a fresh secret{private}\n\n\
         next: {}\n\
         then: give each local agent the secret of that file, and never commit it\n",
        file.display(),
        super::called("serve"),
    ))
}

fn configuration(random: &dyn Random) -> String {
    let secret = format!("  secret: \"{}\"   # the HMAC secret the agents share", random.hex::<32>());
    let line = |line: &str| if line.starts_with(SECRET_KEY) { secret.clone() } else { line.to_owned() };
    REFERENCE.lines().map(|text| line(text) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{BrokerSecret, Config};

    #[test]
    fn the_new_configuration_is_the_reference_with_a_secret_of_its_own() {
        let (one, two) = (configuration(&SystemRandom), configuration(&SystemRandom));
        assert_ne!(one, two);
        let config = Config::parse(&one, "config.yaml".as_ref()).unwrap();
        assert!(matches!(config.broker.secret, BrokerSecret::Value(secret) if secret.expose().len() == 64));
        assert!(config.warnings.is_empty());
    }
}
