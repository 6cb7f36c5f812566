//! Sections `canonical` and `canonical_rejects`.

use super::case::{Case, Check, Failure, done, same_text};
use crate::crypto::{jcs, json, sha256};

pub(super) fn canonical(case: Case) -> Check {
    let value = done("reading the input", json::parse(case.text("input")?.as_bytes()))?;
    let bytes = done("writing canonical JSON", jcs::canonical(&value))?;
    same_text("canonical", case.text("canonical")?, &String::from_utf8_lossy(&bytes))?;
    same_text("sha256", case.text("sha256")?, &sha256::hex(&bytes))
}

pub(super) fn rejects(case: Case) -> Check {
    let value = json::parse(case.text("input")?.as_bytes());
    match value.ok().and_then(|value| jcs::canonical(&value).ok()) {
        None => Ok(()),
        Some(bytes) => Err(Failure::new("refused", format!("{:?}", String::from_utf8_lossy(&bytes)))),
    }
}
