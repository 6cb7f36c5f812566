//! SIGTERM and Ctrl-C: the first asks to finish, the second ends at once.

use tokio_util::sync::CancellationToken;

/// The exit code of a process that a second signal ended at once.
const ENDED_AT_ONCE: i32 = 130;

/// Cancels `stop` at the first signal; ends the process at the second.
pub fn cancel_on_signal(stop: CancellationToken) {
    outlive_file_limits();
    let mut ends = Ends::new();
    tokio::spawn(async move {
        ends.next().await;
        tracing::info!("stopping");
        stop.cancel();
        ends.next().await;
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

/// The signals that ask a process to end. They count from when this was made, also while nobody waits for them.
#[derive(Debug)]
struct Ends {
    #[cfg(unix)]
    terminate: Option<tokio::signal::unix::Signal>,
    #[cfg(unix)]
    interrupt: Option<tokio::signal::unix::Signal>,
    #[cfg(windows)]
    interrupt: Option<tokio::signal::windows::CtrlC>,
}

impl Ends {
    #[cfg(unix)]
    fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| {
            let signals = signal(kind);
            if let Err(error) = &signals {
                tracing::error!(%error, ?kind, "signal_not_available");
            }
            signals.ok()
        };
        Self { terminate: listen(SignalKind::terminate()), interrupt: listen(SignalKind::interrupt()) }
    }

    #[cfg(windows)]
    fn new() -> Self {
        let signals = tokio::signal::windows::ctrl_c();
        if let Err(error) = &signals {
            tracing::error!(%error, "ctrl_c_not_available");
        }
        Self { interrupt: signals.ok() }
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        tokio::select! {
            () = received(&mut self.terminate) => {}
            () = received(&mut self.interrupt) => {}
        }
    }

    #[cfg(windows)]
    async fn next(&mut self) {
        if let Some(signals) = &mut self.interrupt
            && signals.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
    }
}

/// Resolves at the next one; never, when there are none.
#[cfg(unix)]
async fn received(signals: &mut Option<tokio::signal::unix::Signal>) {
    if let Some(signals) = signals
        && signals.recv().await.is_some()
    {
        return;
    }
    std::future::pending().await
}

/// SIGHUPs, one after the other. None elsewhere than on Unix: there `reload` is the only way.
#[derive(Debug)]
pub struct Hangups {
    #[cfg(unix)]
    signals: Option<tokio::signal::unix::Signal>,
}

impl Hangups {
    /// Signals count from here on.
    #[cfg(unix)]
    pub fn new() -> Self {
        let signals = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup());
        if let Err(error) = &signals {
            tracing::error!(%error, "sighup_not_available");
        }
        Self { signals: signals.ok() }
    }

    #[cfg(not(unix))]
    pub const fn new() -> Self {
        Self {}
    }

    /// Resolves at the next one.
    #[cfg(unix)]
    pub async fn next(&mut self) {
        received(&mut self.signals).await;
    }

    #[cfg(not(unix))]
    pub async fn next(&mut self) {
        std::future::pending().await
    }
}

impl Default for Hangups {
    fn default() -> Self {
        Self::new()
    }
}
