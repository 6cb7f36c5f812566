//! Lines for people: columns that stand below each other, values out of JSON.

use serde_json::Value;

/// Rows with their columns aligned, each line indented by two.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("  {}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// A member as text; empty when it is missing or null.
pub(super) fn text(value: &Value, name: &str) -> String {
    match value.get(name) {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => String::new(),
        Some(other) => other.to_string(),
    }
}

pub(super) fn flag(value: &Value, name: &str) -> bool {
    value.get(name).and_then(Value::as_bool).unwrap_or_default()
}

pub(super) fn number(value: &Value, name: &str) -> i64 {
    value.get(name).and_then(Value::as_i64).unwrap_or_default()
}

pub(super) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// `1 message`, `2 messages`.
pub(super) fn messages(count: i64) -> String {
    if count == 1 { "1 message".to_owned() } else { format!("{count} messages") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other_and_lines_end_with_a_word() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let shown = table(&[row(["a", "bb", ""]), row(["ñññ", "b", "c"])]);
        assert_eq!(shown, "  a    bb\n  ñññ  b   c\n");
    }
}
