//! Secrets in files that only their owner may read: found again at each start, made at the first.

use std::io::Write;
use std::path::Path;

use zeroize::Zeroizing;

use super::error::RunError;
use crate::bridge::keys::NodeKeys;
use crate::crypto::secret::Secret;
use crate::domain::random::Random;

/// The broker secret of `file`, made of 32 random bytes in hex when the file is missing.
///
/// # Errors
/// When the file cannot be read or written, or is blank.
pub fn broker_secret(file: &Path, random: &dyn Random) -> Result<Secret, RunError> {
    let text = find_or_make(file, || Zeroizing::new(format!("{}\n", random.hex::<32>())))?;
    parse_secret(file, &text)
}

/// A token that was put into `file`.
///
/// # Errors
/// When the file is missing, cannot be read, or is blank.
pub fn token(file: &Path) -> Result<Secret, RunError> {
    let text = read(file)?.ok_or_else(|| {
        RunError::other(format!(
            "the token file {} does not exist: write the node's token into it, or set REDSYN_TOKEN",
            file.display()
        ))
    })?;
    parse_secret(file, &text)
}

/// The token of `file`, if it exists.
///
/// # Errors
/// When the file cannot be read or is blank.
pub fn known_token(file: &Path) -> Result<Option<Secret>, RunError> {
    read(file)?.map(|text| parse_secret(file, &text)).transpose()
}

/// Puts a token into `file`, in place of what was there.
///
/// # Errors
/// When the file cannot be written.
pub fn keep_token(file: &Path, token: &Secret) -> Result<(), RunError> {
    write(file, &format!("{}\n", token.expose()), true)
}

/// Writes a file of secrets that did not exist before.
///
/// # Errors
/// When it exists by now, or cannot be written.
pub fn write_new(file: &Path, text: &str) -> Result<(), RunError> {
    write(file, text, false)
}

/// This node's own keys.
///
/// # Errors
/// When the file cannot be read or written, or holds no keys.
pub fn node_keys(file: &Path, random: &dyn Random) -> Result<NodeKeys, RunError> {
    let text = find_or_make(file, || NodeKeys::generate(random).to_text())?;
    NodeKeys::parse(&text).map_err(|error| {
        RunError::other(format!(
            "the key file {}: {error}; restore it from a copy, or move it away to start with new keys",
            file.display()
        ))
    })
}

fn parse_secret(file: &Path, text: &str) -> Result<Secret, RunError> {
    match text.trim() {
        "" => {
            Err(RunError::other(format!("{} is blank: put the secret into it or delete it", file.display())))
        }
        text => Ok(Secret::new(text)),
    }
}

fn find_or_make(
    file: &Path,
    make: impl FnOnce() -> Zeroizing<String>,
) -> Result<Zeroizing<String>, RunError> {
    if let Some(text) = read(file)? {
        return Ok(text);
    }
    let text = make();
    write(file, &text, false)?;
    Ok(text)
}

fn read(file: &Path) -> Result<Option<Zeroizing<String>>, RunError> {
    match std::fs::read_to_string(file) {
        Ok(text) => {
            warn_if_open_to_others(file);
            Ok(Some(Zeroizing::new(text)))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(RunError::other(format!("cannot read {}: {error}", file.display()))),
    }
}

/// Writes a new file beside it and moves it into place, so that a crash leaves the old one or the new one whole.
fn write(file: &Path, text: &str, replace: bool) -> Result<(), RunError> {
    let cannot = |error: std::io::Error| RunError::other(format!("cannot write {}: {error}", file.display()));
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(cannot)?;
    // A temporary file is made with mode 0600.
    let mut temporary = tempfile::NamedTempFile::new_in(folder).map_err(cannot)?;
    temporary.write_all(text.as_bytes()).map_err(cannot)?;
    temporary.as_file().sync_all().map_err(cannot)?;
    let placed = if replace { temporary.persist(file) } else { temporary.persist_noclobber(file) };
    placed.map_err(|error| cannot(error.error))?;
    sync_folder(folder).map_err(cannot)
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::File::open(folder)?.sync_all()
}

/// Windows has no handle on a folder to flush; its file system orders the move by itself.
#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> std::io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn warn_if_open_to_others(file: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let Ok(metadata) = std::fs::metadata(file) else { return };
    if metadata.permissions().mode() & 0o077 != 0 {
        tracing::warn!(file = %file.display(), "secret_file_open_to_others");
    }
}

/// On Windows access lists decide, and the folder's are inherited.
#[cfg(not(unix))]
fn warn_if_open_to_others(_file: &Path) {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::random::SystemRandom;

    #[test]
    fn a_secret_is_made_once_and_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("broker.secret");
        let made = broker_secret(&file, &SystemRandom).unwrap();
        assert_eq!(made.expose().len(), 64);
        assert_eq!(broker_secret(&file, &SystemRandom).unwrap().expose(), made.expose());
        let keys = dir.path().join("node.key");
        let first = node_keys(&keys, &SystemRandom).unwrap().registration();
        assert_eq!(node_keys(&keys, &SystemRandom).unwrap().registration().public_key, first.public_key);
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_may_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        keep_token(&file, &Secret::new("a")).unwrap();
        keep_token(&file, &Secret::new("b")).unwrap();
        assert_eq!(token(&file).unwrap().expose(), "b");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn blank_and_missing_files_are_clear_errors() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        assert!(token(&file).unwrap_err().to_string().contains("REDSYN_TOKEN"));
        assert!(known_token(&file).unwrap().is_none());
        std::fs::write(&file, " \n").unwrap();
        assert!(token(&file).unwrap_err().to_string().contains("blank"));
        assert!(node_keys(&file, &SystemRandom).unwrap_err().to_string().contains("key file"));
    }
}
