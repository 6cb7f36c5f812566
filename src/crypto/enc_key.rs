//! P-256 keys that messages are sealed for, and the ed25519 signature that ties one to its node
//! (section Cifrado, "Claves").

use std::fmt;
use std::str::FromStr;

use p256::elliptic_curve::sec1::ToSec1Point;
use p256::{PublicKey, SecretKey};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::base64url;
use super::key_text::{self, KeyError};
use super::sign::{Signature, SigningKey, VerifyingKey};

/// What `enc_sig` covers starts with this; the enc_key's text follows as it was registered.
pub const ENC_SIG_LABEL: &str = "redsyn-enc-v1:";

/// The first byte of an uncompressed SEC1 point.
const UNCOMPRESSED: u8 = 4;

/// The public half: a point of P-256 that is not the identity, 65 bytes uncompressed.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EncKey {
    point: PublicKey,
    bytes: [u8; 65],
}

impl EncKey {
    pub fn from_bytes(bytes: [u8; 65]) -> Result<Self, KeyError> {
        let invalid = KeyError::Invalid("uncompressed P-256 point");
        // The mixed form has the same length, but it is not the one that the protocol names.
        if bytes.first() != Some(&UNCOMPRESSED) {
            return Err(invalid);
        }
        let point = PublicKey::from_sec1_bytes(&bytes).map_err(|_| invalid)?;
        Ok(Self { point, bytes })
    }

    pub fn as_bytes(&self) -> &[u8; 65] {
        &self.bytes
    }

    pub(super) fn point(&self) -> &PublicKey {
        &self.point
    }
}

impl FromStr for EncKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::from_bytes(key_text::fixed("an uncompressed P-256 public key", text)?)
    }
}

impl fmt::Display for EncKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base64url::encode(&self.bytes))
    }
}

impl fmt::Debug for EncKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncKey({self})")
    }
}

impl TryFrom<String> for EncKey {
    type Error = KeyError;

    fn try_from(text: String) -> Result<Self, KeyError> {
        text.parse()
    }
}

impl From<EncKey> for String {
    fn from(key: EncKey) -> Self {
        key.to_string()
    }
}

/// The private half: a scalar between 1 and the order of the group. Wiped when dropped.
#[derive(Clone)]
pub struct EncPrivateKey {
    secret: SecretKey,
    /// Kept, since each message that is sealed names it.
    public: EncKey,
}

impl EncPrivateKey {
    /// From 32 random bytes, big-endian. About one draw in 2^32 is no scalar: draw again.
    pub fn from_scalar(scalar: &[u8; 32]) -> Result<Self, KeyError> {
        let secret = SecretKey::from_slice(scalar).map_err(|_| KeyError::Invalid("P-256 private key"))?;
        let point = secret.public_key();
        let encoded = point.to_sec1_point(false);
        let mut bytes = [0; 65];
        bytes.iter_mut().zip(encoded.as_bytes()).for_each(|(to, from)| *to = *from);
        Ok(Self { secret, public: EncKey { point, bytes } })
    }

    /// From the base64url text of the scalar.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let scalar = Zeroizing::new(key_text::fixed("a P-256 private key", text)?);
        Self::from_scalar(&scalar)
    }

    /// The base64url text of the scalar, for the key file alone.
    pub fn to_text(&self) -> Zeroizing<String> {
        let scalar = Zeroizing::new(self.secret.to_bytes());
        Zeroizing::new(base64url::encode(scalar.as_slice()))
    }

    pub fn enc_key(&self) -> EncKey {
        self.public
    }

    pub(super) fn secret(&self) -> &SecretKey {
        &self.secret
    }
}

impl fmt::Debug for EncPrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EncPrivateKey(***)")
    }
}

/// Why an enc_key cannot be trusted to belong to a signing key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncKeyError {
    #[error("enc_key: {0}")]
    Key(KeyError),
    #[error("enc_sig: {0}")]
    Signature(KeyError),
    #[error("enc_sig does not hold")]
    DoesNotHold,
}

/// `enc_sig` for an enc_key, over its text exactly as it will be registered.
pub fn sign_enc_key(key: &SigningKey, enc_key: &str) -> Signature {
    key.sign(&signed_text(enc_key))
}

/// Checks that `signing_key` vouches for `enc_key` (both texts as they were registered) and gives the key.
pub fn check_enc_key(
    signing_key: &VerifyingKey,
    enc_key: &str,
    enc_sig: &str,
) -> Result<EncKey, EncKeyError> {
    let key = enc_key.parse().map_err(EncKeyError::Key)?;
    let signature = Signature::parse(enc_sig).map_err(EncKeyError::Signature)?;
    if !signing_key.verify(&signed_text(enc_key), &signature) {
        return Err(EncKeyError::DoesNotHold);
    }
    Ok(key)
}

fn signed_text(enc_key: &str) -> Vec<u8> {
    [ENC_SIG_LABEL, enc_key].concat().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn private() -> EncPrivateKey {
        EncPrivateKey::from_scalar(&[9; 32]).unwrap()
    }

    #[test]
    fn keys_come_back_from_their_text() {
        let public = private().enc_key();
        assert_eq!(public.to_string().parse::<EncKey>().unwrap(), public);
        assert_eq!(EncPrivateKey::parse(&private().to_text()).unwrap().enc_key(), public);
        assert_eq!(format!("{:?}", private()), "EncPrivateKey(***)");
    }

    #[test]
    fn zero_and_the_order_are_no_scalars() {
        const ORDER: &str = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";
        let order: [u8; 32] = hex::decode(ORDER).unwrap().try_into().unwrap();
        for scalar in [[0; 32], order, [0xff; 32]] {
            assert!(EncPrivateKey::from_scalar(&scalar).is_err());
        }
    }

    #[test]
    fn other_forms_of_a_point_are_refused() {
        let good = *private().enc_key().as_bytes();
        let compressed = private().secret().public_key().to_sec1_point(true);
        assert!(base64url::encode(compressed.as_bytes()).parse::<EncKey>().is_err());
        for first in [0, 2, 3, 5, 6, 7] {
            let mut other = good;
            other[0] = first;
            assert!(EncKey::from_bytes(other).is_err(), "{first}");
        }
        let mut off_curve = good;
        off_curve[64] ^= 1;
        assert!(EncKey::from_bytes(off_curve).is_err());
        assert!(EncKey::from_bytes([0; 65]).is_err());
    }

    #[test]
    fn enc_sig_covers_the_text_as_registered() {
        let node = SigningKey::from_seed(&[1; 32]);
        let text = private().enc_key().to_string();
        let enc_sig = sign_enc_key(&node, &text).to_text();
        assert!(check_enc_key(&node.verifying_key(), &text, &enc_sig).is_ok());
        let padded = format!("{text}=");
        assert_eq!(check_enc_key(&node.verifying_key(), &padded, &enc_sig), Err(EncKeyError::DoesNotHold));
        let over_bytes = node.sign(private().enc_key().as_bytes()).to_text();
        assert_eq!(check_enc_key(&node.verifying_key(), &text, &over_bytes), Err(EncKeyError::DoesNotHold));
        assert!(matches!(
            check_enc_key(&node.verifying_key(), &text, "AAAA"),
            Err(EncKeyError::Signature(_))
        ));
    }
}
