//! JSON as the recordings hold it: nested a thousand deep, with unpaired surrogates.

use serde::Deserialize;
use serde_json::Value;

/// Unpaired surrogates, which no Rust string can hold, become the text of their escape on both sides.
pub(super) fn parse(text: &str) -> Option<Value> {
    let tame = tame(text);
    let mut reader = serde_json::Deserializer::from_str(&tame);
    reader.disable_recursion_limit();
    let value = Value::deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    Some(value)
}

fn tame(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let length = match (surrogate(escape), escape.get(6..).and_then(surrogate)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => 12,
            (Some(_), _) => {
                out.push('\\');
                6
            }
            (None, _) => 1 + escape.chars().nth(1).map_or(0, char::len_utf8),
        };
        out.push_str(&escape[..length]);
        rest = &escape[length..];
    }
    out + rest
}

fn surrogate(escape: &str) -> Option<u32> {
    let code = u32::from_str_radix(escape.strip_prefix("\\u")?.get(..4)?, 16).ok()?;
    (0xd800..0xe000).contains(&code).then_some(code)
}

#[test]
fn unpaired_surrogates_become_text() {
    let value = parse(r#""a\ud83e \ud83e\udd80 \\ud83e \udd80""#).unwrap();
    assert_eq!(value.as_str().unwrap(), "a\\ud83e 🦀 \\ud83e \\udd80");
}
