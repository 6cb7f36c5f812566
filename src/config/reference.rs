//! Where the reference broker's own reader of configurations takes a value for something else than YAML does: whoever
//! comes from there is told. Only what it reads without complaint counts, each value on the line of its key.

use super::fields::KeyError;
use super::yaml::{Entry, Node, Scalar, Value};

/// The sections that it reads.
const SECTIONS: &[&str] = &["broker", "security", "agents"];
/// The keys whose values are texts to it.
const TEXTS: &[&str] = &["secret", "host", "dataDir", "storage"];
/// Those whose values are lists of texts.
const LISTS: &[&str] = &[
    "allowed_targets",
    "allowed_read_targets",
    "allowed_continue_targets",
    "allowed_write_targets",
    "admin_agents",
];

const HASH: &str = "a # begins a comment there, inside words and quotes, too";
const ESCAPES: &str = "there, nothing is an escape: each backslash and each doubled quote stays";
const DIGITS: &str = "digits are a number there: zeros in front and what a double cannot hold are lost";
const COMMA: &str = "a comma ends an item there, inside quotes, too";
const BRACES: &str = "there, { } is no section but a text";

/// A warning for each of them. `text` is the file of which `root` is the tree.
pub(super) fn differences(root: &Node, text: &str) -> Vec<KeyError> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for entry in entries(root).iter().filter(|entry| SECTIONS.contains(&entry.key.as_str())) {
        look_at(entry, &entry.key, &lines, &mut found);
    }
    found
}

fn entries(node: &Node) -> &[Entry] {
    match &node.value {
        Value::Map(entries) => entries,
        _ => &[],
    }
}

fn look_at(entry: &Entry, path: &str, lines: &[&str], found: &mut Vec<KeyError>) {
    let line = entry.line.checked_sub(1).and_then(|line| lines.get(line)).copied().unwrap_or_default();
    let difference = match &entry.node.value {
        Value::Scalar(scalar) if TEXTS.contains(&entry.key.as_str()) => of_text(scalar, line),
        Value::List(items) if LISTS.contains(&entry.key.as_str()) => of_list(items, line),
        // An agent without fields is one to it, too.
        Value::Map(inner) if entry.node.line == entry.line && (path == "agents" || !inner.is_empty()) => {
            Some(BRACES)
        }
        _ => None,
    };
    if let Some(why) = difference {
        let message = format!("means something else to the Node broker: {why}");
        found.push(KeyError { key: path.to_owned(), line: Some(entry.line), message });
        return;
    }
    for inner in entries(&entry.node) {
        look_at(inner, &format!("{path}.{}", inner.key), lines, found);
    }
}

fn of_text(scalar: &Scalar, line: &str) -> Option<&'static str> {
    let text = scalar.text.as_str();
    let digits = text.strip_prefix('-').unwrap_or(text);
    if text.contains('#') {
        Some(HASH)
    } else if scalar.plain && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let number = text.parse::<f64>().ok()?;
        (format!("{number:.0}") != text || number.abs() >= LARGEST).then_some(DIGITS)
    } else {
        let inside = unquoted(after_key(line)?)?;
        (inside != text).then_some(ESCAPES)
    }
}

/// From here on JavaScript writes numbers with an exponent.
const LARGEST: f64 = 1e21;

fn of_list(items: &[Node], line: &str) -> Option<&'static str> {
    let texts = items.iter().filter_map(|item| match &item.value {
        Value::Scalar(scalar) => Some(scalar.text.as_str()),
        _ => None,
    });
    let texts: Vec<&str> = texts.collect();
    if texts.iter().any(|text| text.contains('#')) {
        return Some(HASH);
    }
    if texts.iter().any(|text| text.contains(',')) {
        return Some(COMMA);
    }
    let inner = after_key(line)?.strip_prefix('[')?.strip_suffix(']')?;
    let quotes = ['"', '\''];
    let read = inner.split(',').map(|item| {
        let item = item.trim();
        let item = item.strip_prefix(quotes).unwrap_or(item);
        item.strip_suffix(quotes).unwrap_or(item)
    });
    (!read.filter(|item| !item.is_empty()).eq(texts)).then_some(ESCAPES)
}

/// What stands behind the key of a line, without the comment.
fn after_key(line: &str) -> Option<&str> {
    let line = line.split('#').next().unwrap_or_default();
    line.split_once(':').map(|(_, value)| value.trim())
}

fn unquoted(value: &str) -> Option<&str> {
    ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::Config;

    #[test]
    fn what_the_reference_reads_otherwise_is_warned_of_without_the_value() {
        for (lines, warned) in [
            ("secret: hunter#2", Some("3: broker.secret means something else to the Node broker: a # ")),
            ("secret: \"hunter#2\"  # a comment", Some("3: broker.secret means something else")),
            ("secret: 'hunter # 2'", Some("3: broker.secret means")),
            (
                "secret: \"hunter\\\\2\"",
                Some("3: broker.secret means something else to the Node broker: there, nothing is an escape"),
            ),
            ("secret: 'hunter''2'   # a comment", Some("3: broker.secret means")),
            ("secret: 0012345", Some("3: broker.secret means something else to the Node broker: digits")),
            ("secret: 12345678901234567890", Some("3: broker.secret means")),
            ("secret: s\n  dataDir: \"./\\x64ata\"", Some("4: broker.dataDir means")),
            ("secret: s\nagents:\n  a:\n    secret: hunter#2", Some("6: agents.a.secret means")),
            (
                "secret: s\nagents:\n  a:\n    keys:\n      k:\n        secret: 007",
                Some("8: agents.a.keys.k.secret means"),
            ),
            (
                "secret: s\nagents:\n  a:\n    allowed_targets: [b, c#d]",
                Some("6: agents.a.allowed_targets means"),
            ),
            (
                "secret: s\nagents:\n  a:\n    allowed_targets: [b, 'c,d']",
                Some("6: agents.a.allowed_targets means something else to the Node broker: a comma"),
            ),
            (
                "secret: s\nagents:\n  a:\n    allowed_targets: [b, 'c''d']",
                Some("6: agents.a.allowed_targets means"),
            ),
            (
                "secret: s\nagents:\n  a: { secret: hunter2 }",
                Some("5: agents.a means something else to the Node broker: there, { } is no section"),
            ),
            ("secret: s\nagents: {}", Some("4: agents means")),
            // The same to both.
            ("secret: \"hunter2\"   # a comment, don't", None),
            ("secret: 'it\"s'", None),
            ("secret: 123456", None),
            ("secret: -5", None),
            ("secret: \"12:34\"", None),
            ("secret: C:\\relay", None),
            ("secret: 'C:\\relay'", None),
            ("secret: s\n  port: 0017", None),
            ("secret: s\nsecurity:\n  admin_agents: [\"a\" , 'b', 007 ]   # both", None),
            ("secret: s\nagents:\n  a: {}", None),
            // None of its sections.
            ("secret: s\nredsyn: { relay: off, contacts: { secret: a/b/c/d } }\nmetrics: {}", None),
        ] {
            let text = format!("broker:\n  host: 127.0.0.1\n  {lines}\n");
            let config = Config::parse(&text, Path::new("/etc/relay/config.yaml")).unwrap();
            let told: Vec<_> =
                config.warnings.iter().map(|text| &text["/etc/relay/config.yaml:".len()..]).collect();
            match warned {
                None => assert!(told.is_empty(), "{lines}: {told:?}"),
                Some(warned) => assert!(told.len() == 1 && told[0].starts_with(warned), "{lines}: {told:?}"),
            }
            assert!(!told.concat().contains("hunter"), "{told:?}");
        }
    }
}
