//! This node's own keys: ed25519 to sign, P-256 to be sealed for. Where they are kept is the caller's.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use zeroize::Zeroizing;

use crate::crypto::enc_key::{EncPrivateKey, sign_enc_key};
use crate::crypto::key_text::KeyError;
use crate::crypto::sign::SigningKey;
use crate::domain::random::Random;
use crate::proto::redsyn::keys::KeyRegistration;

/// Both private keys. Wiped when dropped; `Debug` shows none of it.
#[derive(Debug)]
pub struct NodeKeys {
    pub signing: SigningKey,
    pub enc: EncPrivateKey,
}

/// A key file. It borrows from the text, so that the secrets are in one place.
#[derive(Deserialize)]
struct File<'a> {
    ed25519: &'a str,
    p256: &'a str,
}

/// Why a key file cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NodeKeysError {
    #[error("it is not a key file: expected JSON with \"ed25519\" and \"p256\"")]
    Shape,
    #[error("its keys cannot be read: {0}")]
    Key(#[from] KeyError),
}

impl NodeKeys {
    pub fn generate(random: &dyn Random) -> Self {
        let seed = Zeroizing::new(random.bytes::<32>());
        loop {
            let scalar = Zeroizing::new(random.bytes::<32>());
            // Out of 2^256 numbers about 2^224 are no P-256 scalars: then draw again.
            if let Ok(enc) = EncPrivateKey::from_scalar(&scalar) {
                return Self { signing: SigningKey::from_seed(&seed), enc };
            }
        }
    }

    /// # Errors
    /// When the text is not what [`NodeKeys::to_text`] writes.
    pub fn parse(text: &str) -> Result<Self, NodeKeysError> {
        let file: File<'_> = serde_json::from_str(text).map_err(|_| NodeKeysError::Shape)?;
        Ok(Self { signing: SigningKey::parse(file.ed25519)?, enc: EncPrivateKey::parse(file.p256)? })
    }

    /// JSON for a file that only its owner may read.
    pub fn to_text(&self) -> Zeroizing<String> {
        let (ed25519, p256) = (self.signing.to_text(), self.enc.to_text());
        // base64url needs no escapes, and a JSON tree would keep copies that nobody wipes.
        Zeroizing::new(format!("{{\"ed25519\":\"{}\",\"p256\":\"{}\"}}\n", ed25519.as_str(), p256.as_str()))
    }

    /// The body of `PUT /nodes/key`.
    pub fn registration(&self) -> KeyRegistration {
        let enc_key = self.enc.enc_key().to_string();
        KeyRegistration {
            public_key: self.signing.verifying_key().to_string(),
            enc_sig: Some(sign_enc_key(&self.signing, &enc_key).to_text()),
            enc_key: Some(enc_key),
            rotate: false,
        }
    }
}

/// The keys a node signs with now, those before them, and those that are to follow.
#[derive(Debug)]
pub struct KeyRing {
    keys: Mutex<Keys>,
    keeper: Box<dyn Keeper>,
}

#[derive(Debug)]
struct Keys {
    current: Arc<NodeKeys>,
    /// Mail may still be under way that was sealed for these.
    previous: Option<Arc<NodeKeys>>,
    /// Not used before the relay has taken them: until then others seal for the current ones.
    next: Option<Arc<NodeKeys>>,
}

/// Keeps the key files in step with the ring.
pub trait Keeper: Send + Sync + fmt::Debug {
    /// The relay has taken the next keys: they are the current ones from now on.
    fn rotated(&self);
}

/// Nothing is kept.
#[derive(Clone, Copy, Debug)]
pub struct NoKeeper;

impl Keeper for NoKeeper {
    fn rotated(&self) {}
}

impl KeyRing {
    pub fn new(
        current: NodeKeys,
        previous: Option<NodeKeys>,
        next: Option<NodeKeys>,
        keeper: Box<dyn Keeper>,
    ) -> Self {
        let keys =
            Keys { current: Arc::new(current), previous: previous.map(Arc::new), next: next.map(Arc::new) };
        Self { keys: Mutex::new(keys), keeper }
    }

    pub fn current(&self) -> Arc<NodeKeys> {
        Arc::clone(&self.lock().current)
    }

    pub fn next(&self) -> Option<Arc<NodeKeys>> {
        self.lock().next.clone()
    }

    /// To be registered in place of the current ones.
    pub fn set_next(&self, next: NodeKeys) {
        self.lock().next = Some(Arc::new(next));
    }

    /// The relay has taken `next`.
    pub(super) fn rotated(&self, next: &Arc<NodeKeys>) {
        let mut keys = self.lock();
        keys.previous = Some(std::mem::replace(&mut keys.current, Arc::clone(next)));
        keys.next = None;
        // Under the lock, so that another rotation cannot get in between. A crash before it registers them again.
        self.keeper.rotated();
    }

    /// Opens with the current key, else with the one before it.
    ///
    /// # Errors
    /// Why the current key does not open it.
    pub fn open<T, E>(&self, open: impl Fn(&EncPrivateKey) -> Result<T, E>) -> Result<T, E> {
        let (current, previous) = {
            let keys = self.lock();
            (Arc::clone(&keys.current), keys.previous.clone())
        };
        match (open(&current.enc), previous) {
            (Err(error), Some(previous)) => open(&previous.enc).map_err(|_| error),
            (opened, _) => opened,
        }
    }

    /// Nothing that holds the lock can leave it half-way.
    fn lock(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::random::SystemRandom;

    #[test]
    fn keys_survive_their_file_and_stay_out_of_debug_output() {
        let keys = NodeKeys::generate(&SystemRandom);
        let again = NodeKeys::parse(&keys.to_text()).unwrap();
        assert_eq!(again.registration().public_key, keys.registration().public_key);
        assert_eq!(again.registration().enc_key, keys.registration().enc_key);
        assert!(!format!("{keys:?}").contains(keys.signing.to_text().as_str()));
        again.registration().check().unwrap();
    }

    #[test]
    fn a_file_that_is_none_is_refused() {
        for text in ["", "{}", "{\"ed25519\": \"x\", \"p256\": \"y\"}"] {
            assert!(NodeKeys::parse(text).is_err(), "{text}");
        }
    }
}
