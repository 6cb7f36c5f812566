//! Reads checked values out of the YAML tree, with errors that name file, line, key and what is allowed.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::ConfigError;
use super::fields::nearest;
use super::node::Node;

/// The file as a tree, as text, and what was found odd in it.
pub(super) struct Document {
    file: PathBuf,
    text: String,
    root: Node,
    warnings: Vec<String>,
}

/// One mapping of the tree and the way to it.
#[derive(Clone, Debug, Default)]
pub(super) struct Section {
    path: Vec<String>,
    entries: Vec<(String, Node)>,
}

impl Document {
    pub(super) fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        let mut document =
            Self { file: file.to_owned(), text: text.to_owned(), root: Node::Null, warnings: Vec::new() };
        match serde_yaml::from_str(text) {
            Ok(root) => document.root = root,
            Err(error) => {
                // The reference's own reader lets empty items of a list pass, so files with them are about.
                let repaired = without_empty_items(text);
                document.root = serde_yaml::from_str(&repaired)
                    .map_err(|_| ConfigError::yaml(file, "not YAML: ", &error))?;
                document.text = repaired;
                document
                    .warnings
                    .push(format!("{}: a list has empty items, which YAML does not allow", file.display()));
            }
        }
        Ok(document)
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    pub(super) fn into_warnings(self) -> Vec<String> {
        self.warnings
    }

    /// The same text read into a type. A scalar that is read as a string is the one that is written: `0012` stays.
    pub(super) fn as_written<T: for<'de> Deserialize<'de>>(&self) -> Result<T, ConfigError> {
        serde_yaml::from_str(&self.text).map_err(|error| ConfigError::yaml(&self.file, "", &error))
    }

    pub(super) fn top(&self) -> Result<Section, ConfigError> {
        self.mapping(&self.root, Vec::new())
    }

    /// The mapping at `path`; an empty one when there is nothing.
    pub(super) fn section(&self, path: &[&str]) -> Result<Section, ConfigError> {
        let mut section = self.top()?;
        for key in path {
            let mut path = section.path.clone();
            path.push((*key).to_owned());
            section = self.mapping(section.value(key).unwrap_or(&Node::Null), path)?;
        }
        Ok(section)
    }

    fn mapping(&self, value: &Node, path: Vec<String>) -> Result<Section, ConfigError> {
        match value {
            Node::Null => Ok(Section { path, entries: Vec::new() }),
            Node::Map(entries) => Ok(Section { path, entries: entries.clone() }),
            _ if path.is_empty() => Err(self.error(&[""; 0], "the file must hold sections, such as broker:")),
            _ => Err(self.error(&path, "must hold keys and values")),
        }
    }

    pub(super) fn error(&self, path: &[impl AsRef<str>], problem: &str) -> ConfigError {
        let problem =
            if path.is_empty() { problem.to_owned() } else { format!("{} {problem}", dotted(path)) };
        ConfigError { file: self.file.clone(), line: line_of(&self.text, path), problem }
    }

    pub(super) fn warn(&mut self, path: &[impl AsRef<str>], text: &str) {
        let warning = self.error(path, text).to_string();
        self.warnings.push(warning);
    }
}

