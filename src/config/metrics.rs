//! `metrics:` who may read the numbers, in both configurations.

use serde_yaml::Value;

use super::fields::{Fields, KeyError};

/// Whether `/metrics` answers everybody, not only this machine. `path` names the section in errors.
pub(super) fn allow_remote(section: &Value, path: &str) -> Result<bool, KeyError> {
    let mut metrics = Fields::of(section, path)?;
    let remote = metrics.flag("allow_remote")?.unwrap_or(false);
    metrics.finish()?;
    Ok(remote)
}
