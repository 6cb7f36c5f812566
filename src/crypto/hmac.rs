//! HMAC-SHA256 over parts that are joined as they are: the authentication of the local protocol and of webhooks.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::sha256;

/// The block of SHA-256: a longer key counts as its digest, a shorter one is filled with zeros (RFC 2104).
const BLOCK: usize = 64;

fn mac(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut block = Zeroizing::new([0_u8; BLOCK]);
    let digest = Zeroizing::new(if key.len() > BLOCK { sha256::digest(key) } else { [0; 32] });
    let key = if key.len() > BLOCK { digest.as_slice() } else { key };
    block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);

    let mut mac = Hmac::<Sha256>::new((&*block).into());
    for part in parts {
        mac.update(part);
    }
    mac
}

/// 64 lower-case hex characters over the parts, one after the other.
pub fn sign_hex(key: &[u8], parts: &[&[u8]]) -> String {
    hex::encode(mac(key, parts).finalize().into_bytes())
}

/// Whether `given` is the HMAC in hex, in either case. Constant time once it is hex of the right length.
pub fn verify_hex(key: &[u8], parts: &[&[u8]], given: &str) -> bool {
    match hex::decode(given) {
        Ok(bytes) => mac(key, parts).verify_slice(&bytes).is_ok(),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_4231() {
        assert_eq!(
            sign_hex(b"Jefe", &[b"what do ya want ", b"for nothing?"]),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            sign_hex(&[0xaa; 131], &[b"Test Using Larger Than Block-Size Key - Hash Key First"]),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn verifies_only_the_whole_value() {
        let given = sign_hex(b"key", &[b"message"]);
        assert!(verify_hex(b"key", &[b"mess", b"age"], &given));
        assert!(verify_hex(b"key", &[b"message"], &given.to_uppercase()));
        for bad in ["", "zz", &given[..62], &format!("{given}00"), &format!(" {given}")] {
            assert!(!verify_hex(b"key", &[b"message"], bad), "{bad:?}");
        }
        assert!(!verify_hex(b"other", &[b"message"], &given));
    }
}
