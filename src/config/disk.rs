//! Whether what a configuration names on the disk can be what it is named for. `serve` finds the same out by using it.

use std::path::Path;

use super::fields::{Fields, KeyError};
use super::redsyn::TokenSource;
use super::{BrokerSecret, Config};

/// Looks at everything that is there already; what is missing is made by `serve`, or put there by a person.
pub(super) fn look(config: &Config, top: &mut Fields<'_>) -> Result<(), KeyError> {
    let broker = top.section("broker")?;
    folder(&config.broker.data_dir).map_err(|why| broker.wrong("dataDir", why))?;
    if let BrokerSecret::File(path) = &config.broker.secret {
        file(path).map_err(|why| broker.wrong("secretFile", why))?;
    }
    if let Some(TokenSource::File(path)) = config.redsyn.as_ref().map(|redsyn| &redsyn.token) {
        file(path).map_err(|why| {
            top.section("redsyn").map_or_else(|error| error, |section| section.wrong("tokenFile", why))
        })?;
    }
    Ok(())
}

/// A folder, or a place where one can be made.
fn folder(path: &Path) -> Result<(), String> {
    match path.ancestors().find(|part| part.exists()) {
        Some(part) if part.is_dir() => Ok(()),
        Some(part) if part == path => Err(format!("is {}, which is no folder", path.display())),
        Some(part) => Err(format!("is {}, but {} is no folder", path.display(), part.display())),
        None => Ok(()),
    }
}

/// A file, or a place where one can be.
fn file(path: &Path) -> Result<(), String> {
    if path.is_dir() {
        return Err(format!("is {}, which is a folder: name a file", path.display()));
    }
    path.parent().map_or(Ok(()), folder)
}
