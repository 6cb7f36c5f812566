//! Signing, the relay's check and the receiver's, mostly with envelopes that must be refused.

use super::*;
use crate::crypto::base64url::zip_encode;

const NOW: i64 = 1_790_000_000;

fn key() -> SigningKey {
    SigningKey::from_seed(&[3; 32])
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn request() -> Map<String, Value> {
    object(json!({
        "v": 1, "id": "m1", "kind": "request", "from": "acme/finance/ana/close", "to": "bob/pay#new",
        "ts": NOW, "ttl": 60, "body": {"type": "text/plain", "text": "¿123?"},
        "refs": [{"url": "https://git.example/app"}], "files": {"zip": zip_encode(b"PK")},
    }))
}

fn signed(mut envelope: Map<String, Value>) -> Map<String, Value> {
    sign(&mut envelope, &key()).unwrap();
    envelope
}

/// The envelope as a relay would deliver it.
fn delivered(envelope: Map<String, Value>) -> Map<String, Value> {
    let mut out = signed(envelope);
    let payload = check_arrival(&out, Some(&key().verifying_key()), NOW).unwrap();
    out.get_mut("sig").unwrap()["payload"] = json!(payload.into_string());
    if out.get("files").is_some() {
        out.insert("files".into(), json!({"bytes": 2, "sha256": sha256::hex(b"PK")}));
    }
    out
}

fn delivered_request() -> Map<String, Value> {
    let mut out = delivered(request());
    out.insert("to".into(), json!("acme/finance/bob/pay#s7"));
    out.insert("thread".into(), json!("m1"));
    out.insert("reply_to".into(), Value::Null);
    out
}

#[test]
fn the_payload_has_every_field_and_nothing_else() {
    let envelope = object(json!({
        "kind": "reply", "reply_to": "m1", "ts": 5, "body": {}, "to": null, "refs": null, "error": null, "x": 1,
    }));
    assert_eq!(
        String::from_utf8(signing_payload(&envelope).unwrap()).unwrap(),
        r#"{"body":{},"error":false,"files_sha256":"","from":"","id":"","kind":"reply","refs":[],"reply_to":"m1","thread":"","to":"","ts":5,"v":1}"#
    );
}

#[test]
fn what_cannot_be_signed_says_why() {
    for (field, value, expected) in [
        ("ts", json!(null), "a signed envelope needs ts"),
        ("body", json!(null), "a signed envelope needs body"),
        ("files", json!("UEs="), "files has another type than it should"),
        ("files", json!({"zip": "UEs"}), "files.zip: not base64"),
        ("error", json!("yes"), "error has another type than it should"),
    ] {
        let mut envelope = request();
        envelope.insert(field.into(), value);
        assert_eq!(signing_payload(&envelope).unwrap_err().to_string(), expected);
    }
}

#[test]
fn ten_minutes_include_their_edges() {
    let key = key().verifying_key();
    for (now, accepted) in [(NOW + 600, true), (NOW - 600, true), (NOW + 601, false), (NOW - 601, false)] {
        assert_eq!(check_arrival(&signed(request()), Some(&key), now).is_ok(), accepted, "{now}");
    }
}

#[test]
fn the_relay_refuses_whatever_else_was_signed() {
    let registered = key().verifying_key();
    let other = SigningKey::from_seed(&[4; 32]).verifying_key();
    let arrive = |envelope: &Map<String, Value>, registered| {
        check_arrival(envelope, registered, NOW).unwrap_err().to_string()
    };
    let good = signed(request());
    assert_eq!(arrive(&good, None), "this node has registered no key");
    assert_eq!(arrive(&good, Some(&other)), "sig.key is not the key that this node registered");
    assert_eq!(arrive(&request(), Some(&registered)), "sig is missing or not an object");
    for (field, value) in [
        ("id", json!("m2")),
        ("thread", json!("t")),
        ("v", json!(2)),
        ("error", json!(true)),
        ("refs", json!([])),
        ("files", json!({"zip": zip_encode(b"PK2")})),
        ("files", json!(null)),
        ("body", json!({"type": "text/plain", "text": "123?"})),
    ] {
        let mut changed = good.clone();
        changed.insert(field.into(), value);
        assert_eq!(
            arrive(&changed, Some(&registered)),
            "the signature does not cover what arrived",
            "{field}"
        );
    }
    for (field, value, expected) in [
        ("alg", json!("rsa"), "sig.alg is not ed25519"),
        ("value", json!("AAAA"), "sig.value: an ed25519 signature is 64 bytes, not 3"),
        ("key", json!(null), "sig.key: an ed25519 public key is 32 bytes, not 0"),
    ] {
        let mut changed = good.clone();
        changed.get_mut("sig").unwrap()[field] = value;
        assert_eq!(arrive(&changed, Some(&registered)), expected);
    }
}

#[test]
fn the_receiver_accepts_what_a_relay_completes() {
    let signer = check_delivered(&delivered_request()).unwrap();
    assert_eq!(signer.key, key().verifying_key());
    assert_eq!(signer.person().to_string(), "acme/ana");

    let mut from_session = delivered_request();
    from_session.insert("from".into(), json!("acme/finance/ana/close#s4"));
    assert!(check_delivered(&from_session).is_ok());
}

#[test]
fn the_receiver_refuses_what_a_relay_may_not_change() {
    for (field, value, named) in [
        ("v", json!(2), "v"),
        ("id", json!("m2"), "id"),
        ("kind", json!("progress"), "kind"),
        ("ts", json!(NOW + 1), "ts"),
        ("body", json!({"type": "text/plain", "text": "pay 999"}), "body"),
        ("refs", json!([]), "refs"),
        ("reply_to", json!("m0"), "reply_to"),
        ("error", json!(true), "error"),
        ("files", json!({"bytes": 2, "sha256": sha256::hex(b"other")}), "files"),
        ("files", json!(null), "files"),
        ("from", json!("acme/finance/eve/close"), "from"),
        ("from", json!("close"), "from"),
        ("to", json!("acme/finance/eve/pay"), "to"),
        ("to", json!("bob/pay"), "to"),
        ("to", json!("topic:acme/finance/pay"), "to"),
    ] {
        let mut changed = delivered_request();
        changed.insert(field.into(), value.clone());
        let error = check_delivered(&changed).unwrap_err();
        assert!(matches!(error, DeliveredError::Differs(name) if name == named), "{field} {value}: {error}");
    }
}

#[test]
fn a_session_or_thread_that_was_signed_counts() {
    let mut envelope = request();
    envelope.insert("from".into(), json!("acme/finance/ana/close#s4"));
    envelope.insert("to".into(), json!("acme/finance/bob/pay#s7"));
    envelope.insert("thread".into(), json!("t1"));
    let good = delivered(envelope);
    assert!(check_delivered(&good).is_ok());
    for (field, value) in [
        ("from", "acme/finance/ana/close"),
        ("from", "acme/finance/ana/close#s5"),
        ("to", "acme/finance/bob/pay#s8"),
        ("thread", "t2"),
    ] {
        let mut changed = good.clone();
        changed.insert(field.into(), json!(value));
        assert!(check_delivered(&changed).is_err(), "{field} {value}");
    }
}

#[test]
fn an_event_is_compared_by_its_topic() {
    let mut envelope = request();
    envelope.insert("kind".into(), json!("event"));
    envelope.insert("to".into(), json!("topic:finance/invoices"));
    let mut good = delivered(envelope);
    good.insert("to".into(), json!("globex/erp/bob/billing#s1"));
    assert!(check_delivered(&good).is_err(), "no topic");
    good.insert("topic".into(), json!("topic:acme/finance/invoices"));
    assert!(check_delivered(&good).is_ok());
    good.insert("topic".into(), json!("topic:acme/finance/payroll"));
    assert!(check_delivered(&good).is_err(), "another topic");
}

#[test]
fn an_answer_takes_the_thread_and_recipient_of_its_request() {
    let mut envelope = request();
    envelope.insert("kind".into(), json!("reply"));
    envelope.insert("reply_to".into(), json!("m0"));
    envelope.remove("to");
    let mut good = delivered(envelope);
    good.insert("to".into(), json!("globex/erp/bob/billing#s1"));
    good.insert("thread".into(), json!("t0"));
    assert!(check_delivered(&good).is_ok());
}

#[test]
fn a_signature_that_does_not_hold_signs_nothing() {
    let good = delivered_request();
    let alter = |field: &str, value: Value| {
        let mut changed = good.clone();
        changed.get_mut("sig").unwrap()[field] = value;
        check_delivered(&changed).unwrap_err()
    };
    let other = SigningKey::from_seed(&[4; 32]);
    assert!(matches!(alter("payload", json!("{}")), DeliveredError::DoesNotHold));
    assert!(matches!(alter("payload", json!(null)), DeliveredError::NoPayload));
    assert!(matches!(alter("key", json!(other.verifying_key())), DeliveredError::DoesNotHold));
    assert!(matches!(alter("alg", json!("none")), DeliveredError::UnknownAlgorithm));
    assert!(matches!(alter("value", json!("")), DeliveredError::Value(_)));
    assert!(matches!(check_delivered(&request()), Err(DeliveredError::NotSigned)));
}

#[test]
fn a_payload_that_can_be_read_in_two_ways_is_refused() {
    let mut envelope = delivered_request();
    let payload = envelope["sig"]["payload"].as_str().unwrap().replacen('{', r#"{"body":1,"#, 1);
    let value = key().sign(payload.as_bytes()).to_text();
    let sig = envelope.get_mut("sig").unwrap();
    sig["payload"] = json!(payload);
    sig["value"] = json!(value);
    assert!(matches!(check_delivered(&envelope), Err(DeliveredError::Payload(_))));
}
