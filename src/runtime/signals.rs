//! SIGTERM and Ctrl-C: the first asks to finish, the second ends at once.

use tokio_util::sync::CancellationToken;

/// The exit code of a process that a second signal ended at once.
const ENDED_AT_ONCE: i32 = 130;

/// Cancels `stop` at the first signal; ends the process at the second.
pub fn cancel_on_signal(stop: CancellationToken) {
    outlive_file_limits();
    tokio::spawn(async move {
        signal().await;
        tracing::info!("stopping");
        stop.cancel();
        signal().await;
        std::process::exit(ENDED_AT_ONCE);
    });
}

/// Cancels `stop` when standard input ends, which it does with whoever holds its other side.
pub fn cancel_on_eof(stop: CancellationToken) {
    // A thread of its own: it may wait for ever in a read that nothing can interrupt.
    std::thread::spawn(move || {
        let ended = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        tracing::info!(read = ended.is_ok(), "stdin_ended");
        stop.cancel();
    });
}

/// A limit on file sizes is answered like a full disk, not with the end of the process.
#[cfg(unix)]
fn outlive_file_limits() {
    use tokio::signal::unix::{SignalKind, signal};
    /// SIGXFSZ, on Linux and the BSDs, macOS among them.
    const FILE_SIZE_EXCEEDED: i32 = 25;
    // Once a handler is there it stays, and the signal no longer ends the process.
    if let Err(error) = signal(SignalKind::from_raw(FILE_SIZE_EXCEEDED)) {
        tracing::debug!(%error, "sigxfsz_not_handled");
    }
}

/// Windows has no such limit.
#[cfg(not(unix))]
fn outlive_file_limits() {}

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
