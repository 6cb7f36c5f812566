//! Who was looked up by a token: every call begins with that. All are forgotten when anything that is known of one may
//! have changed, which is rare.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::store::relay::{Caller, TokenHash};

/// The most that are remembered: more nodes than call in the time of one poll. Beyond it, all are looked up again.
const MOST: usize = 20_000;

#[derive(Debug, Default)]
pub(super) struct Callers {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    callers: HashMap<TokenHash, Caller>,
    /// How often all were forgotten.
    era: u64,
}

/// What a look-up must not outlive: the callers of another era may be others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Era(u64);

impl Callers {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The caller, or the era in which to look for them.
    pub(super) fn get(&self, token: &TokenHash) -> Result<Caller, Era> {
        let known = self.known();
        known.callers.get(token).cloned().ok_or(Era(known.era))
    }

    /// Remembers what a look-up that began in `era` has found.
    pub(super) fn keep(&self, era: Era, token: TokenHash, caller: &Caller) {
        let mut known = self.known();
        if Era(known.era) != era {
            return;
        }
        if known.callers.len() >= MOST {
            known.callers.clear();
        }
        known.callers.insert(token, caller.clone());
    }

    /// Forgets all of them. To be called after the commit of the change, before anybody is told of it.
    pub(super) fn forget(&self) {
        let mut known = self.known();
        known.callers.clear();
        known.era += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::clock::Timestamp;
    use crate::domain::random::SystemRandom;
    use crate::proto::redsyn::keys::KeyRegistration;
    use crate::store::relay::{Home, NodeId, PersonId, RelayStore};
    use crate::store::sqlite::relay::SqliteRelay;

    fn caller() -> Caller {
        let (email, node_name) = (String::new(), String::new());
        Caller { person: PersonId(1), email, node: NodeId(1), node_name, public_key: None, version: None }
    }

    #[test]
    fn what_was_looked_up_before_a_change_is_not_kept_after_it() {
        let (callers, token) = (Callers::default(), TokenHash::of("a"));
        let era = callers.get(&token).unwrap_err();
        callers.forget();
        callers.keep(era, token, &caller());
        let era = callers.get(&token).unwrap_err();
        callers.keep(era, token, &caller());
        assert!(callers.get(&token).is_ok());
        callers.forget();
        assert!(callers.get(&token).is_err());
    }

    #[test]
    fn there_are_never_more_than_the_most() {
        let callers = Callers::default();
        for number in 0..=MOST {
            let token = TokenHash::of(&number.to_string());
            let era = callers.get(&token).unwrap_err();
            callers.keep(era, token, &caller());
        }
        assert_eq!(callers.known().callers.len(), 1);
    }
    #[tokio::test]
    async fn whatever_changes_a_caller_is_seen_by_the_next_call() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteRelay::open(folder.path(), Arc::default(), SystemRandom::shared()).await.unwrap();
        let now = Timestamp::from_millis(0);
        let tokens = ["first", "second", "of the home"].map(TokenHash::of);
        let called = async |number: usize| store.caller(tokens[number]).await.unwrap();

        let ana = store.create_person("ana@x.org".parse().unwrap(), "pro".into(), now).await.unwrap();
        assert!(called(0).await.is_none());
        let laptop = store.create_node(ana, "laptop".into(), tokens[0], now).await.unwrap();
        let bob = store.create_person("bob@x.org".parse().unwrap(), "pro".into(), now).await.unwrap();
        store.create_node(bob, "server".into(), tokens[1], now).await.unwrap();
        let caller = called(0).await.unwrap();
        assert_eq!((caller.node, caller.public_key, caller.version), (laptop, None, None));

        let key = KeyRegistration { public_key: "key".into(), enc_key: None, enc_sig: None, rotate: false };
        store.register_key(laptop, key, now).await.unwrap();
        assert_eq!(called(0).await.unwrap().public_key.as_deref(), Some("key"));
        let name = |text: &str| text.parse().unwrap();
        store.create_org(ana, name("acme"), name("ana"), "2026-09-25".into(), now).await.unwrap();
        assert_eq!(called(0).await.unwrap().version.as_deref(), Some("2026-09-25"));

        assert_eq!(called(1).await.unwrap().version, None);
        store.invite(ana, name("acme"), "bob@x.org".parse().unwrap(), name("general"), now).await.unwrap();
        store.join(bob, name("acme"), name("bob"), now).await.unwrap();
        assert_eq!(called(1).await.unwrap().version.as_deref(), Some("2026-09-25"));

        store.remove_node(laptop, now).await.unwrap();
        assert!(called(0).await.is_none());
        store.remove_person(bob, now).await.unwrap();
        assert!(called(1).await.is_none());

        let home = Home {
            email: "home@x.org".parse().unwrap(),
            plan: "pro".into(),
            org: name("home"),
            team: name("general"),
            user: name("me"),
            node: "node".into(),
            version: "2026-09-25".into(),
        };
        store.ensure_home(home.clone(), tokens[2], now).await.unwrap();
        assert!(called(2).await.is_some());
        store.ensure_home(home, tokens[0], now).await.unwrap();
        assert!(called(2).await.is_none() && called(0).await.is_some());
        store.close().await.unwrap();
    }
}
