//! How many files, and so connections, this process may have open. Shells allow a few hundred or a thousand and mean
//! programs that cannot cope with more; a few clients that never hang up would keep everybody else out.

/// More than the relay's connections and the databases' files together.
#[cfg(unix)]
const ENOUGH: u64 = 65_536;

/// Raises the limit as far as the system lets it. The old one is good enough to go on with.
#[cfg(unix)]
pub fn raise() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(ENOUGH, |most| most.min(ENOUGH));
    if current.is_none_or(|current| current >= wanted) {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }) {
        tracing::warn!(?current, wanted, %error, "open_files_not_raised");
    }
}

/// Sockets are not files here, and have no such limit.
#[cfg(not(unix))]
pub const fn raise() {}
