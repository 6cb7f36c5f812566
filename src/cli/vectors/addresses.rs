//! Sections `addresses.parse` and `addresses.resolve`.

use serde_json::{Value, json};

use super::case::{Case, Check, done, same_json, same_text};
use crate::proto::redsyn::address::{AddressedAgent, ShortAddress};

pub(super) fn parse(case: Case) -> Check {
    let Some(address) = case.judge(case.text("input")?.parse::<ShortAddress>())? else { return Ok(()) };
    let kind = match address {
        ShortAddress::Agent(_) => "agent",
        ShortAddress::Topic(_) => "topic",
    };
    let got = json!({
        "kind": kind,
        "form": if address.is_full() { "full" } else { "short" },
        "parts": address.parts(),
        "session": address.session().map(ToString::to_string),
    });
    for member in ["kind", "form", "parts", "session"] {
        let expected = case.0.get(member).unwrap_or(&Value::Null);
        same_json(member, expected, got.get(member).unwrap_or(&Value::Null))?;
    }
    same_text("the same text when written again,", case.text("input")?, &address.to_string())
}

pub(super) fn resolve(case: Case) -> Check {
    let sender: AddressedAgent = done("reading the sender", case.text("sender")?.parse())?;
    let written: ShortAddress = done("reading the address", case.text("input")?.parse())?;
    same_text("address", case.text("resolved")?, &written.resolve(&sender.agent).to_string())
}
