//! `redsyn-bridge demo`, as a newcomer runs it.

use serde_json::Value;

use crate::support::process::run;

#[test]
fn the_demo_tells_every_hop_and_ends_well() {
    let folder = tempfile::tempdir().unwrap();
    let shown = run(folder.path(), &["demo", "--text", "¿Está paga la factura 123?"]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.status.success(), "{text}\n{}", String::from_utf8_lossy(&shown.stderr));
    for hop in [
        "close     asks globex/erp/bob/billing: \"¿Está paga la factura 123?\"",
        "201: stored with its outbox row",
        "request sealed and signed; the relay answers 201 for globex/erp/bob/billing#s1",
        "bytes of ciphertext; not the text",
        "signed by acme/ana:",
        "billing   pulls it and reads",
        "reply sealed and signed",
        "signed by globex/bob:",
        "close     pulls the answer",
        "every step held",
    ] {
        assert!(text.contains(hop), "no {hop:?} in\n{text}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it leaves nothing behind");
}

#[test]
fn any_text_will_do() {
    let folder = tempfile::tempdir().unwrap();
    for text in ["a", "acme", "ct", "{", ""] {
        assert!(run(folder.path(), &["demo", "--text", text]).status.success(), "{text:?}");
    }
}

#[test]
fn each_hop_can_be_read_by_programs() {
    let folder = tempfile::tempdir().unwrap();
    let shown = run(folder.path(), &["demo", "--json"]);
    assert!(shown.status.success());
    let lines: Vec<Value> = String::from_utf8(shown.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.last().unwrap()["held"], Value::Bool(true));
    assert!(lines.len() > 15);
}
