//! Replaces values that differ from run to run by placeholders. The same value gets the same placeholder within a
//! case, so references between steps are compared too. Values that the case itself sent are left alone.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::case::now;

pub(super) struct Normalizer {
    literals: HashSet<String>,
    /// The reference stores in SQLite or JSONL, as its runtime can.
    storage_any: bool,
    labels: HashMap<(String, String), String>,
    started: f64,
    step: usize,
    sent_at: f64,
    counts: HashMap<String, usize>,
}

/// Where a value stands.
#[derive(Clone, Copy, Default)]
struct Place<'a> {
    key: &'a str,
    /// The key of what it is in.
    within: &'a str,
    beside: Option<&'a Map<String, Value>>,
}

impl Place<'_> {
    fn beside_moment(self, key: &str) -> Option<f64> {
        self.beside?.get(key)?.as_f64()
    }
}

impl Normalizer {
    pub(super) fn new(steps: &[Value], storage_any: bool) -> Self {
        let mut literals = HashSet::new();
        for step in steps {
            for id in [UUID, HEX32] {
                replace(&step.to_string(), id, |found| {
                    literals.insert(found.to_owned());
                    found.to_owned()
                });
            }
        }
        let started = now().as_secs_f64();
        Self {
            literals,
            storage_any,
            labels: HashMap::new(),
            started,
            step: 0,
            sent_at: started,
            counts: HashMap::new(),
        }
    }

    /// A step begins whose request is sent now.
    pub(super) fn begin(&mut self, step: usize, sent_at: f64) {
        (self.step, self.sent_at) = (step, sent_at);
        self.counts.clear();
    }

    pub(super) fn value(&mut self, value: &Value) -> Value {
        self.walk(value, Place::default())
    }

    pub(super) fn text(&mut self, text: &str) -> String {
        // A text for people, made by the broker.
        if text.starts_with("[Relay]") {
            return "<notice>".into();
        }
        let text = replace(text, UUID, |found| self.unless_sent("uuid", found));
        replace(&text, HEX32, |found| self.unless_sent("hex32", found))
    }

    fn unless_sent(&mut self, kind: &str, found: &str) -> String {
        if self.literals.contains(found) { found.to_owned() } else { self.label(kind, found) }
    }

    fn label(&mut self, kind: &str, value: &str) -> String {
        let key = (kind.to_owned(), value.to_owned());
        if let Some(label) = self.labels.get(&key) {
            return label.clone();
        }
        let count = self.counts.entry(kind.to_owned()).or_default();
        *count += 1;
        let label = format!("<{kind}:{}.{count}>", self.step);
        self.labels.insert(key, label.clone());
        label
    }

    fn walk(&mut self, value: &Value, place: Place<'_>) -> Value {
        match value {
            Value::String(text) => self.string(text, place.key).into(),
            Value::Number(number) => self.number(number.as_f64().unwrap(), value, place),
            Value::Array(items) => {
                let place = Place { key: "", within: place.key, beside: None };
                items.iter().map(|item| self.walk(item, place)).collect()
            }
            Value::Object(members) => {
                let mut keys: Vec<_> = members.keys().collect();
                keys.sort();
                let mut out = Map::new();
                for key in keys {
                    let member = &members[key];
                    let is_flag = key == "sqlitePersistence" && member.is_boolean();
                    let place = Place { key, within: place.key, beside: Some(members) };
                    let member = if is_flag { "<bool>".into() } else { self.walk(member, place) };
                    out.insert(self.text(key), member);
                }
                out.into()
            }
            Value::Null | Value::Bool(_) => value.clone(),
        }
    }

    fn string(&mut self, text: &str, key: &str) -> String {
        match key {
            "lease_token" if text.len() >= 16 => self.label("lease-token", text),
            "leaseId" if text.len() >= 8 => self.label("lease-id", text),
            "ts" if is_iso(text) => self.label("iso-ts", text),
            "version" if is_semver(text) => "<semver>".into(),
            "storage" if self.storage_any && matches!(text, "sqlite" | "jsonl") => "<sqlite|jsonl>".into(),
            _ => self.text(text),
        }
    }

