//! The files of the Node broker, read into types of ours and written from them. Nothing here may know SQL: its
//! databases are opened in [`crate::store::sqlite::node_files`], which asks this for the meaning of a row.

pub mod lines;
pub mod v1;
pub mod v2;

use std::fmt;

use super::StoreError;

/// `messages(seq, payload)`, a payload being the envelope as JSON.
pub const V1_DATABASE: &str = "relay.db";
/// A line `{"seq","message"}` for each change; of a `seq` the last line counts.
pub const V1_LINES: &str = "messages.jsonl";
/// `relay_v2_messages`, a column for each field.
pub const V2_DATABASE: &str = "relay-v2.db";
/// A line `{"message"}` for each change; of a `message_id` the last line counts.
pub const V2_LINES: &str = "relay-v2.jsonl";

/// What a file holds, read some at a time: the whole may be larger than memory likes.
pub struct Messages<T> {
    /// How many lines or rows there are to read, broken ones among them.
    pub all: usize,
    items: Box<dyn Iterator<Item = Result<Found<T>, StoreError>> + Send>,
}

/// A message, or a line or row that makes none.
pub type Found<T> = Result<T, Broken>;

impl<T> Messages<T> {
    pub(in crate::store) fn new(
        all: usize,
        items: impl Iterator<Item = Result<Found<T>, StoreError>> + Send + 'static,
    ) -> Self {
        Self { all, items: Box::new(items) }
    }

    /// The next ones, `most` at most, in the order of the file's sequence numbers, or of its rows; none at the end.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn next(&mut self, most: usize) -> Result<Vec<Found<T>>, StoreError> {
        self.items.by_ref().take(most).collect()
    }

    #[cfg(test)]
    pub(in crate::store) fn split(mut self) -> (Vec<T>, Vec<Broken>) {
        let (mut found, mut broken) = (Vec::new(), Vec::new());
        for item in self.next(usize::MAX).unwrap() {
            match item {
                Ok(message) => found.push(message),
                Err(line) => broken.push(line),
            }
        }
        (found, broken)
    }
}

impl<T> fmt::Debug for Messages<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Messages").field("all", &self.all).finish_non_exhaustive()
    }
}

/// A line or row that makes no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub place: Place,
    /// Never shows what the line holds.
    pub why: &'static str,
}

/// Where something stands in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Counted from 1.
    Line(usize),
    /// The row's own number.
    Row(i64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Row(row) => write!(f, "row {row}"),
        }
    }
}
