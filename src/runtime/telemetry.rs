//! The log: one event a line on standard error, `RUST_LOG` decides how much. Ids and outcomes; never bodies, tokens
//! or signatures.

use tracing_subscriber::EnvFilter;

/// Starts logging, `default` unless `RUST_LOG` says otherwise. A second call changes nothing.
pub fn init(default: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let started = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A log that cannot be written costs its lines and nothing else: the crate's own complaint would panic.
        .log_internal_errors(false)
        .try_init();
    if started.is_err() {
        tracing::debug!("telemetry_already_started");
    }
}
