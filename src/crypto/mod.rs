//! Bytes and keys in, bytes out. Knows nothing of protocols' messages, HTTP or the store, and draws no
//! randomness: whoever calls hands in the bytes, so that vectors can fix them.
//!
//! Private keys and derived keys are wiped when dropped and print as `***`; what is secret is compared in
//! constant time.

pub mod base64url;
pub mod enc_key;
pub mod hmac;
pub mod jcs;
pub mod json;
pub mod key_text;
pub mod seal;
pub mod sealed_content;
pub mod secret;
pub mod sha256;
pub mod sign;
pub mod webhook;
