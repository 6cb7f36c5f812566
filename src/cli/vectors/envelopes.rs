//! Sections `signing`, `relay_checks` and `receiver_checks`.

use serde_json::Value;

use super::case::{Case, Check, Failure, done, same_json, same_text};
use crate::crypto::sha256;
use crate::crypto::sign::{SigningKey, VerifyingKey};
use crate::proto::redsyn::keys::{Pin, compare_pin};
use crate::proto::redsyn::signed::{Signer, check_arrival, check_delivered, sign, signing_payload};

pub(super) fn signing(case: Case) -> Check {
    let key = done("reading private_key", SigningKey::parse(case.text("private_key")?))?;
    same_text("public_key", case.text("public_key")?, &key.verifying_key().to_string())?;

    let mut envelope = case.object("envelope")?.clone();
    let payload = done("making the payload", signing_payload(&envelope))?;
    same_text("payload", case.text("payload")?, &String::from_utf8_lossy(&payload))?;
    same_text("payload_sha256", case.text("payload_sha256")?, &sha256::hex(&payload))?;

    done("signing", sign(&mut envelope, &key))?;
    let expected = case.object("sig")?;
    same_json("sig", &Value::Object(expected.clone()), envelope.get("sig").unwrap_or(&Value::Null))
}

pub(super) fn relay_check(case: Case) -> Check {
    let envelope = case.object("envelope")?;
    let now = case.seconds("relay_now")?;
    // A text that is no key could not have been registered.
    let registered = case.optional_text("registered_key")?.and_then(|text| text.parse::<VerifyingKey>().ok());
    case.judge(check_arrival(envelope, registered.as_ref(), now))?;
    Ok(())
}

pub(super) fn receiver_check(case: Case) -> Check {
    let Some(signer) = case.judge(trusted_signer(case)?)? else { return Ok(()) };
    if let Some(person) = case.optional_text("person")? {
        same_text("person", person, &signer.person().to_string())?;
    }
    match case.optional_text("signer")? {
        Some(expected) => same_text("signer", expected, &signer.key.to_string()),
        None => Ok(()),
    }
}

/// The signer whom the receiver trusts, or why it trusts nobody. The outer error is the case's own.
fn trusted_signer(case: Case) -> Result<Result<Signer, String>, Failure> {
    let pinned = match case.optional_text("pinned_key")? {
        Some(text) => Some(done("reading pinned_key", text.parse::<VerifyingKey>())?),
        None => None,
    };
    Ok(match check_delivered(case.object("envelope")?) {
        Err(error) => Err(error.to_string()),
        Ok(signer) => match compare_pin(pinned.as_ref(), &signer.key) {
            Pin::First | Pin::Pinned => Ok(signer),
            Pin::Stop => Err("another key is pinned".to_owned()),
        },
    })
}
