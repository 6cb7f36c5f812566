//! What the files of the store need of the operating system: private files, whole replacements, names that survive
//! a crash.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::StoreError;

/// Opens a file for reading and writing; a new one can be read by its owner alone.
pub(super) fn open(path: &Path) -> Result<File, StoreError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    private(&mut options);
    options.open(path).map_err(|error| StoreError::io("open", path, &error))
}

/// Writes a file beside `path` and moves it into place, so that a crash leaves the old one or the new one whole.
/// With `replace` off, a file that is there already is an error.
pub(super) fn write_whole(
    path: &Path,
    replace: bool,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let new = beside(path);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    private(&mut options);
    let file = options.open(&new).map_err(|error| StoreError::io("create", &new, &error))?;
    let mut out = BufWriter::new(file);
    let placed = write(&mut out)
        .and_then(|()| {
            let file = out.into_inner().map_err(|error| StoreError::io("write", &new, error.error()))?;
            file.sync_all().map_err(|error| StoreError::io("flush", &new, &error))
        })
        .and_then(|()| place(&new, path, replace));
    if placed.is_err() {
        // Half a file must not use up the disk that was too full for it.
        let _ = std::fs::remove_file(&new);
    }
    placed
}

/// A file that gets its name when it is finished; until then it goes away with this. Declare it after whatever has the
/// file open.
#[derive(Debug)]
pub struct Unfinished {
    path: PathBuf,
}

impl Unfinished {
    /// An empty file beside `path`, in place of what an earlier attempt has left.
    pub(super) fn create(path: &Path) -> Result<(Self, File), StoreError> {
        let unfinished = Self { path: path.to_owned() };
        let _ = std::fs::remove_file(unfinished.file());
        let file = open(&unfinished.file())?;
        Ok((unfinished, file))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where it is until it is finished.
    pub(super) fn file(&self) -> PathBuf {
        beside(&self.path)
    }

    /// Gives it its name, unless another file has it. Nobody may have it open.
    ///
    /// # Errors
    /// When a file of that name has appeared, or the folder cannot be written to.
    pub fn finish(&self) -> Result<(), StoreError> {
        place(&self.file(), &self.path, false)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After `finish` there is none.
        let _ = std::fs::remove_file(self.file());
    }
}

/// Moves a finished file to its name. Both lie in the same folder.
fn place(new: &Path, path: &Path, replace: bool) -> Result<(), StoreError> {
    if replace {
        std::fs::rename(new, path).map_err(|error| StoreError::io("replace", path, &error))?;
    } else {
        // Unlike a rename, a link never takes the place of what is there.
        std::fs::hard_link(new, path)
            .or_else(|error| match error.kind() {
                std::io::ErrorKind::AlreadyExists => Err(error),
                // Not every file system has links; then a look before the move must do.
                _ if path.exists() => Err(std::io::ErrorKind::AlreadyExists.into()),
                _ => std::fs::rename(new, path),
            })
            .map_err(|error| StoreError::io("create", path, &error))?;
        // After the rename there is nothing left to remove.
        let _ = std::fs::remove_file(new);
    }
    sync_folder_of(path)
}

/// The name that a file has until it is whole.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    path.with_file_name(name)
}

pub(super) fn write_all(out: &mut impl Write, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    out.write_all(bytes).map_err(|error| StoreError::io("write", path, &error))
}

/// Makes a folder, which its owner alone can look into.
pub(super) fn private_folder(path: &Path) -> Result<(), StoreError> {
    let mut folder = std::fs::DirBuilder::new();
    private_builder(&mut folder);
    folder.create(path).map_err(|error| StoreError::io("create", path, &error))
}

#[cfg(unix)]
fn private_builder(folder: &mut std::fs::DirBuilder) {
    use std::os::unix::fs::DirBuilderExt;
    folder.mode(0o700);
}

/// On Windows access lists decide, and the folder's are inherited.
#[cfg(not(unix))]
fn private_builder(_folder: &mut std::fs::DirBuilder) {}

/// Makes the names in the folder of `path` survive a crash.
pub(super) fn sync_folder_of(path: &Path) -> Result<(), StoreError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sync_folder(folder).map_err(|error| StoreError::io("flush", folder, &error))
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Windows has no handle on a folder to flush; its file system orders the move by itself.
#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> std::io::Result<()> {
    Ok(())
}

/// A new file can be read by its owner alone.
#[cfg(unix)]
pub(super) fn private(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600);
}

/// On Windows access lists decide, and the folder's are inherited.
#[cfg(not(unix))]
pub(super) fn private(_options: &mut OpenOptions) {}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, replace: bool, text: &str) -> Result<(), StoreError> {
        write_whole(path, replace, |out| write_all(out, path, text.as_bytes()))
    }

    #[test]
    fn a_file_is_replaced_only_when_that_is_meant() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write(&path, false, "one").unwrap();
        assert!(write(&path, false, "two").is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        write(&path, true, "three").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "three");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_file_that_cannot_be_finished_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write(&path, true, "one").unwrap();
        let failed = write_whole(&path, true, |out| {
            write_all(out, &path, b"tw")?;
            Err(StoreError::Full)
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
