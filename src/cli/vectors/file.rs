//! The form of a file of vectors: an object whose known members hold the cases of a section, and the one list of
//! sections with what checks each.

use serde_json::{Map, Value};

use super::case::{Case, Check};
use super::report::{Checked, Outcome, Report};
use super::{addresses, canonical, envelopes, keys, sealed, webhooks};
use crate::crypto::json::{self, JsonError};

/// Why a file cannot be checked at all.
#[derive(Debug, thiserror::Error)]
pub enum FormError {
    #[error(transparent)]
    Json(#[from] JsonError),
    #[error("it is not a JSON object")]
    NotAnObject,
    #[error("the section {0:?} is not a list of objects")]
    Section(String),
    #[error("it has none of the sections that are known here")]
    NoSection,
}

struct Section {
    /// A dot stands for an object around it.
    name: &'static str,
    /// The member without which a case that is not strict says nothing.
    expectation: Option<&'static str>,
    check: fn(Case) -> Check,
}

const fn section(name: &'static str, check: fn(Case) -> Check) -> Section {
    Section { name, expectation: None, check }
}

const SECTIONS: [Section; 12] = [
    Section { expectation: Some("valid"), ..section("addresses.parse", addresses::parse) },
    section("addresses.resolve", addresses::resolve),
    section("canonical", canonical::canonical),
    section("canonical_rejects", canonical::rejects),
    section("signing", envelopes::signing),
    section("relay_checks", envelopes::relay_check),
    section("receiver_checks", envelopes::receiver_check),
    section("enc_key_registrations", keys::registration),
    section("key_answers", keys::answer),
    section("sealed", sealed::sealed),
    section("sealed_rejects", sealed::rejects),
    section("webhooks", webhooks::webhook),
];

/// Runs every case of a file. A case that is not well-formed fails; a file that is not gives an error.
pub fn check(file: &[u8]) -> Result<Report, FormError> {
    let Value::Object(file) = json::parse(file)? else { return Err(FormError::NotAnObject) };
    let mut report = Report { cases: Vec::new(), not_checked: unknown_sections(&file) };
    let mut found = false;
    for section in &SECTIONS {
        let Some(cases) = lookup(&file, section.name) else { continue };
        found = true;
        let form = || FormError::Section(section.name.to_owned());
        for (index, case) in cases.as_array().ok_or_else(form)?.iter().enumerate() {
            report.cases.push(section.run(index, Case(case.as_object().ok_or_else(form)?)));
        }
    }
    if found { Ok(report) } else { Err(FormError::NoSection) }
}

impl Section {
    fn run(&self, index: usize, case: Case) -> Checked {
        let strict = case.0.get("strict").and_then(Value::as_bool).unwrap_or(true);
        let silent = self.expectation.is_some_and(|name| case.value(name).is_none());
        let outcome = if !strict && silent {
            Outcome::Unsettled
        } else {
            (self.check)(case).map_or_else(Outcome::Failed, |()| Outcome::Passed)
        };
        let name = ["name", "input"].iter().find_map(|member| case.0.get(*member)?.as_str());
        Checked { section: self.name, index, name: name.unwrap_or_default().to_owned(), strict, outcome }
    }
}

fn lookup<'a>(file: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    match name.split_once('.') {
        None => file.get(name),
        Some((outer, inner)) => file.get(outer)?.get(inner),
    }
}

/// Lists of cases that nothing here can check; nobody should think that they passed.
fn unknown_sections(file: &Map<String, Value>) -> Vec<String> {
    let mut names = Vec::new();
    for (name, value) in file {
        match value {
            Value::Array(_) => names.push(name.clone()),
            Value::Object(inner) => {
                let lists = inner.iter().filter(|(_, value)| value.is_array());
                names.extend(lists.map(|(inner, _)| format!("{name}.{inner}")));
            }
            _ => {}
        }
    }
    names.retain(|name| !SECTIONS.iter().any(|section| section.name == name));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_another_form_are_refused() {
        for (file, expected) in [
            ("", "not JSON: EOF while parsing a value at line 1 column 0"),
            ("[]", "it is not a JSON object"),
            ("{}", "it has none of the sections that are known here"),
            (r#"{"about":{}}"#, "it has none of the sections that are known here"),
            (r#"{"signing":{}}"#, "the section \"signing\" is not a list of objects"),
            (r#"{"addresses":{"parse":[1]}}"#, "the section \"addresses.parse\" is not a list of objects"),
        ] {
            assert_eq!(check(file.as_bytes()).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn cases_without_what_they_need_fail_and_unknown_sections_are_named() {
        let report = check(br#"{"webhooks":[{}],"later":[{}],"addresses":{"later":[]}}"#).unwrap();
        assert_eq!((report.passed(), report.failed()), (0, 1));
        assert_eq!(report.not_checked, ["later", "addresses.later"]);
    }
}
