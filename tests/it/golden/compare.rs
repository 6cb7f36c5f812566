//! Compares a recorded answer with ours.

use serde_json::{Map, Value};

/// Fields that a replacement may add.
const ADDITIVE: [&str; 4] = ["implementation", "stages", "redsyn", "conflict"];

/// Texts for people.
const TEXTS: [&str; 2] = ["error.message", "last_error"];

/// What differs, as lines for people.
pub(super) fn differences(want: &Value, got: &Value) -> Vec<String> {
    let mut out = Vec::new();
    compare(want, got, "", &mut out);
    out
}

fn compare(want: &Value, got: &Value, path: &str, out: &mut Vec<String>) {
    match (want, got) {
        (Value::Object(want), Value::Object(got)) => {
            for (key, value) in want {
                match got.get(key) {
                    Some(got) => compare(value, got, &format!("{path}.{key}"), out),
                    None => out.push(format!("{path}.{key}: want {}, got nothing", short(value))),
                }
            }
            for (key, value) in got.iter().filter(|(key, _)| !want.contains_key(*key)) {
                if !ADDITIVE.contains(&key.as_str()) {
                    out.push(format!("{path}.{key}: want nothing, got {}", short(value)));
                }
            }
        }
        (Value::Array(want), Value::Array(got)) if want.len() == got.len() => {
            for (at, (want, got)) in want.iter().zip(got).enumerate() {
                compare(want, got, &format!("{path}[{at}]"), out);
            }
        }
        (Value::Number(want), Value::Number(got))
            if want.as_f64().map(f64::to_bits) == got.as_f64().map(f64::to_bits) => {}
        // Texts for people only have to be there.
        (Value::String(want), Value::String(got))
            if TEXTS.iter().any(|text| path.ends_with(text)) && want.is_empty() == got.is_empty() => {}
        (want, got) if want == got => {}
        (want, got) => out.push(format!("{path}: want {}, got {}", short(want), short(got))),
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() > 200 { text.chars().take(200).chain(['…']).collect() } else { text }
}

/// What a path of a `pick` finds: `*` is every member, `length` that of a list.
pub(super) fn pick(result: &Value, paths: &[Value]) -> Value {
    let mut out = Map::new();
    for path in paths.iter().map(|path| path.as_str().unwrap()) {
        let found = path.split('.').fold(vec![result.clone()], |found, part| {
            found.iter().flat_map(|value| step(value, part)).collect()
        });
        let found = if path.contains('*') {
            Value::Array(found)
        } else {
            found.into_iter().next().unwrap_or_default()
        };
        out.insert(path.to_owned(), found);
    }
    out.into()
}

fn step(value: &Value, part: &str) -> Vec<Value> {
    match (value, part) {
        (Value::Array(items), "*") => items.clone(),
        (Value::Object(members), "*") => members.values().cloned().collect(),
        (Value::Array(items), "length") => vec![items.len().into()],
        (Value::Array(items), at) => {
            at.parse().ok().and_then(|at: usize| items.get(at)).cloned().into_iter().collect()
        }
        (Value::Object(members), key) => members.get(key).cloned().into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Long runs in texts and towers of lists, shortened as the recordings are.
pub(super) fn squeeze(value: &Value) -> Value {
    match value {
        Value::String(text) => squeeze_text(text).into(),
        Value::Array(items) => {
            tower(value).map_or_else(|| items.iter().map(squeeze).collect(), Value::String)
        }
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| (squeeze_text(key), squeeze(value)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

fn tower(value: &Value) -> Option<String> {
    let (mut inner, mut depth) = (value, 0);
    while let Value::Array(items) = inner
        && let [only] = items.as_slice()
    {
        (inner, depth) = (only, depth + 1);
    }
    let empty = inner.as_array().is_some_and(Vec::is_empty);
    (depth > 20 && empty).then(|| format!("«{} nested arrays»", depth + 1))
}

fn squeeze_text(text: &str) -> String {
    if text.encode_utf16().count() <= 600 {
        return text.to_owned();
    }
    let letters: Vec<char> = text.chars().collect();
    let mut out = String::new();
    let mut at = 0;
    while at < letters.len() {
        let run = (1..=4).find_map(|unit| {
            let repeated = letters.get(at..at + unit)?;
            let times = letters[at..].chunks(unit).take_while(|chunk| *chunk == repeated).count();
            (times >= 100).then_some((unit, times))
        });
        match run {
            Some((unit, times)) => {
                out.extend(&letters[at..at + unit]);
                out.push_str(&format!("«x{times}»"));
                at += unit * times;
            }
            None => {
                out.push(letters[at]);
                at += 1;
            }
        }
    }
    out
}
