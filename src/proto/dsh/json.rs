//! JSON that passes through us unread. Kept as text, it may be nested however deeply and may hold the unpaired
//! surrogates that JavaScript clients send when they cut a string inside an emoji; a parsed tree could not.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// One JSON value as valid, compact JSON text.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct JsonText(Box<RawValue>);

/// The text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not JSON")]
pub struct NotJson;

impl JsonText {
    /// # Errors
    /// When the text is not one JSON value.
    pub fn parse(text: &str) -> Result<Self, NotJson> {
        let raw: &RawValue = serde_json::from_str(text).map_err(|_| NotJson)?;
        RawValue::from_string(compact(raw.get())).map(Self).map_err(|_| NotJson)
    }

    pub fn null() -> Self {
        Self(RawValue::NULL.to_owned())
    }

    pub fn empty_object() -> Self {
        Self::from(&Value::Object(serde_json::Map::new()))
    }

    pub fn as_json(&self) -> &str {
        self.0.get()
    }

    pub fn is_null(&self) -> bool {
        self.as_json() == "null"
    }

    /// The text of a JSON string; `None` for other values and for strings that are no Unicode.
    pub fn as_text(&self) -> Option<String> {
        serde_json::from_str(self.as_json()).ok()
    }

    /// The value as a tree; `None` when it is nested too deeply for one, or holds a text that is no Unicode.
    pub fn to_value(&self) -> Option<Value> {
        serde_json::from_str(self.as_json()).ok()
    }
}

impl PartialEq for JsonText {
    fn eq(&self, other: &Self) -> bool {
        self.as_json() == other.as_json()
    }
}

impl Eq for JsonText {}

impl From<&Value> for JsonText {
    fn from(value: &Value) -> Self {
        // A `Value` always prints as JSON.
        Self(serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }
}

/// The members of a JSON object; of a repeated name the last one counts.
#[derive(Clone, Debug, Default)]
pub struct Members(BTreeMap<String, JsonText>);

impl Members {
    /// `Ok(None)` when the text is JSON, but no object.
    ///
    /// # Errors
    /// When the text is not JSON.
    pub fn parse(text: &str) -> Result<Option<Self>, NotJson> {
        let raw: &RawValue = serde_json::from_str(text).map_err(|_| NotJson)?;
        if !raw.get().starts_with('{') {
            return Ok(None);
        }
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(raw.get()).map_err(|_| NotJson)?;
        let members = members.into_iter().map(|(name, raw)| Ok((name, JsonText::parse(raw.get())?)));
        members.collect::<Result<_, NotJson>>().map(|members| Some(Self(members)))
    }

    /// What is there, `null` included.
    pub fn get(&self, name: &str) -> Option<&JsonText> {
        self.0.get(name)
    }

