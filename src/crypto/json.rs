//! Strict JSON for whatever is signed or sealed (I-JSON, RFC 7493): UTF-8, no lone surrogates, no numbers beyond
//! a double, and no member name twice, since two readers may each keep another of the two.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Why a text is not I-JSON.
#[derive(Debug, thiserror::Error)]
#[error("not JSON: {0}")]
pub struct JsonError(#[from] serde_json::Error);

/// Parses one JSON text. Nesting beyond serde_json's limit of 128 is refused.
pub fn parse(text: &[u8]) -> Result<Value, JsonError> {
    let Strict(value) = serde_json::from_slice(text)?;
    Ok(value)
}

/// A value whose objects name every member once.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut out = Vec::new();
        while let Some(Strict(value)) = items.next_element()? {
            out.push(value);
        }
        Ok(Value::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if out.contains_key(&name) {
                return Err(A::Error::custom(format_args!("the name {name:?} appears twice in an object")));
            }
            let Strict(value) = members.next_value()?;
            out.insert(name, value);
        }
        Ok(Value::Object(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_serde_json_reads() {
        let text = r#"{"b":[1,-2,3.5,1e2,null,true,"ñ 🔑"],"a":{"c":{}},"":18446744073709551615}"#;
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(parse(text.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn refuses_what_is_not_i_json() {
        for text in [
            r#"{"a":1,"a":2}"#,
            r#"[{"x":{"a":1,"\u0061":1}}]"#,
            r#""\ud800""#,
            r#"{"\udead":1}"#,
            "[1e400]",
            "[NaN]",
            "[1] 2",
            "",
            "\u{feff}[]",
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text:?}");
        }
        assert!(parse(b"\"\xff\"").is_err());
    }

    #[test]
    fn refuses_what_is_too_deep() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert!(parse(deep.as_bytes()).is_err());
    }
}
