//! What came out of a file of vectors, for people and for machines.

use std::fmt;

use serde_json::{Value, json};

use super::case::Failure;

/// One case that was run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    pub section: &'static str,
    /// From 0, within the section.
    pub index: usize,
    pub name: String,
    /// Only strict cases are judged.
    pub strict: bool,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed(Failure),
    /// Not strict, and without an answer to compare with.
    Unsettled,
}

/// Every case of a file, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub cases: Vec<Checked>,
    /// Sections of the file that are not known here.
    pub not_checked: Vec<String>,
}

impl Report {
    /// Strict cases that passed.
    pub fn passed(&self) -> usize {
        self.count(true, |outcome| *outcome == Outcome::Passed)
    }

    /// Strict cases that failed.
    pub fn failed(&self) -> usize {
        self.count(true, |outcome| matches!(outcome, Outcome::Failed(_)))
    }

    fn count(&self, strict: bool, is: impl Fn(&Outcome) -> bool) -> usize {
        self.cases.iter().filter(|case| case.strict == strict && is(&case.outcome)).count()
    }

    fn failures(&self, strict: bool) -> impl Iterator<Item = (&Checked, &Failure)> {
        self.cases.iter().filter(move |case| case.strict == strict).filter_map(|case| match &case.outcome {
            Outcome::Failed(failure) => Some((case, failure)),
            Outcome::Passed | Outcome::Unsettled => None,
        })
    }

    /// `{passed, failed, failures, informative: {agree, differ, unsettled, differences}, not_checked}`.
    pub fn to_json(&self) -> Value {
        let list = |strict| {
            self.failures(strict)
                .map(|(case, failure)| {
                    json!({
                        "section": case.section, "index": case.index, "name": case.name,
                        "expected": failure.expected, "got": failure.got,
                    })
                })
                .collect::<Vec<_>>()
        };
        json!({
            "passed": self.passed(),
            "failed": self.failed(),
            "failures": list(true),
            "informative": {
                "agree": self.count(false, |outcome| *outcome == Outcome::Passed),
                "differ": self.failures(false).count(),
                "unsettled": self.count(false, |outcome| *outcome == Outcome::Unsettled),
                "differences": list(false),
            },
            "not_checked": self.not_checked,
        })
    }
}

/// A line for each failure, a line of what was not judged, and last `N passed, N failed`.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (case, failure) in self.failures(true) {
            let Checked { section, index, name, .. } = case;
            writeln!(f, "{section}[{index}] {name:?}: expected {}, got {}", failure.expected, failure.got)?;
        }
        for section in &self.not_checked {
            writeln!(f, "not checked: the section {section:?} is not known here")?;
        }
        let agree = self.count(false, |outcome| *outcome == Outcome::Passed);
        writeln!(f, "informative: {agree} agree, {} differ", self.failures(false).count())?;
        writeln!(f, "{} passed, {} failed", self.passed(), self.failed())
    }
}
