//! Reads a mapping key by key: types, ranges, and at the end the keys that nobody asked for.

use std::fmt;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::yaml::{Entry, Node, Scalar, Value, shown};
use crate::crypto::secret::Secret;

const NO_SECTION: &str = "must be a section of `key: value` lines";

/// A key whose value is not allowed, as a path like `redsyn.agents.close.trust`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyError {
    pub key: String,
    /// Counted from 1. A key that is missing has the line of its section, if that is there.
    pub line: Option<usize>,
    pub message: String,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The file itself has no name among keys.
        write!(f, "{}{}{}", self.key, if self.key.is_empty() { "" } else { " " }, self.message)
    }
}

impl std::error::Error for KeyError {}

/// Whose keys a section has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    /// Those of the reference: an unknown one is warned of, a blank value is wrong.
    Reference,
    /// Our own: an unknown one is refused, a blank value is the same as none.
    Own,
}

/// A mapping, and which of its keys were asked for.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    path: String,
    line: Option<usize>,
    entries: &'a [Entry],
    asked: Vec<&'static str>,
    keys: Keys,
}

/// A text of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'a> {
    pub text: &'a str,
    pub line: usize,
}

impl<'a> Fields<'a> {
    /// The whole file; `path` is what its keys are called in errors. An empty file is a mapping without keys.
    ///
    /// # Errors
    /// When the file is a text or a list.
    pub(super) fn of_file(node: &'a Node, path: &str) -> Result<Self, KeyError> {
        Self::of(node, path.to_owned(), None, Keys::Own)
    }

    fn of(node: &'a Node, path: String, line: Option<usize>, keys: Keys) -> Result<Self, KeyError> {
        let entries: &[Entry] = match &node.value {
            Value::Map(entries) => entries,
            Value::Null => &[],
            Value::Scalar(_) | Value::List(_) => {
                let line = line.or(Some(node.line));
                return Err(KeyError { key: path, line, message: NO_SECTION.to_owned() });
            }
        };
        Ok(Self { path, line, entries, asked: Vec::new(), keys })
    }

    /// The same mapping with keys of the reference.
    pub(super) fn of_reference(self) -> Self {
        Self { keys: Keys::Reference, ..self }
    }

    fn path(&self, key: &str) -> String {
        let key = shown(key);
        if self.path.is_empty() { key.into_owned() } else { format!("{}.{key}", self.path) }
    }

    fn entry(&self, key: &str) -> Option<&'a Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// A problem with a key, whether it is there or not.
    pub(super) fn wrong(&self, key: &str, message: impl Into<String>) -> KeyError {
        let line = self.entry(key).map(|entry| entry.line).or(self.line);
        KeyError { key: self.path(key), line, message: message.into() }
    }

    /// A problem with one text of the list at a key.
    pub(super) fn wrong_item(&self, key: &str, item: Item<'_>, message: impl Into<String>) -> KeyError {
        KeyError { line: Some(item.line), ..self.wrong(key, message) }
    }

    /// A problem with the section as a whole.
    pub(super) fn wrong_section(&self, message: impl Into<String>) -> KeyError {
        KeyError { key: self.path.clone(), line: self.line, message: message.into() }
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// The keys that are there, for sections whose keys are names.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.entries.iter().map(|entry| entry.key.as_str())
    }

