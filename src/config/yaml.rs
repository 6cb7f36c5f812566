//! A YAML text as a tree that knows on which line each thing stands. Scalars are the texts that are written: `007` is
//! not 7, unless somebody asks for a number.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span, StructureStyle, Tag};

/// What aliases may make of a file: more than anybody configures, few enough to be held.
const MOST_NODES: usize = 100_000;
/// How many empty items of lists are passed over; each costs another reading of the file.
const MOST_EMPTY_ITEMS: usize = 100;

#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Counted from 1; where there is nothing, that of its key.
    pub line: usize,
    pub value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    /// Nothing, `~` or `null`.
    Null,
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Clone, Debug)]
pub(super) struct Scalar {
    pub text: String,
    /// Neither quoted nor a block: numbers and booleans are plain.
    pub plain: bool,
}

/// A key and what belongs to it. No key is twice in a mapping.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub key: String,
    pub line: usize,
    pub node: Node,
}

/// A place in the file where YAML has no sense, or has it only since we pass over something.
#[derive(Debug)]
pub(super) struct Oddity {
    pub line: usize,
    /// The keys that lead there.
    pub path: String,
    pub problem: String,
}

impl Scalar {
    pub(super) fn flag(&self) -> Option<bool> {
        match self.text.as_str() {
            "true" | "True" | "TRUE" if self.plain => Some(true),
            "false" | "False" | "FALSE" if self.plain => Some(false),
            _ => None,
        }
    }

    pub(super) fn number(&self) -> Option<f64> {
        let text = self.text.strip_prefix('+').unwrap_or(&self.text);
        let whole = |digits: &str, radix| u32::from_str_radix(digits, radix).ok().map(f64::from);
        match text.get(..2) {
            _ if !self.plain => None,
            Some("0x") => whole(&text[2..], 16),
            Some("0o") => whole(&text[2..], 8),
            Some("0b") => whole(&text[2..], 2),
            // What is not a digit here would be a word, such as `inf`.
            _ => text.parse().ok().filter(|_| text.bytes().all(|byte| b"0123456789+-.eE".contains(&byte))),
        }
    }
}

impl Node {
    fn nodes(&self) -> usize {
        match &self.value {
            Value::Null | Value::Scalar(_) => 1,
            Value::List(items) => items.iter().map(Self::nodes).sum::<usize>() + 1,
            Value::Map(entries) => entries.iter().map(|entry| entry.node.nodes()).sum::<usize>() + 1,
        }
    }
}

/// The tree of the text, and the lists whose empty items were passed over: YAML allows none, but the reference's own
/// reader lets them pass, so files with them are about.
///
/// # Errors
/// The first place that is not YAML, or no configuration: a key twice, a key that is no text, a second document.
pub(super) fn parse(text: &str) -> Result<(Node, Vec<Oddity>), Oddity> {
    let mut text = Cow::Borrowed(text);
    let mut passed_over = Vec::new();
    loop {
        let mut tree = Tree::default();
        match tree.read(&text) {
            Ok(root) => return Ok((root, passed_over)),
            Err(Stop::Empty { comma, line }) if passed_over.len() < MOST_EMPTY_ITEMS => {
                passed_over.push(tree.oddity(line, "has an empty item, which YAML does not allow"));
                text.to_mut().replace_range(comma..=comma, " ");
            }
            Err(Stop::Empty { line, .. }) => return Err(tree.oddity(line, "has too many empty items")),
            Err(Stop::Wrong { line, problem }) => return Err(tree.oddity(line, &problem)),
        }
    }
}

/// Why reading cannot go on.
enum Stop {
    Wrong {
        line: usize,
        problem: String,
    },
    /// A list in brackets has nothing before this comma, which is at this byte.
    Empty {
        comma: usize,
        line: usize,
    },
}

impl Stop {
    fn wrong(line: usize, problem: impl Into<String>) -> Self {
        Self::Wrong { line, problem: problem.into() }
    }
}

/// What has been opened and not closed.
enum Open {
    List { line: usize, anchor: usize, brackets: bool, items: Vec<Node> },
    Map { line: usize, anchor: usize, entries: Vec<Entry>, key: Option<(String, usize)> },
}

#[derive(Default)]
struct Tree {
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    root: Option<Node>,
    documents: usize,
}

