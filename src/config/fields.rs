//! Reads a YAML mapping key by key: types, ranges, and at the end the keys that nobody asked for.

use std::fmt;
use std::str::FromStr;

use serde_yaml::{Mapping, Value};

/// A key whose value is not allowed, as a path like `redsyn.agents.close.trust`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyError {
    pub key: String,
    pub message: String,
}

impl KeyError {
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into() }
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

impl std::error::Error for KeyError {}

/// What is left to read of a mapping, and which keys were asked for.
#[derive(Debug)]
pub struct Fields {
    path: String,
    left: Mapping,
    known: Vec<String>,
}

impl Fields {
    /// A missing or empty section is a mapping without keys.
    ///
    /// # Errors
    /// When the value is a scalar or a list.
    pub fn of(value: &Value, path: &str) -> Result<Self, KeyError> {
        let left = match value {
            Value::Mapping(mapping) => mapping.clone(),
            Value::Null => Mapping::new(),
            _ => return Err(KeyError::new(path, "must be a section of `key: value` lines")),
        };
        Ok(Self { path: path.to_owned(), left, known: Vec::new() })
    }

    /// The raw value of a key.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        self.known.push(key.to_owned());
        self.left.shift_remove(key).filter(|value| !value.is_null())
    }

    pub fn wrong(&self, key: &str, message: impl Into<String>) -> KeyError {
        KeyError::new(format!("{}.{key}", self.path), message)
    }

    /// # Errors
    /// When the value is a section or a list.
    pub fn text(&mut self, key: &str) -> Result<Option<String>, KeyError> {
        match self.take(key) {
            None => Ok(None),
            Some(value) => scalar_text(&value).map(Some).ok_or_else(|| self.wrong(key, "must be a text")),
        }
    }

    /// # Errors
    /// When the value is not `true` or `false`.
    pub fn flag(&mut self, key: &str) -> Result<Option<bool>, KeyError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Bool(on)) => Ok(Some(on)),
            Some(_) => Err(self.wrong(key, "must be true or false")),
        }
    }

    /// # Errors
    /// When the value is none of the words.
    pub fn choice<T: Copy>(&mut self, key: &str, words: &[(&str, T)]) -> Result<Option<T>, KeyError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let chosen = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        let all = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        chosen.map(Some).ok_or_else(|| self.wrong(key, format!("{text:?} is none of: {}", all())))
    }

    /// A list of texts; a single text counts as a list of one.
    ///
    /// # Errors
    /// When an item is a section or a list.
    pub fn list(&mut self, key: &str) -> Result<Vec<String>, KeyError> {
        let items = match self.take(key) {
            None => return Ok(Vec::new()),
            Some(Value::Sequence(items)) => items,
            Some(single) => vec![single],
        };
        items
            .iter()
            .map(|item| scalar_text(item).ok_or_else(|| self.wrong(key, "must be a list of texts")))
            .collect()
    }

    /// # Errors
    /// When an item cannot be parsed.
    pub fn parsed_list<T>(&mut self, key: &str) -> Result<Vec<T>, KeyError>
    where
        T: FromStr,
        T::Err: fmt::Display,
    {
        let items = self.list(key)?;
        items
            .iter()
            .map(|item| item.parse().map_err(|error: T::Err| self.wrong(key, error.to_string())))
            .collect()
    }

    /// # Errors
    /// When the value is not a section.
    pub fn section(&mut self, key: &str) -> Result<Option<Mapping>, KeyError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Mapping(mapping)) => Ok(Some(mapping)),
            Some(_) => Err(self.wrong(key, "must be a section of `key: value` lines")),
        }
    }

    /// # Errors
    /// The first key that was never asked for, with the nearest known one.
    pub fn finish(self) -> Result<(), KeyError> {
        let Some((key, _)) = self.left.iter().next() else { return Ok(()) };
        let key = scalar_text(key).unwrap_or_else(|| "?".to_owned());
        let hint = nearest(&key, self.known.iter().map(String::as_str))
            .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        Err(KeyError::new(format!("{}.{key}", self.path), format!("is not a known key{hint}")))
    }
}

/// How far a key may be from a known one to be called a slip of the fingers.
const SLIP: f64 = 0.7;

/// The known word nearest to `word`, when it is near enough to be a slip of the fingers.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|known| (strsim::jaro_winkler(&word.to_lowercase(), &known.to_lowercase()), known))
        .filter(|(nearness, _)| *nearness >= SLIP)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

/// A scalar as the text that was meant: numbers and booleans too, since people write `token: 123`.
pub fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(on) => Some(on.to_string()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(yaml: &str) -> Fields {
        Fields::of(&serde_yaml::from_str(yaml).unwrap(), "redsyn").unwrap()
    }

    #[test]
    fn an_unknown_key_names_the_nearest_known_one() {
        let mut fields = fields("tokenfile: x");
        fields.text("tokenFile").unwrap();
        fields.text("scope").unwrap();
        let error = fields.finish().unwrap_err();
        assert_eq!(error.to_string(), "redsyn.tokenfile: is not a known key; did you mean `tokenFile`?");
    }

    #[test]
    fn wrong_types_name_the_key() {
        assert_eq!(fields("hold: 1").flag("hold").unwrap_err().key, "redsyn.hold");
        assert_eq!(fields("scope: [a]").text("scope").unwrap_err().key, "redsyn.scope");
        let error = fields("encrypt: maybe").choice("encrypt", &[("prefer", 1), ("never", 2)]).unwrap_err();
        assert_eq!(error.to_string(), "redsyn.encrypt: \"maybe\" is none of: prefer, never");
    }
}