    /// The entry of a key, which is known from now on.
    fn ask(&mut self, key: &'static str) -> Option<&'a Entry> {
        self.asked.push(key);
        let entry = self.entry(key);
        #[cfg(test)]
        asked::note(self.path(key), entry);
        entry
    }

    /// What a key has, if it has anything.
    fn take(&mut self, key: &'static str) -> Option<&'a Node> {
        let node = &self.ask(key)?.node;
        let blank = matches!(node.value, Value::Null) && self.keys == Keys::Own;
        (!blank).then_some(node)
    }

    fn scalar(&mut self, key: &'static str, problem: &str) -> Result<Option<&'a Scalar>, KeyError> {
        match self.take(key).map(|node| &node.value) {
            None => Ok(None),
            Some(Value::Scalar(scalar)) => Ok(Some(scalar)),
            Some(_) => Err(self.wrong(key, problem)),
        }
    }

    /// A text as it is written: digits and `true` are texts too.
    ///
    /// # Errors
    /// When the value is a section or a list.
    pub(super) fn text(&mut self, key: &'static str) -> Result<Option<&'a str>, KeyError> {
        Ok(self.scalar(key, "must be a text")?.map(|scalar| scalar.text.as_str()))
    }

    /// The text of a name's own value, such as the address of a contact.
    ///
    /// # Errors
    /// When the value is a section or a list.
    pub(super) fn text_of(&self, name: &str) -> Result<&'a str, KeyError> {
        match self.entry(name).map(|entry| &entry.node.value) {
            Some(Value::Scalar(scalar)) => Ok(&scalar.text),
            _ => Err(self.wrong(name, "must be a text")),
        }
    }

    /// A path; `base` is where relative ones begin.
    ///
    /// # Errors
    /// When it is blank, or not what whoever wrote it can have meant.
    pub(super) fn path_from(&mut self, key: &'static str, base: &Path) -> Result<Option<PathBuf>, KeyError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        if text.trim().is_empty() {
            return Err(self.wrong(key, "is blank"));
        }
        if text.contains(char::is_control) {
            let why = r"has a line break or the like in it: a backslash in double quotes begins an escape, so use single quotes: 'C:\relay\data'";
            return Err(self.wrong(key, why));
        }
        if text.starts_with('~') {
            let why = "begins with ~, which is not the home folder here: write the whole path, or ./~ for such a name";
            return Err(self.wrong(key, why));
        }
        Ok(Some(base.join(text)))
    }

    /// # Errors
    /// When a secret is there and has nothing in it.
    pub(super) fn secret(&mut self, key: &'static str) -> Result<Option<Secret>, KeyError> {
        let blank = "must not be blank: leave the key out or give a secret";
        match self.take(key).map(|node| &node.value) {
            None => Ok(None),
            Some(Value::Scalar(scalar)) if !scalar.text.trim().is_empty() => {
                Ok(Some(Secret::new(scalar.text.trim_end_matches(['\r', '\n']))))
            }
            Some(Value::Scalar(_) | Value::Null) => Err(self.wrong(key, blank)),
            Some(_) => Err(self.wrong(key, "must be a text")),
        }
    }

    /// # Errors
    /// When the value is not `true` or `false`.
    pub(super) fn flag(&mut self, key: &'static str) -> Result<Option<bool>, KeyError> {
        let problem = "must be true or false, without quotes";
        let Some(scalar) = self.scalar(key, problem)? else { return Ok(None) };
        scalar.flag().map(Some).ok_or_else(|| self.wrong(key, problem))
    }

    /// A whole number, also as a quoted text.
    ///
    /// # Errors
    /// When it is anything else, or outside the range.
    pub(super) fn whole(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u32>,
        default: u32,
    ) -> Result<u32, KeyError> {
        let problem = if *range.end() == u32::MAX {
            format!("must be a whole number of at least {}", range.start())
        } else {
            format!("must be a whole number from {} to {}", range.start(), range.end())
        };
        let Some(scalar) = self.scalar(key, &problem)? else { return Ok(default) };
        let number = match scalar.number() {
            Some(number) if number.fract() == 0.0 => format!("{number:.0}").parse().ok(),
            Some(_) => None,
            None => scalar.text.parse().ok(),
        };
        number.filter(|number| range.contains(number)).ok_or_else(|| self.wrong(key, problem))
    }

    /// The same for what cannot be nothing.
    ///
    /// # Errors
    /// When it is not a whole number of at least 1.
    pub(super) fn at_least_one(&mut self, key: &'static str, default: u32) -> Result<NonZeroU32, KeyError> {
        let number = self.whole(key, 1..=u32::MAX, default)?;
        Ok(NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN))
    }

    /// Seconds since 1970, with fractions.
    ///
    /// # Errors
    /// When it is no number, or not after that.
    pub(super) fn time(&mut self, key: &'static str) -> Result<Option<f64>, KeyError> {
        let problem = "must be a time in Unix seconds, greater than 0";
        let Some(scalar) = self.scalar(key, problem)? else { return Ok(None) };
        let seconds = scalar.number().filter(|seconds| *seconds > 0.0 && seconds.is_finite());
        seconds.map(Some).ok_or_else(|| self.wrong(key, problem))
    }

    /// # Errors
    /// When the value is none of the words.
    pub(super) fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, KeyError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let chosen = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        let all = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        chosen.map(Some).ok_or_else(|| self.wrong(key, format!("{text:?} is none of: {}", all())))
    }

    /// A list of texts. Among our own keys, a single text counts as a list of one.
    ///
    /// # Errors
    /// When it is no list, or an item is none of a text.
    pub(super) fn list(&mut self, key: &'static str) -> Result<Option<Vec<Item<'a>>>, KeyError> {
        let problem = "must be a list of texts, such as [alpha, beta]";
        let item = |node: &'a Node| match &node.value {
            Value::Scalar(scalar) => Some(Item { text: &scalar.text, line: node.line }),
            _ => None,
        };
        let Some(node) = self.take(key) else { return Ok(None) };
        let items = match &node.value {
            Value::List(items) => items.iter().map(item).collect(),
            Value::Scalar(_) if self.keys == Keys::Own => item(node).map(|item| vec![item]),
            _ => None,
        };
        items.map(Some).ok_or_else(|| self.wrong(key, problem))
    }

    /// The texts of a list alone.
    ///
    /// # Errors
    /// As [`Fields::list`].
    pub(super) fn texts(&mut self, key: &'static str) -> Result<Option<Vec<String>>, KeyError> {
        let items = self.list(key)?;
        Ok(items.map(|items| items.iter().map(|item| item.text.to_owned()).collect()))
    }

    /// # Errors
    /// When an item cannot be parsed.
    pub(super) fn parsed_list<T>(&mut self, key: &'static str) -> Result<Vec<T>, KeyError>
    where
        T: FromStr,
        T::Err: fmt::Display,
    {
        let items = self.list(key)?.unwrap_or_default();
        let parse = |item: Item<'_>| {
            item.text.parse().map_err(|error: T::Err| self.wrong_item(key, item, error.to_string()))
        };
        items.into_iter().map(parse).collect()
    }

