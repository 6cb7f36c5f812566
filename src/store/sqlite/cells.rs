//! Between SQLite's values and JSON. Numbers and texts are the same in both; bytes become `{"base64url": …}`.

use rusqlite::types::{Value as Cell, ValueRef};
use serde_json::{Number, Value};

use crate::crypto::base64url;
use crate::store::StoreError;

const BYTES: &str = "base64url";

pub(super) fn to_json(cell: ValueRef<'_>) -> Result<Value, StoreError> {
    let odd = |what: &str| StoreError::Other(format!("{what} cannot stand in a line"));
    Ok(match cell {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => {
            Value::Number(Number::from_f64(number).ok_or_else(|| odd("an endless number"))?)
        }
        ValueRef::Text(text) => {
            std::str::from_utf8(text).map_err(|_| odd("text that is not UTF-8"))?.to_owned().into()
        }
        ValueRef::Blob(bytes) => serde_json::json!({ BYTES: base64url::encode(bytes) }),
    })
}

/// `None` for what no column of ours holds.
pub(super) fn from_json(value: &Value) -> Option<Cell> {
    Some(match value {
        Value::Null => Cell::Null,
        Value::Number(number) => match number.as_i64() {
            Some(number) => Cell::Integer(number),
            None => Cell::Real(number.as_f64()?),
        },
        Value::String(text) => Cell::Text(text.clone()),
        Value::Object(bytes) => Cell::Blob(base64url::decode(bytes.get(BYTES)?.as_str()?).ok()?),
        Value::Bool(_) | Value::Array(_) => return None,
    })
}
