//! A file of lines, read and written one at a time: the whole may be larger than memory likes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter};
use std::path::Path;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{Broken, Messages, Place};
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
    unfinished: disk::Unfinished,
}

impl LineFile {
    /// # Errors
    /// When the file cannot be made.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let (unfinished, file) = disk::Unfinished::create(path)?;
        Ok(Self { out: BufWriter::new(file), unfinished })
    }

    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, line: &impl Serialize) -> Result<(), StoreError> {
        let text = serde_json::to_string(line).map_err(|error| StoreError::Other(error.to_string()))?;
        disk::write_all(&mut self.out, self.unfinished.path(), format!("{text}\n").as_bytes())
    }

    /// Makes it durable; it still lacks its name.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn written(self) -> Result<disk::Unfinished, StoreError> {
        let Self { out, unfinished } = self;
        let failed = |error: &std::io::Error| StoreError::io("write", unfinished.path(), error);
        let file = out.into_inner().map_err(|error| failed(error.error()))?;
        file.sync_all().map_err(|error| failed(&error))?;
        drop(file);
        Ok(unfinished)
    }
}

/// Reads the messages of a file in which a later line takes the place of an earlier one with the same key. A first
/// look finds where the lines that count begin, a second reads them, so that no more than one is in memory at a time.
/// With `sorted` they come in the order of their keys, else in that in which each key was first written.
///
/// # Errors
/// When the file cannot be read to its end; `Stopped` once `stop` is cancelled.
pub(super) fn read<K, T>(
    path: &Path,
    stop: &CancellationToken,
    sorted: bool,
    parse: impl Fn(&str) -> Result<(K, T), &'static str> + Send + 'static,
) -> Result<Option<Messages<T>>, StoreError>
where
    K: Ord,
    T: 'static,
{
    let failed = |error: &std::io::Error| StoreError::io("read", path, error);
    let Some(lines) = Lines::of_file(path)? else { return Ok(None) };
    let mut begin = 0;
    let mut broken = Vec::new();
    let mut keys: BTreeMap<K, usize> = BTreeMap::new();
    let mut begins: Vec<u64> = Vec::new();
    for line in lines {
        let line = line.map_err(|error| failed(&error))?;
        if stop.is_cancelled() {
            return Err(StoreError::Stopped);
        }
        let parsed = match line.text.as_deref() {
            Some("") => None,
            Some(text) => Some(parse(text).map(|(key, _)| key)),
            None => Some(Err("no text")),
        };
        let place = Place::Line(line.number);
        match parsed {
            None => {}
            Some(Ok(key)) => {
                let at = *keys.entry(key).or_insert(begins.len());
                match begins.get_mut(at) {
                    Some(earlier) => *earlier = begin,
                    None => begins.push(begin),
                }
            }
            Some(Err(_)) if !line.ended => broken.push(Broken { place, why: "cut off" }),
            Some(Err(why)) => broken.push(Broken { place, why }),
        }
        begin = line.end;
    }
    if sorted {
        begins = keys.into_values().filter_map(|at| begins.get(at).copied()).collect();
    }
    let all = begins.len() + broken.len();
    let mut reader = BufReader::new(File::open(path).map_err(|error| failed(&error))?);
    let mut position = 0;
    let path = path.to_owned();
    let found = begins.into_iter().map(move |begin| {
        let failed = |error: &std::io::Error| StoreError::io("read", &path, error);
        // Most lines follow the one before, and lie in the buffer.
        let step = i64::try_from(begin).unwrap_or(i64::MAX) - i64::try_from(position).unwrap_or(i64::MAX);
        reader.seek_relative(step).map_err(|error| failed(&error))?;
        let line =
            Lines::new(&mut reader).next().ok_or(StoreError::Locked)?.map_err(|error| failed(&error))?;
        position = begin + line.end;
        // It was a message a moment ago: somebody is writing.
        let (_, message) =
            line.text.as_deref().and_then(|text| parse(text).ok()).ok_or(StoreError::Locked)?;
        Ok(Ok(message))
    });
    let broken = broken.into_iter().map(|line| Ok(Err(line)));
    Ok(Some(Messages::new(all, broken.chain(found))))
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
