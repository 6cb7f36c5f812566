//! `metrics:` who may read the numbers, in both configurations.

use super::fields::{Fields, KeyError};

/// Whether `/metrics` answers everybody, not only this machine.
pub(super) fn allow_remote(mut metrics: Fields<'_>) -> Result<bool, KeyError> {
    let remote = metrics.flag("allow_remote")?.unwrap_or(false);
    metrics.refuse_unknown()?;
    Ok(remote)
}
