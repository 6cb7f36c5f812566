//! A file of lines, read and written one at a time: the whole may be larger than memory likes.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Broken, Place, Read};
use crate::store::{StoreError, disk};

/// A line as it stands in the file.
#[derive(Debug)]
pub struct Line {
    /// Counted from 1.
    pub number: usize,
    /// Where the next one begins.
    pub end: u64,
    /// Without its end; `None` when it is no text.
    pub text: Option<String>,
    /// False for a last line that was not written to its end.
    pub ended: bool,
}

#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    number: usize,
    at: u64,
}

impl Lines<BufReader<File>> {
    /// `None` when the file does not exist.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn of_file(path: &Path) -> Result<Option<Self>, StoreError> {
        match File::open(path) {
            Ok(file) => Ok(Some(Self::new(BufReader::new(file)))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io("read", path, &error)),
        }
    }
}

impl<R: BufRead> Lines<R> {
    pub const fn new(reader: R) -> Self {
        Self { reader, number: 0, at: 0 }
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = std::io::Result<Line>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut bytes = Vec::new();
        let length = match self.reader.read_until(b'\n', &mut bytes) {
            Ok(0) => return None,
            Ok(length) => length,
            Err(error) => return Some(Err(error)),
        };
        self.at += u64::try_from(length).unwrap_or(u64::MAX);
        self.number += 1;
        let ended = bytes.pop_if(|last| *last == b'\n').is_some();
        bytes.pop_if(|last| *last == b'\r');
        Some(Ok(Line { number: self.number, end: self.at, text: String::from_utf8(bytes).ok(), ended }))
    }
}

/// A file of lines that is being written. It gets its name when it is finished.
#[derive(Debug)]
pub struct LineFile {
    out: BufWriter<File>,
    path: PathBuf,
}

impl LineFile {
    /// # Errors
    /// When the file cannot be made.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let new = disk::beside(path);
        // What an earlier attempt has left.
        let _ = std::fs::remove_file(&new);
        Ok(Self { out: BufWriter::new(disk::open(&new)?), path: path.to_owned() })
    }

    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, line: &impl Serialize) -> Result<(), StoreError> {
        let text = serde_json::to_string(line).map_err(|error| StoreError::Other(error.to_string()))?;
        disk::write_all(&mut self.out, &self.path, text.as_bytes())?;
        disk::write_all(&mut self.out, &self.path, b"\n")
    }

    /// Makes it durable and gives it its name.
    ///
    /// # Errors
    /// When it cannot be written, or a file of that name has appeared.
    pub fn finish(self) -> Result<(), StoreError> {
        let Self { out, path } = self;
        let failed = |error: &std::io::Error| StoreError::io("write", &path, error);
        let file = out.into_inner().map_err(|error| failed(error.error()))?;
        file.sync_all().map_err(|error| failed(&error))?;
        drop(file);
        disk::place(&disk::beside(&path), &path, false)
    }
}

/// Reads every line that is not blank with `parse`.
///
/// # Errors
/// When the file cannot be read to its end.
pub(super) fn read<T>(
    path: &Path,
    mut parse: impl FnMut(&str) -> Result<T, &'static str>,
) -> Result<Option<Read<T>>, StoreError> {
    let Some(lines) = Lines::of_file(path)? else { return Ok(None) };
    let mut read = Read::default();
    for line in lines {
        let line = line.map_err(|error| StoreError::io("read", path, &error))?;
        let parsed = match line.text.as_deref() {
            Some("") => continue,
            Some(text) => parse(text),
            None => Err("no text"),
        };
        match parsed {
            Ok(found) => read.found.push(found),
            Err(_) if !line.ended => {
                read.broken.push(Broken { place: Place::Line(line.number), why: "cut off" });
            }
            Err(why) => read.broken.push(Broken { place: Place::Line(line.number), why }),
        }
    }
    Ok(Some(read))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_know_their_place_and_their_end() {
        let lines: Vec<_> = Lines::new(&b"a\r\n\n\xff\nb"[..])
            .map(Result::unwrap)
            .map(|line| (line.end, line.text, line.ended))
            .collect();
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            lines,
            [(3, text("a"), true), (4, text(""), true), (6, None, true), (7, text("b"), false)]
        );
    }
}
