//! Sections `sealed` and `sealed_rejects`: every step of sealing, with its random inputs fixed.

use serde_json::{Value, json};

use super::case::{Case, Check, Failure, done, same_json, same_text};
use crate::crypto::base64url::{self, zip_decode, zip_encode};
use crate::crypto::enc_key::{EncKey, EncPrivateKey};
use crate::crypto::json;
use crate::crypto::seal::{self, Enc, SealSecrets};
use crate::crypto::sealed_content::SealedContent;

pub(super) fn sealed(case: Case) -> Check {
    let recipient = private_key(case, "recipient_private_key")?;
    let enc_key: EncKey = done("reading recipient_enc_key", case.text("recipient_enc_key")?.parse())?;
    same_text("recipient_enc_key", case.text("recipient_enc_key")?, &recipient.enc_key().to_string())?;
    check_derivation(case, &recipient, &enc_key)?;
    check_sealing(case, &enc_key)?;
    check_opening(case, &recipient)
}

/// The shared secret, from both sides, the derived key, and the associated data.
fn check_derivation(case: Case, recipient: &EncPrivateKey, enc_key: &EncKey) -> Check {
    let ephemeral = private_key(case, "ephemeral_private_key")?;
    let epk = ephemeral.enc_key();
    let (id, kind) = (case.text("id")?, case.text("kind")?);

    let shared = seal::shared_secret(&ephemeral, enc_key);
    same_text("shared_secret", case.text("shared_secret")?, &hex::encode(shared.as_slice()))?;
    let shared = seal::shared_secret(recipient, &epk);
    same_text("shared_secret", case.text("shared_secret")?, &hex::encode(shared.as_slice()))?;

    let key = seal::derive_key(&shared, &epk).ok_or("no key came out");
    let key = done("deriving the key", key)?;
    same_text("derived_key", case.text("derived_key")?, &hex::encode(key.as_slice()))?;

    same_text("aad", case.text("aad")?, &String::from_utf8_lossy(&seal::associated_data(id, kind)))?;
    match case.optional_text("files_aad")? {
        Some(expected) => {
            let got = seal::files_associated_data(id, kind);
            same_text("files_aad", expected, &String::from_utf8_lossy(&got))
        }
        None => Ok(()),
    }
}

/// The exact body and zip that come out of the plaintext.
fn check_sealing(case: Case, enc_key: &EncKey) -> Check {
    let zip = zip(case, "files_zip")?;
    let secrets = SealSecrets {
        ephemeral: fixed("ephemeral_private_key", case.text("ephemeral_private_key")?)?,
        nonce: fixed("nonce", case.text("nonce")?)?,
        files_nonce: match case.optional_text("files_nonce")? {
            None | Some("") => [0; 12],
            Some(text) => fixed("files_nonce", text)?,
        },
    };
    let plaintext = case.text("plaintext")?.as_bytes();
    let (id, kind) = (case.text("id")?, case.text("kind")?);
    let sealed = done("sealing", seal::seal(enc_key, &secrets, id, kind, plaintext, zip.as_deref()))?;
    same_json("body", case.value("body").unwrap_or(&Value::Null), &sealed.enc.to_body())?;
    let expected = case.optional_text("sealed_files_zip")?.unwrap_or_default();
    same_text("sealed_files_zip", expected, &sealed.zip.map(|zip| zip_encode(&zip)).unwrap_or_default())
}

/// What the recipient reads in the case's own body and zip.
fn check_opening(case: Case, recipient: &EncPrivateKey) -> Check {
    let (id, kind) = (case.text("id")?, case.text("kind")?);
    let enc = done("reading the body", Enc::from_body(case.value("body").unwrap_or(&Value::Null)))?;
    let plaintext = done("opening", seal::open(recipient, id, kind, &enc))?;
    let opened = Value::Object(case.object("opened")?.clone());
    same_json("opened", &opened, &done("reading the plaintext", json::parse(&plaintext))?)?;

    let content = done("reading the content", SealedContent::parse(&plaintext))?;
    let content = json!(content);
    for member in ["body", "refs", "reply_key"] {
        let expected = opened.get(member).unwrap_or(&Value::Null);
        same_json(member, expected, content.get(member).unwrap_or(&Value::Null))?;
    }
    if case.value("reply_private_key").is_some() {
        let reply_key = private_key(case, "reply_private_key")?.enc_key();
        let expected = opened.get("reply_key").and_then(Value::as_str).unwrap_or_default();
        same_text("reply_key", expected, &reply_key.to_string())?;
    }
    match zip(case, "sealed_files_zip")? {
        None => Ok(()),
        Some(sealed) => {
            let files = done("opening the files", seal::open_files(recipient, id, kind, &enc, &sealed))?;
            same_text("files_zip", case.text("files_zip")?, &zip_encode(&files))
        }
    }
}

pub(super) fn rejects(case: Case) -> Check {
    let recipient = private_key(case, "recipient_private_key")?;
    let (id, kind) = (case.text("id")?, case.text("kind")?);
    let open_files = case.value("open_files").is_some() && case.flag("open_files")?;
    let Ok(enc) = Enc::from_body(&Value::Object(case.object("body")?.clone())) else { return Ok(()) };
    let opened = if open_files {
        let Ok(sealed) = zip_decode(case.text("sealed_files_zip")?) else { return Ok(()) };
        seal::open_files(&recipient, id, kind, &enc, &sealed)
    } else {
        seal::open(&recipient, id, kind, &enc)
    };
    // What opens but cannot be read is refused as well.
    match opened {
        Ok(plaintext) if open_files || json::parse(&plaintext).is_ok() => {
            Err(Failure::new("refused", "opened"))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

fn private_key(case: Case, name: &str) -> Result<EncPrivateKey, Failure> {
    done(&format!("reading {name}"), EncPrivateKey::parse(case.text(name)?))
}

fn fixed<const N: usize>(name: &str, text: &str) -> Result<[u8; N], Failure> {
    let bytes = done(&format!("reading {name}"), base64url::decode(text))?;
    let length = bytes.len();
    bytes.try_into().map_err(|_| Failure::new(format!("{N} bytes in {name:?}"), format!("{length}")))
}

fn zip(case: Case, name: &str) -> Result<Option<Vec<u8>>, Failure> {
    match case.optional_text(name)? {
        None => Ok(None),
        Some(text) => done(&format!("reading {name}"), zip_decode(text)).map(Some),
    }
}
