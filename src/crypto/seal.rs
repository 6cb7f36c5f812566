//! Sealing a message for one node, step by step as in the section "Cifrado de extremo a extremo", and undoing it.
//! Events and webhook deliveries are not sealed in v1; whoever calls sees to that.

use std::fmt;

use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes256Gcm, KeyInit};
use hkdf::Hkdf;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::Sha256;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::base64url;
use super::enc_key::{EncKey, EncPrivateKey};

pub const VERSION: u64 = 1;
pub const ALGORITHM: &str = "P256-HKDF-SHA256-A256GCM";
/// The `type` of a sealed body.
pub const BODY_TYPE: &str = "application/redsyn+encrypted";
/// `info` of the key derivation, and the start of the associated data.
const LABEL: &str = "redsyn-e2e-v1";
const FILES_LABEL: &str = "files";
const NONCE_BYTES: usize = 12;

/// Why a message could not be sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error("the ephemeral key is not a scalar of P-256: draw again")]
    BadEphemeral,
    #[error("the nonce of the files repeats the message's: draw again")]
    RepeatedNonce,
    #[error("too long to be sealed")]
    TooLong,
}

/// Why a sealed message could not be opened. Says nothing of what the plaintext would have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("not a sealed body")]
    NotSealed,
    #[error("sealed in a version or with an algorithm that is not known here")]
    UnknownAlgorithm,
    #[error("enc.{0} is malformed")]
    Malformed(&'static str),
    #[error("cannot be opened: sealed for another key, or altered")]
    CannotOpen,
}

/// The random inputs of one message; using any of them twice breaks the secrecy of both messages.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SealSecrets {
    /// The scalar of the ephemeral key, big-endian.
    pub ephemeral: [u8; 32],
    pub nonce: [u8; NONCE_BYTES],
    pub files_nonce: [u8; NONCE_BYTES],
}

impl fmt::Debug for SealSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealSecrets(***)")
    }
}

/// The `enc` member of a sealed body, as it travels; every text but `alg` is base64url.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enc {
    pub v: u64,
    pub alg: String,
    /// The ephemeral public key, 65 bytes uncompressed.
    pub epk: String,
    pub nonce: String,
    /// The ciphertext, which ends with the 16-byte tag.
    pub ct: String,
    /// Empty when there are no files.
    #[serde(default)]
    pub files_nonce: String,
}

impl Enc {
    /// `{"type": "application/redsyn+encrypted", "enc": …}`.
    pub fn to_body(&self) -> Value {
        json!({"type": BODY_TYPE, "enc": self})
    }

    pub fn from_body(body: &Value) -> Result<Self, OpenError> {
        if !is_sealed(body) {
            return Err(OpenError::NotSealed);
        }
        let enc = body.get("enc").ok_or(OpenError::NotSealed)?;
        Self::deserialize(enc).map_err(|_| OpenError::NotSealed)
    }
}

/// Whether a body says that it is sealed.
pub fn is_sealed(body: &Value) -> bool {
    body.get("type").and_then(Value::as_str) == Some(BODY_TYPE)
}

/// What is sent: the `enc` of the body, and the sealed zip when there was one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    pub enc: Enc,
    pub zip: Option<Vec<u8>>,
}

/// Seals `plaintext` (the JSON of a `SealedContent`) and the zip for `recipient`.
pub fn seal(
    recipient: &EncKey,
    secrets: &SealSecrets,
    id: &str,
    kind: &str,
    plaintext: &[u8],
    zip: Option<&[u8]>,
) -> Result<Sealed, SealError> {
    if zip.is_some() && secrets.nonce == secrets.files_nonce {
        return Err(SealError::RepeatedNonce);
    }
    let ephemeral = EncPrivateKey::from_scalar(&secrets.ephemeral).map_err(|_| SealError::BadEphemeral)?;
    let epk = ephemeral.enc_key();
    let key = derive_key(&shared_secret(&ephemeral, recipient), &epk).ok_or(SealError::TooLong)?;
    let ct = encrypt(&key, &secrets.nonce, plaintext, &associated_data(id, kind))?;
    let sealed_zip = match zip {
        Some(zip) => Some(encrypt(&key, &secrets.files_nonce, zip, &files_associated_data(id, kind))?),
        None => None,
    };
    let enc = Enc {
        v: VERSION,
        alg: ALGORITHM.to_owned(),
        epk: epk.to_string(),
        nonce: base64url::encode(&secrets.nonce),
        ct: base64url::encode(&ct),
        files_nonce: zip.map(|_| base64url::encode(&secrets.files_nonce)).unwrap_or_default(),
    };
    Ok(Sealed { enc, zip: sealed_zip })
}