    /// What is there and is not `null`.
    pub fn given(&self, name: &str) -> Option<&JsonText> {
        self.get(name).filter(|value| !value.is_null())
    }
}

/// Valid JSON without the blanks between its parts. Numbers stay as they are written, so that none loses digits,
/// but for `-0`, which `JSON.stringify` never writes.
fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(first) = rest.chars().next() {
        let part = match first {
            '"' => string_end(rest),
            ' ' | '\t' | '\r' | '\n' => {
                rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
                continue;
            }
            '-' | '0'..='9' => rest.find(|letter: char| !is_number(letter)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (part, after) = rest.split_at_checked(part).unwrap_or((rest, ""));
        out.push_str(if part == "-0" { "0" } else { part });
        rest = after;
    }
    out
}

/// The text with U+FFFD for every escaped surrogate that has no partner, as a database in UTF-8 keeps it.
pub fn mended(json: &str) -> Cow<'_, str> {
    const REPLACEMENT: &str = "\\ufffd";
    let mut out = String::new();
    let (mut rest, mut kept) = (json, json);
    while let Some((_, escape)) = rest.find('\\').and_then(|at| rest.split_at_checked(at)) {
        let (length, is_lone) = match (surrogate(escape), escape.get(6..).and_then(surrogate)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => (12, false),
            (Some(_), _) => (6, true),
            (None, _) => (1 + escape.chars().nth(1).map_or(0, char::len_utf8), false),
        };
        if is_lone {
            out.push_str(kept.get(..kept.len() - escape.len()).unwrap_or_default());
            out.push_str(REPLACEMENT);
        }
        rest = escape.get(length..).unwrap_or_default();
        if is_lone {
            kept = rest;
        }
    }
    if out.is_empty() {
        return Cow::Borrowed(json);
    }
    out.push_str(kept);
    Cow::Owned(out)
}

/// The surrogate whose escape `json` begins with.
fn surrogate(json: &str) -> Option<u32> {
    let code = u32::from_str_radix(json.strip_prefix("\\u")?.get(..4)?, 16).ok()?;
    (0xd800..0xe000).contains(&code).then_some(code)
}

fn is_number(letter: char) -> bool {
    letter.is_ascii_digit() || matches!(letter, '-' | '+' | '.' | 'e' | 'E')
}

/// Where the string ends with which `json` begins.
fn string_end(json: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in json.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_text_keeps_strings_and_numbers_as_written() {
        let text = " { \"a b\" : [ 1.0 , -0 , -0.5, 1E-7 ,123456789012345678901234567890 ] , \"q\\\" : \" : \"\\ud83e x\" } ";
        assert_eq!(
            JsonText::parse(text).unwrap().as_json(),
            "{\"a b\":[1.0,0,-0.5,1E-7,123456789012345678901234567890],\"q\\\" : \":\"\\ud83e x\"}"
        );
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in [
            "",
            "{",
            "nonsense",
            "{} {}",
            "\u{feff}{}",
            "{\"a\":\u{1}}",
            "{\"n\":01}",
            "{\"n\":.5}",
            "{\"n\":NaN}",
            "{\"a\":1,}",
            "{/*c*/}",
        ] {
            assert_eq!(JsonText::parse(text).err(), Some(NotJson), "{text}");
        }
    }

    #[test]
    fn a_million_brackets_need_no_stack() {
        let deep = "[".repeat(500_000) + &"]".repeat(500_000);
        assert_eq!(JsonText::parse(&deep).unwrap().as_json(), deep);
        assert!(JsonText::parse(&deep).unwrap().to_value().is_none());
    }

    #[test]
    fn the_last_of_repeated_members_counts() {
        let members = Members::parse(r#"{"to":"ghost","to":"beta","x":null}"#).unwrap().unwrap();
        assert_eq!(members.get("to").unwrap().as_text().unwrap(), "beta");
        assert!(members.get("x").is_some() && members.given("x").is_none() && members.get("y").is_none());
        assert!(Members::parse("[]").unwrap().is_none());
    }

    #[test]
    fn mending_replaces_lone_surrogates_and_nothing_else() {
        for (json, left) in [
            (r#""plain \n \\ud83e \u00e9""#, r#""plain \n \\ud83e \u00e9""#),
            (r#""\ud83e\udd80""#, r#""\ud83e\udd80""#),
            (r#""\ud83e""#, r#""\ufffd""#),
            (r#""a\ud83ex\udd80b""#, r#""a\ufffdx\ufffdb""#),
            (r#""\ud83e\ud83e\udd80""#, r#""\ufffd\ud83e\udd80""#),
            ("\\", "\\"),
            (r"\u12", r"\u12"),
        ] {
            assert_eq!(mended(json), left);
        }
    }

    #[test]
    fn an_unpaired_surrogate_is_json_but_no_text() {
        let cut = JsonText::parse(r#""cut \ud83e""#).unwrap();
        assert_eq!(cut.as_json(), r#""cut \ud83e""#);
        assert!(cut.as_text().is_none());
    }
}
