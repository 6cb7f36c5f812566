//! Bytes and keys in, bytes out. Nothing here may know a protocol, a file or a clock.

pub mod hmac;
pub mod secret;
