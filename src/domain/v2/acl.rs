//! Who may ask whom to do what: one list of targets per mode.

use std::collections::{HashMap, HashSet};

use crate::domain::acl;
use crate::proto::dsh::v2::message::Mode;
use crate::proto::dsh::v2::name::Name;

/// Whom an agent may ask, as it is configured. `None`: no list.
#[derive(Clone, Debug, Default)]
pub struct Lists {
    pub all: Option<Vec<String>>,
    pub read: Option<Vec<String>>,
    pub continuing: Option<Vec<String>>,
    pub write: Option<Vec<String>>,
}

/// The lists by agent and mode.
#[derive(Clone, Debug, Default)]
pub struct Acl {
    allowed: HashMap<(Name, Mode), HashSet<Name>>,
}

impl Acl {
    pub fn new(lists: impl IntoIterator<Item = (Name, Lists)>) -> Self {
        let mut allowed = HashMap::new();
        for (agent, lists) in lists {
            let Lists { all, read, continuing, write } = lists;
            let modes = [
                (Mode::Read, read.or_else(|| all.clone())),
                (Mode::Continue, continuing.or(all)),
                (Mode::Write, write),
            ];
            for (mode, targets) in modes {
                let Some(targets) = targets else { continue };
                let targets = targets.iter().map(|target| Name::of(target)).collect();
                allowed.insert((agent.clone(), mode), targets);
            }
        }
        Self { allowed }
    }

    /// Without a list an agent may ask anyone to read or continue, and nobody to write.
    /// `known_as` are the names that the recipient has beyond this machine.
    pub fn allows(&self, from: &Name, to: &Name, known_as: &[String], mode: Mode) -> bool {
        match self.allowed.get(&(from.clone(), mode)) {
            Some(targets) => {
                let listed = |name: &String| acl::names(targets.iter().map(Name::as_str), name);
                targets.contains(to) || known_as.iter().any(listed)
            }
            None => mode != Mode::Write,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_agents_beyond_the_machine_by_any_name_or_a_pattern() {
        let write = Some(vec!["globex/erp/*/*".to_owned()]);
        let read = Some(vec!["bob".to_owned()]);
        let acl = Acl::new([(Name::of("close"), Lists { write, read, ..Lists::default() })]);
        let known_as = ["globex/erp/bob/billing".to_owned(), "bob".to_owned()];
        let allows = |mode| acl.allows(&Name::of("close"), &Name::of("bob#s4"), &known_as, mode);
        assert!(allows(Mode::Write) && allows(Mode::Read));
        assert!(!acl.allows(
            &Name::of("close"),
            &Name::of("acme/x/y/z"),
            &["acme/x/y/z".into()],
            Mode::Write
        ));
    }

    #[test]
    fn each_mode_has_its_list_or_that_of_all() {
        let list = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        let acl = Acl::new([
            (Name::of("alpha"), Lists { all: list(&["Beta"]), ..Lists::default() }),
            (
                Name::of("rw"),
                Lists {
                    all: None,
                    read: list(&["beta"]),
                    continuing: list(&["gamma"]),
                    write: list(&["delta"]),
                },
            ),
            (Name::of("mix"), Lists { all: list(&["beta"]), read: list(&["delta"]), ..Lists::default() }),
            (Name::of("none"), Lists { all: list(&[]), ..Lists::default() }),
            (Name::of("bare"), Lists::default()),
        ]);
        for (from, to, allowed) in [
            ("alpha", "beta", [true, true, false]),
            ("alpha", "gamma", [false, false, false]),
            ("rw", "beta", [true, false, false]),
            ("rw", "gamma", [false, true, false]),
            ("rw", "delta", [false, false, true]),
            ("mix", "beta", [false, true, false]),
            ("mix", "delta", [true, false, false]),
            ("none", "beta", [false, false, false]),
            ("bare", "beta", [true, true, false]),
            ("free", "beta", [true, true, false]),
        ] {
            let got = Mode::ALL.map(|mode| acl.allows(&Name::of(from), &Name::of(to), &[], mode));
            assert_eq!(got, allowed, "{from} -> {to}");
        }
    }
}
