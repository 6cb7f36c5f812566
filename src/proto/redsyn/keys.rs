//! A node's public keys as they are registered and looked up (sections Firmas and Cifrado), and the decision
//! whether the key that somebody shows is the one pinned for them.

use serde::{Deserialize, Serialize};

use crate::crypto::enc_key::{EncKey, EncKeyError, check_enc_key};
use crate::crypto::key_text::KeyError;
use crate::crypto::sign::VerifyingKey;

/// The body of `PUT /nodes/key`. Texts stay as they were sent, because `enc_sig` covers the text of `enc_key`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRegistration {
    pub public_key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enc_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enc_sig: Option<String>,
    /// Must be true to replace a key.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub rotate: bool,
}

/// The answer of `GET /agents/{…}/key`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyAnswer {
    #[serde(default)]
    pub node: String,
    pub signing_key: String,
    #[serde(default, deserialize_with = "or_default")]
    pub enc_key: String,
    /// Without one, `enc_key` is nobody's.
    #[serde(default, deserialize_with = "or_default")]
    pub enc_sig: String,
    /// Opaque text for people to compare.
    #[serde(default)]
    pub fingerprint: String,
}

/// Keys of one node, of which the signing key vouches for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeKeys {
    pub signing_key: VerifyingKey,
    pub enc_key: EncKey,
}

/// Why keys are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    #[error("the signing key: {0}")]
    SigningKey(KeyError),
    #[error(transparent)]
    EncKey(#[from] EncKeyError),
    #[error("enc_key and enc_sig go together")]
    Incomplete,
}

impl KeyRegistration {
    /// The keys it registers; the second is `None` when the node can only sign. An empty text counts as missing.
    pub fn check(&self) -> Result<(VerifyingKey, Option<EncKey>), KeysError> {
        let signing_key = self.public_key.parse().map_err(KeysError::SigningKey)?;
        match (given(&self.enc_key), given(&self.enc_sig)) {
            (Some(enc_key), Some(enc_sig)) => {
                Ok((signing_key, Some(check_enc_key(&signing_key, enc_key, enc_sig)?)))
            }
            (None, None) => Ok((signing_key, None)),
            _ => Err(KeysError::Incomplete),
        }
    }
}

/// Null counts as missing (A5).
fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: serde::Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

impl KeyAnswer {
    /// Of a node that only signs: there is nothing to seal for.
    pub fn is_empty(&self) -> bool {
        self.enc_key.is_empty() && self.enc_sig.is_empty()
    }

    /// The keys it gives, if `enc_sig` holds. Says nothing of whose they are; see [`KeyAnswer::decide`].
    pub fn check(&self) -> Result<NodeKeys, KeysError> {
        let signing_key = self.signing_key.parse().map_err(KeysError::SigningKey)?;
        let enc_key = check_enc_key(&signing_key, &self.enc_key, &self.enc_sig)?;
        Ok(NodeKeys { signing_key, enc_key })
    }

    /// What a sender does with it, given the key pinned for the person: keys that may be sealed for come only out
    /// of here.
    pub fn decide(&self, pinned: Option<&VerifyingKey>) -> Result<KeyDecision, Stop> {
        let keys = self.check().map_err(Stop::Keys)?;
        match compare_pin(pinned, &keys.signing_key) {
            Pin::First => Ok(KeyDecision::First(keys)),
            Pin::Pinned => Ok(KeyDecision::Pinned(keys)),
            Pin::Stop => Err(Stop::OtherKey),
        }
    }
}

/// Keys that may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyDecision {
    /// Nothing was pinned: pin the signing key before using them.
    First(NodeKeys),
    Pinned(NodeKeys),
}

/// Why sending stops.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    #[error(transparent)]
    Keys(KeysError),
    /// A new machine of theirs, or a relay that slips in another key: a person must accept it.
    #[error("another signing key than the one pinned for this person")]
    OtherKey,
}

/// How a key compares with the one pinned for its person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pin {
    First,
    Pinned,
    Stop,
}

pub fn compare_pin(pinned: Option<&VerifyingKey>, seen: &VerifyingKey) -> Pin {
    match pinned {
        None => Pin::First,
        Some(pinned) if pinned == seen => Pin::Pinned,
        Some(_) => Pin::Stop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::enc_key::{EncPrivateKey, sign_enc_key};
    use crate::crypto::sign::SigningKey;

    fn registration(seed: u8) -> KeyRegistration {
        let key = SigningKey::from_seed(&[seed; 32]);
        let enc_key = EncPrivateKey::from_scalar(&[seed; 32]).unwrap().enc_key().to_string();
        KeyRegistration {
            public_key: key.verifying_key().to_string(),
            enc_sig: Some(sign_enc_key(&key, &enc_key).to_text()),
            enc_key: Some(enc_key),
            rotate: false,
        }
    }

    fn answer(seed: u8) -> KeyAnswer {
        let KeyRegistration { public_key, enc_key, enc_sig, .. } = registration(seed);
        KeyAnswer {
            node: "n1".to_owned(),
            signing_key: public_key,
            enc_key: enc_key.unwrap(),
            enc_sig: enc_sig.unwrap(),
            fingerprint: String::new(),
        }
    }

    #[test]
    fn a_registration_may_have_no_enc_key_but_not_half_of_one() {
        assert!(matches!(registration(1).check(), Ok((_, Some(_)))));
        let alone = KeyRegistration { enc_key: None, enc_sig: Some(String::new()), ..registration(1) };
        assert!(matches!(alone.check(), Ok((_, None))));
        let half = KeyRegistration { enc_sig: None, ..registration(1) };
        assert_eq!(half.check(), Err(KeysError::Incomplete));
        let mixed = KeyRegistration { public_key: registration(2).public_key, ..registration(1) };
        assert_eq!(mixed.check(), Err(KeysError::EncKey(EncKeyError::DoesNotHold)));
        let bad = KeyRegistration { public_key: "AAAA".to_owned(), ..registration(1) };
        assert!(matches!(bad.check(), Err(KeysError::SigningKey(_))));
    }

    #[test]
    fn only_the_pinned_key_goes_on() {
        let one = SigningKey::from_seed(&[1; 32]).verifying_key();
        let two = SigningKey::from_seed(&[2; 32]).verifying_key();
        assert!(matches!(answer(1).decide(None), Ok(KeyDecision::First(_))));
        assert!(matches!(answer(1).decide(Some(&one)), Ok(KeyDecision::Pinned(_))));
        assert_eq!(answer(1).decide(Some(&two)), Err(Stop::OtherKey));
        let slipped_in = KeyAnswer { enc_key: answer(2).enc_key, ..answer(1) };
        assert!(matches!(slipped_in.decide(Some(&one)), Err(Stop::Keys(_))));
        assert!(matches!(slipped_in.decide(None), Err(Stop::Keys(_))));
    }

    #[test]
    fn it_travels_without_what_it_does_not_have() {
        let json = serde_json::to_value(KeyRegistration {
            public_key: "k".to_owned(),
            enc_key: None,
            enc_sig: None,
            rotate: false,
        });
        assert_eq!(json.unwrap(), serde_json::json!({"public_key": "k"}));
    }
}
