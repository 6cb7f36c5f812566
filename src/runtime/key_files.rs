//! The files of this node's keys: the current ones, those before them, and those that wait for the relay.

use std::path::{Path, PathBuf};

use super::error::RunError;
use super::secrets;
use crate::bridge::keys::{Keeper, KeyRing, NodeKeys};
use crate::domain::random::Random;

const CURRENT: &str = "node.key";
const PREVIOUS: &str = "node.key.old";
const NEXT: &str = "node.key.next";

/// The keys of a data folder.
#[derive(Clone, Debug)]
pub struct KeyFiles {
    folder: PathBuf,
}

impl KeyFiles {
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// The ring of all that is there; the current keys are made at the first start.
    ///
    /// # Errors
    /// When a file cannot be read or written, or holds no keys.
    pub fn ring(&self, random: &dyn Random) -> Result<KeyRing, RunError> {
        let current = secrets::node_keys(&self.file(CURRENT), random)?;
        let previous = secrets::known_node_keys(&self.file(PREVIOUS))?;
        Ok(KeyRing::new(current, previous, self.next()?, Box::new(self.clone())))
    }

    /// Whether keys that others know have gone: there is mail of this node, and nothing to sign and open it with.
    ///
    /// # Errors
    /// See [`KeyFiles::ring`].
    pub fn check_kept(&self, has_mail: bool) -> Result<(), RunError> {
        // Those that wait are there because somebody has decided to go on without the others.
        if !has_mail || self.current()?.is_some() || self.next()?.is_some() {
            return Ok(());
        }
        Err(RunError::other(format!(
            "{} is missing, though this node has exchanged mail: others know it by that key, and what was sealed for it \
             opens with nothing else; put it back from a copy, or, when it is gone for good, run `redsyn-bridge keys rotate` and start \
             again: whoever has pinned the lost key then has to accept the new one",
            self.file(CURRENT).display()
        )))
    }

    /// The current keys, if there has been a start.
    ///
    /// # Errors
    /// See [`KeyFiles::ring`].
    pub fn current(&self) -> Result<Option<NodeKeys>, RunError> {
        secrets::known_node_keys(&self.file(CURRENT))
    }

    /// The keys that wait for the relay.
    ///
    /// # Errors
    /// See [`KeyFiles::ring`].
    pub fn next(&self) -> Result<Option<NodeKeys>, RunError> {
        secrets::known_node_keys(&self.file(NEXT))
    }

    /// Makes the keys that are to follow. Those that wait already stay: the relay may have taken them without our
    /// having seen its answer.
    ///
    /// # Errors
    /// See [`KeyFiles::ring`].
    pub fn make_next(&self, random: &dyn Random) -> Result<NodeKeys, RunError> {
        secrets::node_keys(&self.file(NEXT), random)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Keeper for KeyFiles {
    /// The old keys are kept aside before the new ones take their place: a crash in between only makes the next start
    /// register the new ones again, which changes nothing at the relay.
    fn rotated(&self) {
        let moved = secrets::copy(&self.file(CURRENT), &self.file(PREVIOUS)).and_then(|()| {
            std::fs::rename(self.file(NEXT), self.file(CURRENT))
                .map_err(|error| RunError::other(format!("cannot put the new keys in place: {error}")))
        });
        if let Err(error) = moved {
            tracing::error!(%error, "rotated_keys_not_kept");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::random::SystemRandom;

    fn public(keys: &NodeKeys) -> String {
        keys.registration().public_key
    }

    #[test]
    fn rotated_keys_take_the_place_of_those_before_which_still_open() {
        let folder = tempfile::tempdir().unwrap();
        let files = KeyFiles::new(folder.path());
        let first = public(&files.ring(&SystemRandom).unwrap().current());
        let next = public(&files.make_next(&SystemRandom).unwrap());
        assert_eq!(public(&files.make_next(&SystemRandom).unwrap()), next, "asked twice, made once");
        let ring = files.ring(&SystemRandom).unwrap();
        assert_eq!(public(&ring.current()), first, "not before the relay has taken them");
        files.rotated();

        let ring = files.ring(&SystemRandom).unwrap();
        assert_eq!(public(&ring.current()), next);
        assert!(ring.next().is_none());
        assert_eq!(public(&secrets::known_node_keys(&files.file(PREVIOUS)).unwrap().unwrap()), first);
        let tried = std::cell::Cell::new(0);
        let opened: Result<(), ()> = ring.open(|_| {
            tried.set(tried.get() + 1);
            if tried.get() == 2 { Ok(()) } else { Err(()) }
        });
        assert!(opened.is_ok(), "what was sealed for the old keys is opened with them");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            for name in [CURRENT, PREVIOUS] {
                let mode = std::fs::metadata(files.file(name)).unwrap().permissions().mode();
                assert_eq!(mode & 0o777, 0o600, "{name}");
            }
        }
    }
}
