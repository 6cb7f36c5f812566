//! HMAC-SHA256 over a list of parts, in lower-case hex.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// The block size of SHA-256; HMAC works on a key of this length.
const BLOCK: usize = 64;

/// The tag over the concatenated parts.
pub fn sha256_hex(key: &[u8], parts: &[&[u8]]) -> String {
    let mut mac = Hmac::<Sha256>::new((&*block(key)).into());
    for part in parts {
        mac.update(part);
    }
    hex::encode(mac.finalize().into_bytes())
}

/// The key as RFC 2104 pads it. Done here because the crate's own way in has an error that cannot happen.
fn block(key: &[u8]) -> Zeroizing<[u8; BLOCK]> {
    let mut block = Zeroizing::new([0; BLOCK]);
    if key.len() > BLOCK {
        block.iter_mut().zip(Sha256::digest(key)).for_each(|(to, from)| *to = from);
    } else {
        block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    }
    block
}

/// Whether `given` is that tag, letter by letter (upper-case hex is another text). Takes the same time
/// wherever they differ.
pub fn verify_hex(key: &[u8], parts: &[&[u8]], given: &str) -> bool {
    sha256_hex(key, parts).as_bytes().ct_eq(given.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2.
    const TAG: &str = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";

    #[test]
    fn agrees_with_rfc_4231_however_the_text_is_split() {
        assert_eq!(sha256_hex(b"Jefe", &[b"what do ya want for nothing?"]), TAG);
        assert_eq!(sha256_hex(b"Jefe", &[b"what do ya ", b"", b"want for nothing?"]), TAG);
    }

    #[test]
    fn long_keys_are_hashed_first() {
        // RFC 4231, test case 6.
        assert_eq!(
            sha256_hex(&[0xaa; 131], &[b"Test Using Larger Than Block-Size Key - Hash Key First"]),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn verification_wants_the_very_text() {
        let text: &[&[u8]] = &[b"what do ya want for nothing?"];
        assert!(verify_hex(b"Jefe", text, TAG));
        for wrong in ["", "5bdc", &TAG.to_uppercase(), &format!("{TAG}0"), &TAG.replace('5', "6")] {
            assert!(!verify_hex(b"Jefe", text, wrong), "{wrong}");
        }
    }
}
