//! ed25519 keys and signatures (section Firmas). Keys and signatures travel as base64url of 32 and 64 bytes.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use ed25519_dalek::Signer;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::base64url;
use super::key_text::{self, KeyError};
use super::sha256;

/// The private half of a node's signing key. Never leaves the machine; wiped when dropped.
#[derive(Clone)]
pub struct SigningKey(ed25519_dalek::SigningKey);

impl SigningKey {
    /// From the 32-byte seed, which must come from a good source of randomness.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(seed))
    }

    /// From the base64url text of the seed.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let seed = Zeroizing::new(key_text::fixed("an ed25519 private key", text)?);
        Ok(Self::from_seed(&seed))
    }

    /// The base64url text of the seed, for the key file alone.
    pub fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(base64url::encode(self.0.as_bytes()))
    }

    pub fn verifying_key(&self) -> VerifyingKey {
        VerifyingKey(self.0.verifying_key())
    }

    pub fn sign(&self, message: &[u8]) -> Signature {
        Signature(self.0.sign(message))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(***)")
    }
}

/// The public half: a point of the curve. Compared by its 32 bytes, whatever its text's padding was.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VerifyingKey(ed25519_dalek::VerifyingKey);

impl VerifyingKey {
    /// # Errors
    /// When the bytes are no point of the curve, or one of small order: nothing verifies under those.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, KeyError> {
        match ed25519_dalek::VerifyingKey::from_bytes(bytes) {
            Ok(key) if !key.is_weak() => Ok(Self(key)),
            Ok(_) | Err(_) => Err(KeyError::Invalid("ed25519 public key")),
        }
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// Refuses points of small order and signatures that are not in their one canonical form: otherwise one
    /// message has several signatures, or one signature several messages.
    pub fn verify(&self, message: &[u8], signature: &Signature) -> bool {
        self.0.verify_strict(message, &signature.0).is_ok()
    }

    /// The first 32 hex characters of the key's SHA-256, in groups of four: `1eb5:…`. For people to compare.
    pub fn fingerprint(&self) -> String {
        let digest = sha256::hex(self.as_bytes());
        let mut out = String::with_capacity(39);
        for (at, digit) in digest.chars().take(32).enumerate() {
            if at > 0 && at % 4 == 0 {
                out.push(':');
            }
            out.push(digit);
        }
        out
    }
}

impl FromStr for VerifyingKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::from_bytes(&key_text::fixed("an ed25519 public key", text)?)
    }
}

impl Hash for VerifyingKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Display for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base64url::encode(self.as_bytes()))
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifyingKey({self})")
    }
}

impl TryFrom<String> for VerifyingKey {
    type Error = KeyError;

    fn try_from(text: String) -> Result<Self, KeyError> {
        text.parse()
    }
}

impl From<VerifyingKey> for String {
    fn from(key: VerifyingKey) -> Self {
        key.to_string()
    }
}

/// 64 bytes of signature. Has no `Display`: signatures are not for logs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature(ed25519_dalek::Signature);

impl Signature {
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let bytes: [u8; 64] = key_text::fixed("an ed25519 signature", text)?;
        Ok(Self(ed25519_dalek::Signature::from_bytes(&bytes)))
    }

    /// The base64url text, as it travels.
    pub fn to_text(self) -> String {
        base64url::encode(&self.0.to_bytes())
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signature(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: [u8; 32] = [7; 32];

    #[test]
    fn signs_and_verifies() {
        let key = SigningKey::from_seed(&SEED);
        let signature = key.sign(b"message");
        assert!(key.verifying_key().verify(b"message", &signature));
        assert!(!key.verifying_key().verify(b"messagf", &signature));
        assert!(!SigningKey::from_seed(&[8; 32]).verifying_key().verify(b"message", &signature));
        assert_eq!(Signature::parse(&signature.to_text()).unwrap(), signature);
    }

    #[test]
    fn keys_come_back_from_their_text() {
        let key = SigningKey::from_seed(&SEED);
        let public = key.verifying_key();
        assert_eq!(SigningKey::parse(&key.to_text()).unwrap().verifying_key(), public);
        assert_eq!(public.to_string().parse::<VerifyingKey>().unwrap(), public);
        assert_eq!(format!("{public}=").parse::<VerifyingKey>().unwrap(), public);
        let json = serde_json::to_string(&public).unwrap();
        assert_eq!(serde_json::from_str::<VerifyingKey>(&json).unwrap(), public);
    }

    #[test]
    fn the_private_key_and_the_signature_do_not_print() {
        let key = SigningKey::from_seed(&SEED);
        assert_eq!(format!("{key:?} {:?}", key.sign(b"")), "SigningKey(***) Signature(***)");
    }

    #[test]
    fn a_key_of_small_order_signs_nothing() {
        let mut identity = [0; 32];
        identity[0] = 1;
        for bytes in [identity, [0; 32]] {
            assert!(VerifyingKey::from_bytes(&bytes).is_err(), "{bytes:?}");
        }
        let weak = VerifyingKey(ed25519_dalek::VerifyingKey::from_bytes(&identity).unwrap());
        let mut forged = [0; 64];
        forged[0] = 1;
        let forged = Signature::parse(&base64url::encode(&forged)).unwrap();
        assert!(!weak.verify(b"anything", &forged));
    }

    #[test]
    fn a_signature_with_another_scalar_for_the_same_point_is_refused() {
        // The order of the group; adding it to S changes nothing in the equation but the bytes.
        const ORDER: [u8; 32] = [
            0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14,
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
        ];
        let key = SigningKey::from_seed(&SEED);
        let mut bytes = key.sign(b"message").0.to_bytes();
        let mut carry = 0_u16;
        for (byte, add) in bytes[32..].iter_mut().zip(ORDER) {
            let sum = u16::from(*byte) + u16::from(add) + carry;
            *byte = (sum & 0xff) as u8;
            carry = sum >> 8;
        }
        let malleable = Signature::parse(&base64url::encode(&bytes)).unwrap();
        assert!(!key.verifying_key().verify(b"message", &malleable));
    }

    #[test]
    fn texts_of_another_length_or_alphabet_are_refused() {
        for text in ["", "AAAA", "****", &base64url::encode(&[2; 33])] {
            assert!(text.parse::<VerifyingKey>().is_err(), "{text}");
            assert!(SigningKey::parse(text).is_err(), "{text}");
            assert!(Signature::parse(text).is_err(), "{text}");
        }
        let off_curve = base64url::encode(&[2; 32]);
        assert_eq!(off_curve.parse::<VerifyingKey>(), Err(KeyError::Invalid("ed25519 public key")));
    }

    #[test]
    fn the_fingerprint_has_eight_groups() {
        let print = SigningKey::from_seed(&SEED).verifying_key().fingerprint();
        assert_eq!(print.split(':').map(str::len).collect::<Vec<_>>(), [4; 8]);
    }
}
