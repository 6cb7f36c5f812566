//! A line of `broker.jsonl`: a row as it is now, or the key of one that is no more. The first line tells the version
//! of the schema and the number of the last batch that the lines below stand for.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Mark;
use crate::proto::dsh::json::Members;
use crate::store::StoreError;

/// The first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct Header {
    /// How many schema steps the rows have seen.
    pub(in crate::store) schema: usize,
    pub(in crate::store) batch: u64,
}

impl Header {
    pub(in crate::store) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// The columns of a row, or of its key.
pub(in crate::store) type Cells = Map<String, Value>;

/// What a line says of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::store) enum Change {
    /// It is this now.
    Row(Cells),
    /// The row with this key is no more.
    Gone(Cells),
}

impl Change {
    /// `cells` are those of the row when it is there, else those of its key.
    pub(in crate::store) const fn of(cells: Cells, is_there: bool) -> Self {
        if is_there { Self::Row(cells) } else { Self::Gone(cells) }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::store) struct RowLine {
    pub(in crate::store) table: String,
    #[serde(flatten)]
    pub(in crate::store) change: Change,
}

pub(in crate::store) fn parse(text: &str) -> Option<(RowLine, Option<Mark>)> {
    let mark = Mark::of(&Members::parse(text).ok()??);
    Some((serde_json::from_str(text).ok()?, mark))
}

/// The line without its end.
pub(in crate::store) fn line(line: &RowLine, mark: Option<Mark>) -> Result<String, StoreError> {
    #[derive(Serialize)]
    struct Marked<'a> {
        #[serde(flatten)]
        line: &'a RowLine,
        #[serde(flatten)]
        mark: Option<Mark>,
    }
    serde_json::to_string(&Marked { line, mark }).map_err(|error| StoreError::Other(error.to_string()))
}

pub(in crate::store) fn header(header: Header) -> Result<String, StoreError> {
    serde_json::to_string(&header).map_err(|error| StoreError::Other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let cells = |value: Value| value.as_object().unwrap().clone();
        for change in [
            Change::Row(cells(json!({"name": "a\n\0", "n": -5, "x": 1.5, "none": null}))),
            Change::Gone(cells(json!({"name": "a"}))),
        ] {
            let row = RowLine { table: "agents".into(), change };
            for mark in [None, Some(Mark { batch: 9, left: 2, rows: false })] {
                let text = line(&row, mark).unwrap();
                assert!(!text.contains('\n'));
                assert_eq!(parse(&text), Some((row.clone(), mark)));
            }
        }
        assert_eq!(parse(r#"{"table":"agents"}"#), None);
        let first = Header { schema: 2, batch: 17 };
        assert_eq!(Header::parse(&header(first).unwrap()), Some(first));
        assert_eq!(Header::parse(r#"{"table":"agents","row":{}}"#), None);
    }
}
