//! SIGTERM and Ctrl-C: the first asks to finish, the second ends at once.

use tokio_util::sync::CancellationToken;

/// The exit code of a process that a second signal ended at once.
const ENDED_AT_ONCE: i32 = 130;

/// Cancels `stop` at the first signal; ends the process at the second.
pub fn cancel_on_signal(stop: CancellationToken) {
    tokio::spawn(async move {
        signal().await;
        tracing::info!("stopping");
        stop.cancel();
        signal().await;
        std::process::exit(ENDED_AT_ONCE);
    });
}

#[cfg(unix)]
async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        tracing::error!("sigterm_not_available");
        return interrupt().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        () = interrupt() => {}
    }
}

#[cfg(not(unix))]
async fn signal() {
    interrupt().await;
}

async fn interrupt() {
    if let Err(error) = tokio::signal::ctrl_c().await {
        tracing::error!(%error, "ctrl_c_not_available");
        std::future::pending::<()>().await;
    }
}
