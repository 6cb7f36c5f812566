//! The files of the Node broker, read into types of ours and written from them. Nothing here may know SQL: its
//! databases are opened in [`crate::store::sqlite::node_files`], which asks this for the meaning of a row.

pub mod lines;
pub mod v1;
pub mod v2;

use std::fmt;

/// `messages(seq, payload)`, a payload being the envelope as JSON.
pub const V1_DATABASE: &str = "relay.db";
/// A line `{"seq","message"}` for each change; of a `seq` the last line counts.
pub const V1_LINES: &str = "messages.jsonl";
/// `relay_v2_messages`, a column for each field.
pub const V2_DATABASE: &str = "relay-v2.db";
/// A line `{"message"}` for each change; of a `message_id` the last line counts.
pub const V2_LINES: &str = "relay-v2.jsonl";

/// What a file holds.
#[derive(Debug)]
pub struct Read<T> {
    /// In the order of the file's sequence numbers, or of its rows.
    pub found: Vec<T>,
    pub broken: Vec<Broken>,
}

impl<T> Default for Read<T> {
    fn default() -> Self {
        Self { found: Vec::new(), broken: Vec::new() }
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