impl Tree {
    fn read(&mut self, text: &str) -> Result<Node, Stop> {
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| self.stop(text, &error))?;
            self.take(event, span)?;
        }
        Ok(self.root.take().unwrap_or(Node { line: 1, value: Value::Null }))
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Stop> {
        let line = span.start.line();
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(Stop::wrong(line, "begins a second document; the file must be one"));
                }
                Ok(())
            }
            Event::Scalar(written, style, anchor, tag) => {
                let is_text = is_text(tag.as_deref(), line)?;
                let plain = style == ScalarStyle::Plain && !is_text;
                let value = match &*written {
                    "" | "~" | "null" | "Null" | "NULL" if plain => Value::Null,
                    _ => Value::Scalar(Scalar { text: written.clone().into_owned(), plain }),
                };
                self.put(Node { line, value }, anchor, || written.into_owned())
            }
            Event::SequenceStart(style, anchor, tag) => {
                is_text(tag.as_deref(), line)?;
                let brackets = style == StructureStyle::Flow;
                self.open.push(Open::List { line, anchor, brackets, items: Vec::new() });
                Ok(())
            }
            Event::MappingStart(_, anchor, tag) => {
                is_text(tag.as_deref(), line)?;
                self.open.push(Open::Map { line, anchor, entries: Vec::new(), key: None });
                Ok(())
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let (node, anchor) = match self.open.pop() {
                    Some(Open::List { line, anchor, items, .. }) => {
                        (Node { line, value: Value::List(items) }, anchor)
                    }
                    Some(Open::Map { line, anchor, entries, .. }) => {
                        (Node { line, value: Value::Map(entries) }, anchor)
                    }
                    None => return Ok(()),
                };
                self.put(node, anchor, String::new)
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor).cloned() else {
                    return Err(Stop::wrong(line, "has an alias inside what it stands for"));
                };
                self.nodes += node.nodes();
                self.put(Node { line, ..node }, 0, String::new)
            }
            _ => Ok(()),
        }
    }

    /// Puts a finished node where it belongs. `key` is its text, should it be a key.
    fn put(&mut self, node: Node, anchor: usize, key: impl FnOnce() -> String) -> Result<(), Stop> {
        self.nodes += 1;
        if self.nodes > MOST_NODES {
            return Err(Stop::wrong(node.line, format!("makes the file more than {MOST_NODES} values")));
        }
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { entries, key: waiting, .. }) => match waiting.take() {
                Some((key, line)) => entries.push(Entry { key, line, node }),
                None if matches!(node.value, Value::List(_) | Value::Map(_)) => {
                    return Err(Stop::wrong(node.line, "has a key that is no text"));
                }
                None => {
                    let key = key();
                    let twice = entries.iter().any(|entry| entry.key == key);
                    *waiting = Some((key, node.line));
                    if twice {
                        return Err(Stop::wrong(node.line, "is there twice"));
                    }
                }
            },
        }
        Ok(())
    }

    fn stop(&self, text: &str, error: &ScanError) -> Stop {
        let mark = error.marker();
        let in_brackets = matches!(self.open.last(), Some(Open::List { brackets: true, .. }));
        match mark.byte_offset() {
            Some(comma) if in_brackets && text.get(comma..).is_some_and(|rest| rest.starts_with(',')) => {
                Stop::Empty { comma, line: mark.line() }
            }
            _ => Stop::wrong(mark.line(), format!("is not YAML: {}{}", error.info(), way_out(error.kind()))),
        }
    }

    /// Names the way to where reading stopped.
    fn oddity(&self, line: usize, problem: &str) -> Oddity {
        let keys = self.open.iter().filter_map(|open| match open {
            Open::Map { key: Some((key, _)), .. } => Some(shown(key)),
            _ => None,
        });
        Oddity { line, path: keys.collect::<Vec<_>>().join("."), problem: problem.to_owned() }
    }
}

/// A key as errors show it. Without a blank behind its colon a key has its value in it, which may be a secret.
pub(super) fn shown(key: &str) -> Cow<'_, str> {
    match key.split_once(':') {
        Some((key, _)) => Cow::Owned(format!("{key}:…")),
        None => Cow::Borrowed(key),
    }
}

/// Whether a tag makes a text of whatever is written. Tags of one's own mean nothing in a configuration.
fn is_text(tag: Option<&Tag>, line: usize) -> Result<bool, Stop> {
    match tag {
        None => Ok(false),
        Some(tag) if tag.is_yaml_core_schema() => Ok(tag.is_yaml_core_schema_tag("str")),
        // Not repeated: it may be the beginning of a secret.
        Some(_) => Err(Stop::wrong(line, "begins with !, which is a tag in YAML: put the text into quotes")),
    }
}

/// What to do about the mistakes that people make.
fn way_out(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::UnknownQuotedScalarEscape
        | ErrorKind::InvalidQuotedScalarHexEscape
        | ErrorKind::InvalidUnicodeEscape => {
            r"; a backslash in double quotes begins an escape, so use single quotes: 'C:\relay\data'"
        }
        ErrorKind::MappingValueNotAllowed => {
            "; a text with a colon and a blank in it needs quotes, and the colon behind a key a blank"
        }
        ErrorKind::UnexpectedCharacter { .. } | ErrorKind::UnknownAnchor => "; put the text into quotes",
        _ => "",
    }
}
