//! The coercions of JavaScript that clients have come to rely on: `Number()`, `String()`, truth, and the clamp of a
//! `limit`. Nothing here may decide what a request means.

use serde_json::Value;

use super::json::JsonText;

/// The most messages in one answer, and how many without a `limit`.
const MOST: u32 = 200;
const DEFAULT: u32 = 50;

/// JavaScript's `Number(text)`; NaN when the text is no number.
pub fn number(text: &str) -> f64 {
    let text = text.trim_matches(is_blank);
    match text.as_bytes() {
        [] => 0.0,
        [b'0', b'x' | b'X', digits @ ..] => radix(digits, 16),
        [b'0', b'o' | b'O', digits @ ..] => radix(digits, 8),
        [b'0', b'b' | b'B', digits @ ..] => radix(digits, 2),
        _ => decimal(text),
    }
}

/// What JavaScript trims: Unicode white space, line ends and the byte order mark, but not U+0085.
fn is_blank(letter: char) -> bool {
    letter == '\u{feff}' || (letter.is_whitespace() && letter != '\u{85}')
}

fn radix(digits: &[u8], radix: u32) -> f64 {
    let step = |sum: Option<f64>, digit: &u8| {
        let digit = char::from(*digit).to_digit(radix)?;
        Some(sum? * f64::from(radix) + f64::from(digit))
    };
    if digits.is_empty() { f64::NAN } else { digits.iter().fold(Some(0.0), step).unwrap_or(f64::NAN) }
}

fn decimal(text: &str) -> f64 {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned == "Infinity" {
        return if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    // Rust also reads "inf", "nan" and "infinity"; a JavaScript number holds digits, one dot, one exponent.
    let plain = unsigned
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    if plain { text.parse().unwrap_or(f64::NAN) } else { f64::NAN }
}

/// JavaScript's `Number(value)` of a JSON value.
pub fn number_of(value: &Value) -> f64 {
    match value {
        Value::Null | Value::Bool(false) => 0.0,
        Value::Bool(true) => 1.0,
        Value::Number(number) => number.as_f64().unwrap_or(f64::NAN),
        Value::String(text) => number(text),
        Value::Array(_) => number(&string_of(value)),
        Value::Object(_) => f64::NAN,
    }
}

/// JavaScript's `String(value)` of a JSON value.
pub fn string_of(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(truth) => truth.to_string(),
        // The canonical form of JSON writes numbers as JavaScript does.
        Value::Number(number) => {
            serde_json_canonicalizer::to_string(number).unwrap_or_else(|_| number.to_string())
        }
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let item = |item: &Value| if item.is_null() { String::new() } else { string_of(item) };
            items.iter().map(item).collect::<Vec<_>>().join(",")
        }
        Value::Object(_) => "[object Object]".into(),
    }
}

/// JavaScript's `text.trim()`.
pub fn trim(text: &str) -> &str {
    text.trim_matches(is_blank)
}

/// JavaScript's `text.slice(0, units)`, in UTF-16 code units. Half of a pair, which no Rust text can hold, is left out.
pub fn cut(text: &str, units: usize) -> &str {
    let mut length = 0;
    let end = text.char_indices().find(|(_, letter)| {
        length += letter.len_utf16();
        length > units
    });
    end.and_then(|(at, _)| text.get(..at)).unwrap_or(text)
}

/// The first `count` code points.
pub fn first(text: &str, count: usize) -> &str {
    text.char_indices().nth(count).and_then(|(at, _)| text.get(..at)).unwrap_or(text)
}

/// JavaScript's `Boolean(value)`.
pub fn truthy(value: &JsonText) -> bool {
    match value.as_json() {
        "null" | "false" | "\"\"" => false,
        text => {
            !text.starts_with(|first: char| first == '-' || first.is_ascii_digit()) || number(text) != 0.0
        }
    }
}

/// A `limit` as sent: what is no finite number takes the default, the rest is cut to whole numbers from 1 to 200.
pub fn limit(number: Option<f64>) -> u32 {
    match number {
        Some(number) if number.is_finite() => number.trunc().clamp(1.0, f64::from(MOST)) as u32,
        _ => DEFAULT,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn number_reads_what_javascript_reads() {
        for (text, value) in [
            ("1712345678", 1_712_345_678.0),
            ("1.5", 1.5),
            ("1712345678.0", 1_712_345_678.0),
            ("1.712345678e9", 1_712_345_678.0),
            ("0x10", 16.0),
            ("0o17", 15.0),
            ("0b101", 5.0),
            ("+7", 7.0),
            ("007", 7.0),
            ("", 0.0),
            (" 2 ", 2.0),
            ("\u{feff}3", 3.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("Infinity", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("1e400", f64::INFINITY),
        ] {
            assert_eq!(number(text), value, "{text}");
        }
        for text in [
            "NaN", "inf", "infinity", "now", "null", "0x", "0xg", "-0x1", ".", "1,2", "1_0", "7abc", "e5",
            "١٢٣", "1e", "\u{85}1",
        ] {
            assert!(number(text).is_nan(), "{text}");
        }
    }

    #[test]
    fn limits_are_cut_to_what_one_answer_holds() {
        let of = |value: Value| limit(Some(number_of(&value)));
        for (value, count) in [
            (json!(0), 1),
            (json!(-3), 1),
            (json!(2.9), 2),
            (json!("3"), 3),
            (json!("abc"), 50),
            (json!(null), 1),
            (json!(true), 1),
            (json!([2]), 2),
            (json!([]), 1),
            (json!([1, 2]), 50),
            (json!({}), 50),
            (json!(""), 1),
            (json!(201), 200),
        ] {
            assert_eq!(of(value.clone()), count, "{value}");
        }
        assert_eq!(limit(None), 50);
        assert_eq!(limit(Some(f64::INFINITY)), 50);
    }

    #[test]
    fn trimming_and_cutting_are_those_of_javascript() {
        assert_eq!(trim("\u{feff}\u{a0} \u{3000}a\u{85}\n"), "a\u{85}");
        for (text, units, left) in [
            ("abc", 2, "ab"),
            ("abc", 3, "abc"),
            ("abc", 9, "abc"),
            ("a🦀b", 2, "a"),
            ("a🦀b", 3, "a🦀"),
            ("", 0, ""),
        ] {
            assert_eq!(cut(text, units), left, "{text} {units}");
        }
        assert_eq!((first("a🦀b", 2), first("ab", 2), first("a", 0)), ("a🦀", "ab", ""));
    }

    #[test]
    fn string_of_is_that_of_javascript() {
        let value = json!([1, null, true, {"a": 1}, ["s1", 2.5, 1.0, 1e21], "x"]);
        assert_eq!(string_of(&value), "1,,true,[object Object],s1,2.5,1,1e+21,x");
    }
}
