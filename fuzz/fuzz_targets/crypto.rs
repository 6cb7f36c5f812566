//! JSON that is signed, keys and signatures as text, sealed bodies and what is inside them.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use redsyn_bridge::crypto::enc_key::{EncKey, EncPrivateKey};
use redsyn_bridge::crypto::key_text::KeyError;
use redsyn_bridge::crypto::seal::{self, Enc, SealSecrets};
use redsyn_bridge::crypto::sealed_content::SealedContent;
use redsyn_bridge::crypto::secret::Secret;
use redsyn_bridge::crypto::sign::{Signature, SigningKey, VerifyingKey};
use redsyn_bridge::crypto::{jcs, json, webhook};

static RECIPIENT: LazyLock<EncPrivateKey> =
    LazyLock::new(|| EncPrivateKey::from_scalar(&[9; 32]).expect("a scalar"));

fuzz_target!(|data: &[u8]| {
    values(data);
    sealed(data);
    let text = String::from_utf8_lossy(data);
    keys(&text);
    webhook::verify(&Secret::new("whsec"), &text, b"body", 1_790_000_000);
});

fn values(data: &[u8]) {
    let Ok(value) = json::parse(data) else { return };
    let Ok(canonical) = jcs::canonical(&value) else { return };
    // What is canonical is read as the same value, and is its own canonical form.
    let again = json::parse(&canonical).expect("canonical JSON is I-JSON");
    assert!(jcs::same(&value, &again));
    assert_eq!(jcs::canonical(&again).expect("it was canonical"), canonical);
    if let Ok(content) = SealedContent::parse(data) {
        let written = content.to_bytes().expect("what was read can be written");
        assert!(SealedContent::parse(&written).is_ok_and(|again| again == content));
    }
    if let Ok(enc) = Enc::from_body(&value) {
        assert_eq!(Enc::from_body(&enc.to_body()).as_ref(), Ok(&enc));
        let _ = seal::open(&RECIPIENT, "m1", "request", &enc);
        let _ = seal::open_files(&RECIPIENT, "m1", "request", &enc, data);
    }
}

/// Whatever was sealed opens as it was, and as nothing else once a byte is changed.
fn sealed(data: &[u8]) {
    // Few of all: sealing is slow, and the other properties are hungrier.
    let [0, at, change, plaintext @ ..] = data else { return };
    let secrets = SealSecrets { ephemeral: [7; 32], nonce: [1; 12], files_nonce: [2; 12] };
    let recipient = RECIPIENT.enc_key();
    let mut message =
        seal::seal(&recipient, &secrets, "m1", "request", plaintext, Some(plaintext)).expect("it is short");
    let opened = seal::open(&RECIPIENT, "m1", "request", &message.enc);
    assert_eq!(opened.expect("it was sealed for us").as_slice(), plaintext);
    assert!(seal::open(&RECIPIENT, "m2", "request", &message.enc).is_err());
    let zip = message.zip.as_mut().expect("a zip was sealed");
    if let Some(byte) = zip.get_mut(usize::from(*at)).filter(|_| *change != 0) {
        *byte ^= change;
        assert!(seal::open_files(&RECIPIENT, "m1", "request", &message.enc, zip).is_err());
    }
}

fn keys(text: &str) {
    if let Some(key) = accepted(text.parse::<EncKey>(), text) {
        assert_eq!(key.to_string().parse(), Ok(key));
    }
    if let Some(key) = accepted(text.parse::<VerifyingKey>(), text) {
        assert_eq!(key.to_string().parse(), Ok(key));
        assert!(!key.fingerprint().is_empty());
    }
    if let Some(signature) = accepted(Signature::parse(text), text) {
        assert_eq!(Signature::parse(&signature.to_text()), Ok(signature));
    }
    if let Some(key) = accepted(SigningKey::parse(text), text) {
        let again = SigningKey::parse(&key.to_text()).expect("its own text");
        assert_eq!(again.verifying_key(), key.verifying_key());
        assert!(key.verifying_key().verify(b"x", &key.sign(b"x")));
    }
    if let Some(key) = accepted(EncPrivateKey::parse(text), text) {
        let again = EncPrivateKey::parse(&key.to_text()).expect("its own text");
        assert_eq!(again.enc_key(), key.enc_key());
    }
}

/// A refused text may be a private key: no error repeats it.
fn accepted<T>(parsed: Result<T, KeyError>, text: &str) -> Option<T> {
    parsed.inspect_err(|error| assert!(text.len() < 16 || !error.to_string().contains(text))).ok()
}
