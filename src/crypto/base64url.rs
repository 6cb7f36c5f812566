//! The two base64 forms of REDSYN: base64url for keys, signatures, nonces and ciphertext, standard base64 for
//! zips. Written in one way only; read strictly, since two texts for one value are two signatures for one message.

use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::{NO_PAD_INDIFFERENT, PAD};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Written without padding, read with or without; the document does not say which.
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, NO_PAD_INDIFFERENT);

const ZIP: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, ZIP_CONFIG);

const ZIP_CONFIG: GeneralPurposeConfig = PAD.with_decode_padding_mode(DecodePaddingMode::RequireCanonical);

/// The text is in another alphabet, has stray bits, or its length or padding cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Base64Error {
    #[error("not base64url")]
    NotBase64Url,
    #[error("not base64")]
    NotBase64,
}

/// base64url without padding.
pub fn encode(bytes: &[u8]) -> String {
    URL_SAFE.encode(bytes)
}

/// base64url with or without padding. Stray bits in the last character are refused too.
pub fn decode(text: &str) -> Result<Vec<u8>, Base64Error> {
    URL_SAFE.decode(text).map_err(|_| Base64Error::NotBase64Url)
}

/// Standard base64 with padding, the form of `files.zip`.
pub fn zip_encode(bytes: &[u8]) -> String {
    ZIP.encode(bytes)
}

/// Standard base64; the padding is required.
pub fn zip_decode(text: &str) -> Result<Vec<u8>, Base64Error> {
    ZIP.decode(text).map_err(|_| Base64Error::NotBase64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_without_padding_and_reads_both() {
        assert_eq!(encode(&[0xfb, 0xff]), "-_8");
        assert_eq!(decode("-_8").unwrap(), [0xfb, 0xff]);
        assert_eq!(decode("-_8=").unwrap(), [0xfb, 0xff]);
        assert_eq!(decode("").unwrap(), Vec::<u8>::new());
    }

    #[test]
    fn refuses_everything_else() {
        for text in ["+/8", "-_8==", "-_8 ", "-_8\n", "A", "-_9", "-_8=A", "=", "é"] {
            assert_eq!(decode(text), Err(Base64Error::NotBase64Url), "{text:?}");
        }
    }

    #[test]
    fn a_zip_is_standard_and_padded() {
        assert_eq!(zip_encode(&[0xfb, 0xff]), "+/8=");
        assert_eq!(zip_decode("+/8=").unwrap(), [0xfb, 0xff]);
        for text in ["-_8=", "+/8", "+/8= ", "+/9="] {
            assert_eq!(zip_decode(text), Err(Base64Error::NotBase64), "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_come_back(bytes: Vec<u8>) {
            proptest::prop_assert_eq!(&decode(&encode(&bytes)).unwrap(), &bytes);
            proptest::prop_assert_eq!(&zip_decode(&zip_encode(&bytes)).unwrap(), &bytes);
        }
    }
}
