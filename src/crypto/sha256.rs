//! SHA-256, as bytes and as lower-case hex.

use sha2::{Digest, Sha256};

pub fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// 64 lower-case hex characters.
pub fn hex(bytes: &[u8]) -> String {
    ::hex::encode(digest(bytes))
}

#[cfg(test)]
mod tests {
    #[test]
    fn of_nothing() {
        assert_eq!(super::hex(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