    fn number(&mut self, number: f64, value: &Value, place: Place<'_>) -> Value {
        let label = match place.key {
            "ts" | "lastSeen" if self.is_plausible(number) => {
                if number.fract() == 0.0 {
                    "<epoch-s>".into()
                } else {
                    "<epoch-s-float>".into()
                }
            }
            "leaseUntil" if self.is_plausible(number / 1000.0) => {
                self.lease("leaseUntil", number, number / 1000.0)
            }
            "lease_until" if self.is_plausible(number) => self.lease("lease_until", number, number),
            "expires_at" if self.is_plausible(number) => match place.beside_moment("created_at") {
                Some(created) => {
                    format!("<created_at+{}>", ((number - created) * 1000.0).round() / 1000.0)
                }
                None => self.label("expires_at", &number.to_string()),
            },
            "created_at" | "oldest_queued_at" if self.is_plausible(number) => {
                self.label("created_at", &number.to_string())
            }
            "completed_at" if self.is_plausible(number) => self.label("completed_at", &number.to_string()),
            _ if place.within == "last_pull_at" && self.is_plausible(number) => {
                self.label("last_pull_at", &number.to_string())
            }
            _ => return value.clone(),
        };
        label.into()
    }

    /// How long a lease was when it was first seen.
    fn lease(&mut self, key: &str, number: f64, seconds: f64) -> String {
        let ahead = (seconds - self.sent_at + 0.001).floor();
        let known = self.labels.entry((key.to_owned(), number.to_string()));
        known.or_insert_with(|| format!("<{key}:+{ahead}s>")).clone()
    }

    /// A moment that this run can have produced.
    fn is_plausible(&self, seconds: f64) -> bool {
        seconds > self.started - 30.0 && seconds < self.started + 90_100.0
    }
}

fn is_iso(text: &str) -> bool {
    let shape = "0000-00-00T00:00:00.000Z";
    text.len() == shape.len()
        && text.chars().zip(shape.chars()).all(|(a, b)| if b == '0' { a.is_ascii_digit() } else { a == b })
}

fn is_semver(text: &str) -> bool {
    text.split('.').count() >= 3 && text.split('.').take(2).all(|part| part.parse::<u32>().is_ok())
}

/// An id of random digits that stands free in a text.
#[derive(Clone, Copy)]
struct Id {
    length: usize,
    /// Where its dashes are; an id with dashes is not free beside another dash.
    dashes: &'static [usize],
}

const UUID: Id = Id { length: 36, dashes: &[8, 13, 18, 23] };
const HEX32: Id = Id { length: 32, dashes: &[] };

impl Id {
    fn is_at(self, bytes: &[u8], at: usize) -> bool {
        let Some(id) = bytes.get(at..at + self.length) else { return false };
        let fits = |(place, byte): (usize, &u8)| match self.dashes.contains(&place) {
            true => *byte == b'-',
            false => byte.is_ascii_digit() || (b'a'..=b'f').contains(byte),
        };
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        let after = bytes.get(at + self.length);
        let free = |byte: Option<&u8>| {
            byte.is_none_or(|byte| !byte.is_ascii_hexdigit() && (self.dashes.is_empty() || *byte != b'-'))
        };
        id.iter().enumerate().all(fits) && free(before) && free(after)
    }
}

fn replace(text: &str, id: Id, mut with: impl FnMut(&str) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut at, mut kept) = (0, 0);
    while at < text.len() {
        if id.is_at(text.as_bytes(), at) {
            out.push_str(&text[kept..at]);
            out.push_str(&with(&text[at..at + id.length]));
            kept = at + id.length;
            at = kept;
        } else {
            at += 1;
        }
    }
    out + &text[kept..]
}
