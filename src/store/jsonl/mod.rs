//! The two append-only files of the JSONL store, line by line. `messages.jsonl` holds the mail in the shape of the
//! Node broker, which can read it; `broker.jsonl` holds the rows of all other tables. What a line changes is decided
//! in [`crate::store::sqlite::journal`]; nothing here may know SQL.
//!
//! A batch of changes is whole or has never been: its lines carry its number and how many of them follow, and lines
//! of `messages.jsonl` whose batch also changes rows count only once `broker.jsonl` has the rows
//! (`docs/decisions/jsonl-store.md`).

pub(super) mod append_file;
pub(super) mod mail;
pub(super) mod rows;

use serde::Serialize;

use crate::proto::dsh::json::Members;

/// The rows of all tables but `messages`.
pub(super) const ROWS: &str = "broker.jsonl";

/// Which batch a line belongs to. A line without a mark stands for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Mark {
    pub(super) batch: u64,
    /// How many lines of the batch follow in this file.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) left: u64,
    /// The batch changes rows too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) rows: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero(left: &u64) -> bool {
    *left == 0
}

impl Mark {
    fn of(line: &Members) -> Option<Self> {
        let number = |name: &str| line.get(name).and_then(|number| number.as_json().parse().ok());
        let rows = line.get("rows").is_some_and(|rows| rows.as_json() == "true");
        Some(Self { batch: number("batch")?, left: number("left").unwrap_or_default(), rows })
    }

    /// Whether `self` is the line that follows `earlier` in the same batch.
    pub(super) const fn follows(self, earlier: Self) -> bool {
        self.batch == earlier.batch && earlier.left > 0 && self.left == earlier.left - 1
    }
}
