//! RFC 8785 canonical JSON: the one byte form of a value that signatures cover.

use serde::Serialize;
use serde_json::Value;

/// The value has no canonical form.
#[derive(Debug, thiserror::Error)]
#[error("cannot be written as canonical JSON: {0}")]
pub struct JcsError(#[from] serde_json::Error);

/// UTF-8 bytes: members ordered by UTF-16 units, numbers as ECMAScript writes the nearest double, no spaces.
pub fn canonical<T: Serialize>(value: &T) -> Result<Vec<u8>, JcsError> {
    Ok(serde_json_canonicalizer::to_vec(value)?)
}

/// Whether two values are the same JSON: `1` and `1.0` are, and so are objects in another order.
pub fn same(a: &Value, b: &Value) -> bool {
    let written = || matches!((canonical(a), canonical(b)), (Ok(a), Ok(b)) if a == b);
    a == b || written()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(input: &str) -> String {
        String::from_utf8(canonical(&crate::crypto::json::parse(input.as_bytes()).unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn numbers_are_doubles() {
        assert_eq!(text("[9007199254740993]"), "[9007199254740992]");
        assert_eq!(text("[18446744073709551615]"), "[18446744073709552000]");
        assert_eq!(text("[12345678901234567890123]"), "[1.2345678901234568e+22]");
        assert_eq!(text("[-0, 0.0, 1.0, 1e21, 1e-7]"), "[0,0,1,1e+21,1e-7]");
    }

    #[test]
    fn members_are_ordered_by_utf16_units() {
        assert_eq!(text(r#"{"ﬀ":1,"😀":2,"b":3,"a":4}"#), r#"{"a":4,"b":3,"😀":2,"ﬀ":1}"#);
    }

    #[test]
    fn same_looks_at_meaning() {
        assert!(same(&json!({"a": 1, "b": [1.0]}), &json!({"b": [1], "a": 1.0})));
        assert!(!same(&json!([1, 2]), &json!([2, 1])));
        assert!(!same(&json!("1"), &json!(1)));
    }
}