    /// A section of the same manner; one that is missing or blank has no keys.
    ///
    /// # Errors
    /// When the value is not a section.
    pub(super) fn section(&mut self, key: &'static str) -> Result<Self, KeyError> {
        self.ask(key);
        self.section_of(key)
    }

    /// A section, if there is anything in it.
    ///
    /// # Errors
    /// When the value is not a section.
    pub(super) fn section_if_any(&mut self, key: &'static str) -> Result<Option<Self>, KeyError> {
        match self.take(key) {
            None => Ok(None),
            Some(_) => self.section_of(key).map(Some),
        }
    }

    /// The section of a name.
    ///
    /// # Errors
    /// When the value is not a section.
    pub(super) fn section_of(&self, name: &str) -> Result<Self, KeyError> {
        match self.entry(name) {
            Some(entry) => Self::of(&entry.node, self.path(name), Some(entry.line), self.keys),
            None => Ok(Self {
                path: self.path(name),
                line: self.line,
                entries: &[],
                asked: Vec::new(),
                keys: self.keys,
            }),
        }
    }

    fn unknown(&self) -> impl Iterator<Item = (&'a Entry, Option<&'static str>)> {
        let unknown = self.entries.iter().filter(|entry| !self.asked.contains(&entry.key.as_str()));
        unknown.map(|entry| (entry, nearest(&entry.key, self.asked.iter().copied())))
    }

    /// # Errors
    /// The first key that was never asked for, with the nearest known one.
    pub(super) fn refuse_unknown(&self) -> Result<(), KeyError> {
        let Some((entry, near)) = self.unknown().next() else { return Ok(()) };
        let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        Err(self.wrong(&entry.key, format!("is not a known key{hint}")))
    }

    /// Warns of each key that was never asked for.
    pub(super) fn warn_of_unknown(&self, warnings: &mut Vec<KeyError>) {
        warnings.extend(self.unknown().map(|(entry, near)| {
            let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
            self.wrong(&entry.key, format!("is unknown and ignored{hint}"))
        }));
    }
}

/// How far a key may be from a known one to be called a slip of the fingers.
const SLIP: f64 = 0.7;

/// The known word nearest to `word`, when it is near enough to be a slip of the fingers.
fn nearest(word: &str, known: impl IntoIterator<Item = &'static str>) -> Option<&'static str> {
    known
        .into_iter()
        .map(|known| (strsim::jaro_winkler(&word.to_lowercase(), &known.to_lowercase()), known))
        .filter(|(nearness, _)| *nearness >= SLIP)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

/// Which keys there are, for tests that must not forget one.
#[cfg(test)]
pub(crate) mod asked {
    use std::cell::RefCell;

    use super::{Entry, Value};

    /// A key that was asked for, and the texts it had; `None` when it was not there.
    pub(crate) type Asked = (String, Option<Vec<String>>);

    thread_local! {
        static ASKED: RefCell<Vec<Asked>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn note(path: String, entry: Option<&Entry>) {
        let texts = |entry: &Entry| match &entry.node.value {
            Value::Scalar(scalar) => vec![scalar.text.clone()],
            Value::List(items) => items
                .iter()
                .filter_map(|item| match &item.value {
                    Value::Scalar(scalar) => Some(scalar.text.clone()),
                    _ => None,
                })
                .collect(),
            Value::Null | Value::Map(_) => Vec::new(),
        };
        ASKED.with_borrow_mut(|asked| asked.push((path, entry.map(texts))));
    }

    /// The outcome of some reading, and the keys that it asked for.
    pub(crate) fn during<T>(read: impl FnOnce() -> T) -> (T, Vec<Asked>) {
        ASKED.take();
        let read = read();
        (read, ASKED.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(yaml: &str, read: impl FnOnce(&mut Fields<'_>) -> KeyError) -> String {
        let (root, _) = super::super::yaml::parse(yaml).unwrap();
        read(&mut Fields::of_file(&root, "redsyn").unwrap()).to_string()
    }

    #[test]
    fn an_unknown_key_names_the_nearest_known_one() {
        let told = told("tokenfile: x", |fields| {
            fields.text("tokenFile").unwrap();
            fields.text("scope").unwrap();
            fields.refuse_unknown().unwrap_err()
        });
        assert_eq!(told, "redsyn.tokenfile is not a known key; did you mean `tokenFile`?");
    }

    #[test]
    fn wrong_types_name_the_key() {
        assert!(told("hold: 1", |fields| fields.flag("hold").unwrap_err()).starts_with("redsyn.hold must"));
        assert!(told("scope: [a]", |fields| fields.text("scope").unwrap_err()).starts_with("redsyn.scope"));
        let words = &[("prefer", 1), ("never", 2)];
        let told = told("encrypt: maybe", |fields| fields.choice("encrypt", words).unwrap_err());
        assert_eq!(told, "redsyn.encrypt \"maybe\" is none of: prefer, never");
    }
}
