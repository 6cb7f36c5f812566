//! Who may write to whom: the `allowed_targets` of the configuration.

use std::collections::{HashMap, HashSet};

use crate::proto::dsh::names::AgentName;

/// The lists by sender. A sender without a list may write to anyone; an empty list lets nobody through.
#[derive(Clone, Debug, Default)]
pub struct Acl {
    allowed: HashMap<AgentName, HashSet<String>>,
}

impl Acl {
    pub fn new(lists: impl IntoIterator<Item = (AgentName, Vec<String>)>) -> Self {
        // The reference lower-cases the targets but not the names that it compares them with, and people have
        // written their lists around that: a mixed-case name is never allowed.
        let lower = |targets: Vec<String>| targets.into_iter().map(|target| target.to_lowercase()).collect();
        Self { allowed: lists.into_iter().map(|(agent, targets)| (agent, lower(targets))).collect() }
    }

    /// `known_as` are the names that the recipient has beyond this machine: its address and those given to it here.
    pub fn allows(&self, from: &AgentName, to: &str, known_as: &[String]) -> bool {
        let Some(targets) = self.allowed.get(from) else { return true };
        targets.contains(to) || known_as.iter().any(|name| names(targets.iter().map(String::as_str), name))
    }
}

/// Whether a list names somebody, by name or by a pattern of addresses.
pub(super) fn names<'a>(targets: impl Iterator<Item = &'a str>, name: &str) -> bool {
    let name = name.to_lowercase();
    let mut targets = targets;
    targets.any(|target| target == name || (target.contains('/') && matches(target, &name)))
}

/// Whether an address (`org/team/user/agent`) fits a pattern of as many levels, each a name or `*`.
pub fn matches(pattern: &str, address: &str) -> bool {
    let (mut levels, mut names) = (pattern.split('/'), address.split('/'));
    loop {
        match (levels.next(), names.next()) {
            (None, None) => return true,
            (Some(level), Some(name)) if level == "*" || level == name => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_several_names_is_allowed_under_any() {
        let name = |text: &str| AgentName::parse(text).unwrap();
        let acl = Acl::new([
            (name("alias"), vec!["bob-billing".into()]),
            (name("pattern"), vec!["globex/*/*/billing".into()]),
            (name("other"), vec!["*/*/*/audit".into(), "*".into()]),
        ]);
        let known_as = ["globex/erp/bob/billing".to_owned(), "Bob-Billing".to_owned()];
        for (from, allowed) in [("alias", true), ("pattern", true), ("other", false)] {
            for to in ["bob-billing#s4", "globex/erp/bob/billing"] {
                assert_eq!(acl.allows(&name(from), to, &known_as), allowed, "{from} -> {to}");
            }
        }
    }

    #[test]
    fn a_pattern_fits_level_by_level() {
        for (pattern, fits) in [
            ("globex/erp/bob/billing", true),
            ("globex/*/bob/*", true),
            ("*/*/*/*", true),
            ("globex/erp/bob", false),
            ("globex/erp/bob/bill*", false),
            ("*", false),
            ("globex/erp/bob/billing/x", false),
        ] {
            assert_eq!(matches(pattern, "globex/erp/bob/billing"), fits, "{pattern}");
        }
    }

    #[test]
    fn lists_restrict_only_whom_they_name() {
        let name = |text: &str| AgentName::parse(text).unwrap();
        let acl = Acl::new([
            (name("alpha"), vec!["beta".into(), "Gamma".into(), "acme/finance/ana/close".into()]),
            (name("closed"), vec![]),
        ]);
        for (from, to, allowed) in [
            ("alpha", "beta", true),
            ("alpha", "acme/finance/ana/close", true),
            ("alpha", "delta", false),
            ("alpha", "Gamma", false),
            ("alpha", "gamma", true),
            ("Alpha", "delta", true),
            ("closed", "beta", false),
            ("beta", "alpha", true),
        ] {
            assert_eq!(acl.allows(&name(from), to, &[]), allowed, "{from} -> {to}");
        }
    }
}