impl Section {
    pub(super) fn value(&self, key: &str) -> Option<&Node> {
        self.entries.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(key, _)| key.as_str())
    }

    fn path(&self, key: &str) -> Vec<String> {
        self.path.iter().cloned().chain([key.to_owned()]).collect()
    }

    pub(super) fn error(&self, document: &Document, key: &str, problem: &str) -> ConfigError {
        document.error(&self.path(key), problem)
    }

    /// A whole number, also as a quoted text.
    pub(super) fn number(
        &self,
        document: &Document,
        key: &str,
        range: RangeInclusive<u32>,
        default: u32,
    ) -> Result<u32, ConfigError> {
        let Some(value) = self.value(key) else { return Ok(default) };
        let number = match value {
            Node::Number(number) if number.fract() == 0.0 => format!("{number:.0}").parse().ok(),
            Node::Text(text) => text.parse().ok(),
            _ => None,
        };
        let number = number.filter(|number| range.contains(number));
        number.ok_or_else(|| {
            let allowed = if *range.end() == u32::MAX {
                format!("must be a whole number of at least {}", range.start())
            } else {
                format!("must be a whole number from {} to {}", range.start(), range.end())
            };
            self.error(document, key, &allowed)
        })
    }

    pub(super) fn flag(&self, document: &Document, key: &str, default: bool) -> Result<bool, ConfigError> {
        match self.value(key) {
            None => Ok(default),
            Some(Node::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.error(document, key, "must be true or false, without quotes")),
        }
    }

    /// A scalar that stands for a text; what was written is read by [`Document::as_written`].
    pub(super) fn check_text(&self, document: &Document, key: &str) -> Result<(), ConfigError> {
        match self.value(key) {
            None | Some(Node::Text(_) | Node::Number(_) | Node::Bool(_)) => Ok(()),
            Some(_) => Err(self.error(document, key, "must be a text")),
        }
    }

    /// A secret that is there must have something in it.
    pub(super) fn check_secret(&self, document: &Document, key: &str) -> Result<(), ConfigError> {
        match self.value(key) {
            Some(Node::Null) => {
                Err(self.error(document, key, "must not be blank: leave the key out or give a secret"))
            }
            Some(Node::Text(text)) if text.trim().is_empty() => {
                Err(self.error(document, key, "must not be blank: leave the key out or give a secret"))
            }
            _ => self.check_text(document, key),
        }
    }

    /// A list of scalars that stand for texts.
    pub(super) fn check_list(&self, document: &Document, key: &str) -> Result<(), ConfigError> {
        let is_text = |item: &Node| matches!(item, Node::Text(_) | Node::Number(_) | Node::Bool(_));
        match self.value(key) {
            None => Ok(()),
            Some(Node::List(items)) if items.iter().all(is_text) => Ok(()),
            Some(_) => Err(self.error(document, key, "must be a list, such as [alpha, beta]")),
        }
    }

    pub(super) fn warn_of_unknown(&self, document: &mut Document, known: &[&str]) {
        for key in self.keys().filter(|key| !known.contains(key)) {
            let nearest = nearest(key, known.iter().copied());
            let text = match nearest {
                Some(nearest) => format!("is unknown and ignored; did you mean {nearest}?"),
                None => "is unknown and ignored".to_owned(),
            };
            document.warn(&self.path(key), &text);
        }
    }
}

/// The line of a key of a YAML text, found by looking for each key of the path below the one before.
pub(super) fn line_of(text: &str, path: &[impl AsRef<str>]) -> Option<usize> {
    let mut found = None;
    let mut lines = text.lines().enumerate();
    for key in path {
        let key = key.as_ref();
        let is_key = |line: &str| {
            let line = line.trim_start().trim_start_matches(['"', '\'']);
            line.strip_prefix(key)
                .is_some_and(|rest| rest.trim_start_matches(['"', '\'', ' ']).starts_with(':'))
        };
        match lines.find(|(_, line)| is_key(line)) {
            Some((line, _)) => found = Some(line + 1),
            None => return found,
        }
    }
    found
}

fn dotted(path: &[impl AsRef<str>]) -> String {
    path.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(".")
}

/// The text without the empty items of lists that are written in one line: `[a, , b]` becomes `[a, b]`.
fn without_empty_items(text: &str) -> String {
    let repair = |line: &str| {
        let Some((before, rest)) = line.split_once('[') else { return line.to_owned() };
        let Some((items, after)) = rest.rsplit_once(']') else { return line.to_owned() };
        let items: Vec<_> = items.split(',').filter(|item| !item.trim().is_empty()).collect();
        format!("{before}[{}]{after}", items.join(","))
    };
    text.split_inclusive('\n').map(repair).collect()
}
