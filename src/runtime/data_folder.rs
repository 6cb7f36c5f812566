//! The data folder: made private, proven writable, and locked, since one process owns it at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::RunError;

/// The name of the locked file. The lock is the operating system's, so it ends with the process, however that ends.
const LOCK: &str = "redsyn-bridge.lock";

/// Follows the process in the file while a command has the folder.
const A_MOMENT: &str = " for a moment";
/// How often a start looks whether such a command is done, and how long it rests in between.
const LOOKS: u32 = 50;
const LOOKS_AT_ANYBODY: u32 = 3;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// A folder that this process owns until it is dropped.
#[derive(Debug)]
pub struct DataFolder {
    path: PathBuf,
    _lock: File,
}

impl DataFolder {
    /// Makes the folder when it is missing, checks that it can be written, and locks it. `setting` is the key that
    /// names it. A command that has it for a moment is waited for.
    ///
    /// # Errors
    /// When it cannot be made or written, or another process owns it.
    pub fn open(path: &Path, setting: &str) -> Result<Self, RunError> {
        let lock = path.join(LOCK);
        for look in 0..LOOKS {
            if let Some(folder) = Self::lock(path, setting, "")? {
                return Ok(folder);
            }
            // Whoever has just got it has not yet said for how long, and some systems let nobody read it.
            let may_be_a_command = look < LOOKS_AT_ANYBODY;
            if !may_be_a_command && !holder(&lock).is_some_and(|holder| holder.ends_with(A_MOMENT)) {
                break;
            }
            rest();
        }
        Err(in_use(path, &lock, setting))
    }

    /// The same for a command that only looks at a stopped node, or changes a little; `None` when another process owns
    /// the folder.
    ///
    /// # Errors
    /// When it cannot be made or written.
    pub fn for_a_moment(path: &Path, setting: &str) -> Result<Option<Self>, RunError> {
        Self::lock(path, setting, A_MOMENT)
    }

    /// `how_long` follows the process in the file.
    fn lock(path: &Path, setting: &str, how_long: &str) -> Result<Option<Self>, RunError> {
        let cannot = |what: &str, error: &std::io::Error| {
            RunError::other(format!(
                "cannot {what} the data folder {}: {error}; make it writable or set {setting} to another one",
                path.display()
            ))
        };
        if path.is_dir() {
            warn_if_open_to_others(path);
        } else {
            std::fs::create_dir_all(path)
                .and_then(|()| make_private(path))
                .map_err(|error| cannot("create", &error))?;
        }
        let file = path.join(LOCK);
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&file)
            .map_err(|error| cannot("write to", &error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(cannot("lock", &error)),
        }
        lock.set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| writeln!(lock, "{}{how_long}", std::process::id()))
            .map_err(|error| cannot("write to", &error))?;
        Ok(Some(Self { path: path.to_owned(), _lock: lock }))
    }

    /// Whether a process owns the folder just now.
    pub fn is_owned(path: &Path) -> bool {
        let file = OpenOptions::new().read(true).write(true).open(path.join(LOCK));
        file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

#[expect(clippy::disallowed_methods, reason = "a start has nothing else to do until it has its folder")]
fn rest() {
    std::thread::sleep(BETWEEN_LOOKS);
}

/// Who has the lock, as far as it tells.
fn holder(lock: &Path) -> Option<String> {
    let mut holder = String::new();
    // Some systems do not let others read a locked file.
    File::open(lock).and_then(|mut file| file.read_to_string(&mut holder)).ok()?;
    Some(holder.trim().to_owned())
}

fn in_use(path: &Path, lock: &Path, setting: &str) -> RunError {
    let process = match holder(lock) {
        Some(pid) if !pid.is_empty() => format!("process {}", pid.trim_end_matches(A_MOMENT)),
        _ => "another process".to_owned(),
    };
    RunError::other(format!(
        "the data folder {} belongs to {process}, which is running; stop it or set {setting} to another folder",
        path.display()
    ))
}

#[cfg(unix)]
fn make_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
}

/// On Windows a folder in the user's profile is private by its inherited access list.
#[cfg(not(unix))]
fn make_private(_path: &Path) -> std::io::Result<()> {
    Ok(())
}

/// A folder that was there is somebody's choice; its files are private all the same.
#[cfg(unix)]
fn warn_if_open_to_others(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let Ok(metadata) = std::fs::metadata(path) else { return };
    if metadata.permissions().mode() & 0o077 != 0 {
        tracing::info!(folder = ?path, "data_folder_open_to_others");
    }
}

#[cfg(not(unix))]
fn warn_if_open_to_others(_path: &Path) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_owner_is_told_who_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/data");
        let first = DataFolder::open(&path, "broker.dataDir").unwrap();
        let refused = DataFolder::open(&path, "broker.dataDir").unwrap_err().to_string();
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        drop(first);
        DataFolder::open(&path, "broker.dataDir").unwrap();
    }

    #[test]
    fn a_start_waits_for_a_command_and_a_command_for_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let command = DataFolder::for_a_moment(dir.path(), "broker.dataDir").unwrap().unwrap();
        // As if it had just got it; elsewhere nobody else writes to a locked file.
        #[cfg(unix)]
        std::fs::write(dir.path().join(LOCK), "").unwrap();
        assert!(DataFolder::for_a_moment(dir.path(), "broker.dataDir").unwrap().is_none());
        let start = std::thread::spawn({
            let path = dir.path().to_owned();
            move || DataFolder::open(&path, "broker.dataDir")
        });
        drop(command);
        start.join().unwrap().unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn others_cannot_look_into_it() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let _folder = DataFolder::open(&path, "broker.dataDir").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_file_in_its_place_is_a_clear_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        std::fs::write(&path, "").unwrap();
        let error = DataFolder::open(&path, "broker.dataDir").unwrap_err().to_string();
        assert!(error.contains("data folder") && error.contains("broker.dataDir"), "{error}");
    }
}