/// The plaintext of a sealed message. `id` and `kind` are the envelope's: under others it does not open.
pub fn open(
    private: &EncPrivateKey,
    id: &str,
    kind: &str,
    enc: &Enc,
) -> Result<Zeroizing<Vec<u8>>, OpenError> {
    let key = opening_key(private, enc)?;
    let ct = base64url::decode(&enc.ct).map_err(|_| OpenError::Malformed("ct"))?;
    decrypt(&key, &parse_nonce("nonce", &enc.nonce)?, &ct, &associated_data(id, kind))
}

/// The zip of a sealed message, from its bytes as they travelled.
pub fn open_files(
    private: &EncPrivateKey,
    id: &str,
    kind: &str,
    enc: &Enc,
    sealed_zip: &[u8],
) -> Result<Zeroizing<Vec<u8>>, OpenError> {
    let key = opening_key(private, enc)?;
    let nonce = parse_nonce("files_nonce", &enc.files_nonce)?;
    decrypt(&key, &nonce, sealed_zip, &files_associated_data(id, kind))
}

/// Step 2: the X coordinate of the ECDH point, 32 bytes.
pub fn shared_secret(private: &EncPrivateKey, public: &EncKey) -> Zeroizing<[u8; 32]> {
    let shared = private.secret().diffie_hellman(public.point());
    let mut out = Zeroizing::new([0; 32]);
    out.iter_mut().zip(shared.raw_secret_bytes()).for_each(|(to, from)| *to = *from);
    out
}

/// Step 3: HKDF-SHA256 with the 65 bytes of the ephemeral public key as salt. Always some key: 32 bytes are
/// within what HKDF can give.
pub fn derive_key(shared: &[u8; 32], epk: &EncKey) -> Option<Zeroizing<[u8; 32]>> {
    let mut key = Zeroizing::new([0; 32]);
    Hkdf::<Sha256>::new(Some(epk.as_bytes()), shared).expand(LABEL.as_bytes(), key.as_mut_slice()).ok()?;
    Some(key)
}

/// Step 4: what ties the ciphertext to its message.
pub fn associated_data(id: &str, kind: &str) -> Vec<u8> {
    [LABEL, id, kind].join("|").into_bytes()
}

/// Step 5: the same for the zip.
pub fn files_associated_data(id: &str, kind: &str) -> Vec<u8> {
    [LABEL, id, kind, FILES_LABEL].join("|").into_bytes()
}

fn encrypt(
    key: &[u8; 32],
    nonce: &[u8; NONCE_BYTES],
    plaintext: &[u8],
    aad: &[u8],
) -> Result<Vec<u8>, SealError> {
    // Room for the tag from the start: growing would leave a copy of the plaintext behind.
    let mut buffer = Zeroizing::new(Vec::with_capacity(plaintext.len() + 16));
    buffer.extend_from_slice(plaintext);
    let cipher = Aes256Gcm::new(key.into());
    cipher.encrypt_in_place(nonce.into(), aad, &mut *buffer).map_err(|_| SealError::TooLong)?;
    Ok(std::mem::take(&mut *buffer))
}

fn decrypt(
    key: &[u8; 32],
    nonce: &[u8; NONCE_BYTES],
    ciphertext: &[u8],
    aad: &[u8],
) -> Result<Zeroizing<Vec<u8>>, OpenError> {
    let mut buffer = Zeroizing::new(ciphertext.to_vec());
    let cipher = Aes256Gcm::new(key.into());
    cipher.decrypt_in_place(nonce.into(), aad, &mut *buffer).map_err(|_| OpenError::CannotOpen)?;
    Ok(buffer)
}

fn opening_key(private: &EncPrivateKey, enc: &Enc) -> Result<Zeroizing<[u8; 32]>, OpenError> {
    if enc.v != VERSION || enc.alg != ALGORITHM {
        return Err(OpenError::UnknownAlgorithm);
    }
    let epk: EncKey = enc.epk.parse().map_err(|_| OpenError::Malformed("epk"))?;
    derive_key(&shared_secret(private, &epk), &epk).ok_or(OpenError::CannotOpen)
}

fn parse_nonce(field: &'static str, text: &str) -> Result<[u8; NONCE_BYTES], OpenError> {
    let bytes = base64url::decode(text).map_err(|_| OpenError::Malformed(field))?;
    bytes.try_into().map_err(|_| OpenError::Malformed(field))
}

#[cfg(test)]
#[path = "seal_tests.rs"]
mod tests;
