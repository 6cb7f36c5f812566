//! Sections `enc_key_registrations` and `key_answers`.

use serde::Deserialize;

use super::case::{Case, Check, Failure, done, same_text};
use crate::crypto::enc_key::{EncPrivateKey, sign_enc_key};
use crate::crypto::sign::SigningKey;
use crate::proto::redsyn::keys::{KeyAnswer, KeyDecision, KeyRegistration};

pub(super) fn registration(case: Case) -> Check {
    let read = KeyRegistration::deserialize(case.object("registration")?).map_err(|error| error.to_string());
    let checked = read.and_then(|registration| match registration.check() {
        Ok(_) => Ok(registration),
        Err(error) => Err(error.to_string()),
    });
    let Some(registration) = case.judge(checked)? else { return Ok(()) };
    // A good one we must also be able to make ourselves.
    if let Some(text) = case.optional_text("signing_private_key")? {
        let key = done("reading signing_private_key", SigningKey::parse(text))?;
        same_text("public_key", &registration.public_key, &key.verifying_key().to_string())?;
        if let (Some(enc_key), Some(enc_sig)) = (&registration.enc_key, &registration.enc_sig) {
            same_text("enc_sig", enc_sig, &sign_enc_key(&key, enc_key).to_text())?;
        }
    }
    match (case.optional_text("enc_private_key")?, &registration.enc_key) {
        (Some(text), Some(enc_key)) => {
            let key = done("reading enc_private_key", EncPrivateKey::parse(text))?;
            same_text("enc_key", enc_key, &key.enc_key().to_string())
        }
        _ => Ok(()),
    }
}

pub(super) fn answer(case: Case) -> Check {
    let pinned = match case.object("pins")?.get(case.text("person")?) {
        None => None,
        Some(text) => {
            let text = text.as_str().ok_or_else(|| Failure::new("texts in \"pins\"", format!("{text}")))?;
            Some(done("reading the pin", text.parse())?)
        }
    };
    let (word, reason) = match KeyAnswer::deserialize(case.object("answer")?) {
        Ok(answer) => match answer.decide(pinned.as_ref()) {
            Ok(KeyDecision::First(_)) => ("first", String::new()),
            Ok(KeyDecision::Pinned(_)) => ("pinned", String::new()),
            Err(stop) => ("stop", format!(": {stop}")),
        },
        Err(error) => ("stop", format!(": {error}")),
    };
    let expected = case.text("expect")?;
    if expected == word { Ok(()) } else { Err(Failure::new(expected, format!("{word}{reason}"))) }
}
