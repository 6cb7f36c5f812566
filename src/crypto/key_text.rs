//! Keys and signatures as base64url text of a fixed number of bytes, and why such a text is refused.

use super::base64url::{self, Base64Error};

/// Why a text is not the key or signature it should be. Never repeats the text: it may be a private key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error(transparent)]
    Encoding(#[from] Base64Error),
    #[error("{what} is {expected} bytes, not {got}")]
    Length { what: &'static str, expected: usize, got: usize },
    #[error("not a valid {0}")]
    Invalid(&'static str),
}

/// Decodes base64url text of exactly `N` bytes; `what` names it in the error.
pub(super) fn fixed<const N: usize>(what: &'static str, text: &str) -> Result<[u8; N], KeyError> {
    let bytes = zeroize::Zeroizing::new(base64url::decode(text)?);
    <[u8; N]>::try_from(bytes.as_slice()).map_err(|_| KeyError::Length {
        what,
        expected: N,
        got: bytes.len(),
    })
}
