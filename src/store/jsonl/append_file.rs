//! A file that grows at its end. What was appended is on the disk when `append` returns, or not in the file.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::store::{StoreError, disk};

#[derive(Debug)]
pub(in crate::store) struct AppendFile {
    path: PathBuf,
    /// `None` only when the file could not be opened again after it was replaced.
    file: Option<File>,
    len: u64,
    /// Where the last append began.
    before: u64,
    /// Behind `len` stands what could not be taken back yet.
    has_rest: bool,
}

impl AppendFile {
    /// Opens the file, or makes an empty one.
    pub(in crate::store) fn open(path: &Path) -> Result<Self, StoreError> {
        let is_new = !path.exists();
        let file = disk::open(path)?;
        let len = file.metadata().map_err(|error| StoreError::io("read", path, &error))?.len();
        if is_new {
            disk::sync_folder_of(path)?;
        }
        Ok(Self { path: path.to_owned(), file: Some(file), len, before: len, has_rest: false })
    }

    pub(in crate::store) fn path(&self) -> &Path {
        &self.path
    }

    pub(in crate::store) const fn len(&self) -> u64 {
        self.len
    }

    /// Makes sure that nothing stands behind the end: what could not be taken back is tried again. Until then the
    /// file takes nothing more, for whatever came after would make the rest count.
    pub(in crate::store) fn settle(&mut self) -> Result<(), StoreError> {
        if self.file.is_none() {
            self.reopen()?;
        }
        if self.has_rest {
            self.cut(self.len)?;
        }
        Ok(())
    }

    pub(in crate::store) fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.settle()?;
        self.before = self.len;
        let written = self.write(bytes);
        match &written {
            Ok(()) => self.len += u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            Err(_) => self.take_back_to(self.len),
        }
        written
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let Some(file) = &mut self.file else { return Err(StoreError::Stopped) };
        // Not in append mode: Windows would then not let the end be cut off.
        file.seek(SeekFrom::Start(self.len))
            .and_then(|_| file.write_all(bytes))
            .and_then(|()| file.sync_data())
            .map_err(|error| StoreError::io("write", &self.path, &error))
    }

    /// Takes back the last append, whose batch came to nothing.
    pub(in crate::store) fn undo(&mut self) {
        self.take_back_to(self.before);
    }

    fn take_back_to(&mut self, len: u64) {
        self.len = len;
        self.has_rest = true;
        if let Err(error) = self.cut(len) {
            tracing::error!(%error, "journal_not_taken_back");
        }
    }

    /// Cuts off what stands at `len` and behind it.
    pub(in crate::store) fn cut(&mut self, len: u64) -> Result<(), StoreError> {
        let Some(file) = &self.file else { return Err(StoreError::Stopped) };
        file.set_len(len)
            .and_then(|()| file.sync_all())
            .map_err(|error| StoreError::io("shorten", &self.path, &error))?;
        (self.len, self.before, self.has_rest) = (len, len, false);
        Ok(())
    }

    /// Puts another content in its place, whole or not at all. Nothing may stand behind the end: settle before.
    pub(in crate::store) fn replace(
        &mut self,
        write: impl FnOnce(&mut std::io::BufWriter<File>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        // Windows does not move a file over one that is open.
        self.file = None;
        let replaced = disk::write_whole(&self.path, true, write);
        self.reopen()?;
        replaced
    }

    /// Takes the file as it is: the old one or the new one, both whole.
    fn reopen(&mut self) -> Result<(), StoreError> {
        let file = disk::open(&self.path)?;
        let len = file.metadata().map_err(|error| StoreError::io("read", &self.path, &error))?.len();
        (self.file, self.len, self.before, self.has_rest) = (Some(file), len, len, false);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(file: &AppendFile) -> String {
        std::fs::read_to_string(file.path()).unwrap()
    }

    #[test]
    fn appends_are_taken_back_and_go_on_where_the_last_one_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let mut file = AppendFile::open(&path).unwrap();
        file.append(b"one\n").unwrap();
        file.append(b"two\n").unwrap();
        file.undo();
        assert_eq!(text(&file), "one\n");
        file.append(b"three\n").unwrap();
        drop(file);
        let mut file = AppendFile::open(&path).unwrap();
        file.append(b"four\n").unwrap();
        assert_eq!(text(&file), "one\nthree\nfour\n");
        file.replace(|out| disk::write_all(out, &path, b"all\n")).unwrap();
        file.append(b"five\n").unwrap();
        assert_eq!((text(&file).as_str(), file.len()), ("all\nfive\n", 9));
    }

    #[test]
    fn a_rest_that_could_not_be_taken_back_is_gone_before_the_next_append() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = AppendFile::open(&folder.path().join("a")).unwrap();
        file.append(b"one\n").unwrap();
        file.file.as_mut().unwrap().write_all(b"half a li").unwrap();
        file.has_rest = true;
        file.append(b"two\n").unwrap();
        assert_eq!(text(&file), "one\ntwo\n");
    }
}
