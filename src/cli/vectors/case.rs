//! One case of a file of vectors: reading its members, and saying what was expected and what came out.

use std::fmt::Display;

use serde_json::{Map, Value};

use crate::crypto::jcs;

/// How many characters of a text a failure shows, before and after the first one that differs.
const SHOWN_BEFORE: usize = 20;
const SHOWN_AFTER: usize = 60;

/// Why a case failed. Both texts fit on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub expected: String,
    pub got: String,
}

impl Failure {
    pub(super) fn new(expected: impl Into<String>, got: impl Into<String>) -> Self {
        Self { expected: expected.into(), got: got.into() }
    }
}

pub(super) type Check = Result<(), Failure>;

/// A case's members. One that lacks what its section needs fails, as a case that expects nothing cannot pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case<'a>(pub(super) &'a Map<String, Value>);

impl<'a> Case<'a> {
    pub(super) fn text(self, name: &str) -> Result<&'a str, Failure> {
        self.optional_text(name)?.ok_or_else(|| malformed("a text", name))
    }

    /// `None` when it is missing or null.
    pub(super) fn optional_text(self, name: &str) -> Result<Option<&'a str>, Failure> {
        match self.value(name) {
            None => Ok(None),
            Some(value) => value.as_str().map(Some).ok_or_else(|| malformed("a text", name)),
        }
    }

    pub(super) fn flag(self, name: &str) -> Result<bool, Failure> {
        self.value(name).and_then(Value::as_bool).ok_or_else(|| malformed("true or false", name))
    }

    /// Whole Unix seconds; a fraction is rounded down.
    pub(super) fn seconds(self, name: &str) -> Result<i64, Failure> {
        let value = self.value(name).and_then(|value| {
            value.as_i64().or_else(|| value.as_f64().map(|seconds| seconds.floor() as i64))
        });
        value.ok_or_else(|| malformed("a number of seconds", name))
    }

    pub(super) fn object(self, name: &str) -> Result<&'a Map<String, Value>, Failure> {
        self.value(name).and_then(Value::as_object).ok_or_else(|| malformed("an object", name))
    }

    pub(super) fn value(self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// Compares what our code decided with the case's `valid`; gives what was accepted.
    pub(super) fn judge<T, E: Display>(self, decided: Result<T, E>) -> Result<Option<T>, Failure> {
        match (self.flag("valid")?, decided) {
            (true, Ok(accepted)) => Ok(Some(accepted)),
            (false, Err(_)) => Ok(None),
            (true, Err(error)) => Err(Failure::new("accepted", format!("refused: {error}"))),
            (false, Ok(_)) => Err(Failure::new("refused", "accepted")),
        }
    }
}

fn malformed(kind: &str, name: &str) -> Failure {
    Failure::new(format!("{kind} in {name:?}"), "a case without it")
}

/// Our code failed at `step` where the case expects it to work.
pub(super) fn done<T, E: Display>(step: &str, result: Result<T, E>) -> Result<T, Failure> {
    result.map_err(|error| Failure::new(format!("{step} to work"), format!("{error}")))
}

/// Two texts are equal; `what` names them.
pub(super) fn same_text(what: &str, expected: &str, got: &str) -> Check {
    if expected == got {
        return Ok(());
    }
    let at = expected.chars().zip(got.chars()).take_while(|(a, b)| a == b).count();
    Err(Failure::new(format!("{what} {:?}", excerpt(expected, at)), format!("{:?}", excerpt(got, at))))
}

/// Two JSON values are the same, whatever their order; `what` names them.
pub(super) fn same_json(what: &str, expected: &Value, got: &Value) -> Check {
    let text = |value| match jcs::canonical(value) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => error.to_string(),
    };
    same_text(what, &text(expected), &text(got))
}

/// The part of `text` around the character `at`.
fn excerpt(text: &str, at: usize) -> String {
    let start = at.saturating_sub(SHOWN_BEFORE);
    let mut rest = text.chars().skip(start);
    let mut out: String = rest.by_ref().take(SHOWN_BEFORE + SHOWN_AFTER).collect();
    if start > 0 {
        out.insert(0, '…');
    }
    if rest.next().is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_is_shown_on_one_line_and_in_part() {
        let long = "x".repeat(200) + "\n" + &"y".repeat(200);
        let failure = same_text("payload", &long, &long.replace('\n', " ")).unwrap_err();
        assert!(failure.expected.starts_with("payload \"…xxx"), "{}", failure.expected);
        assert!(failure.expected.contains("x\\nyyy") && failure.expected.ends_with("y…\""));
        assert!(failure.got.contains("x yyy"));
    }

    #[test]
    fn a_case_without_its_members_fails() {
        let value = json!({"a": 1, "b": null});
        let case = Case(value.as_object().unwrap());
        assert!(case.text("a").is_err() && case.text("b").is_err() && case.flag("c").is_err());
        assert_eq!(case.optional_text("b"), Ok(None));
        assert!(case.judge(Ok::<(), &str>(())).is_err());
    }
}
