//! Mostly bad input: what is refused, in which order, and what is made of the rest.

use serde_json::{Value, json};

use super::*;
use crate::proto::dsh::error::Code;
use crate::proto::dsh::v2::message::Mode;

fn alpha() -> Name {
    Name::of("alpha")
}

fn message(changes: &Value) -> Result<Create, String> {
    let mut message =
        json!({"origin": "alpha", "target": "beta", "kind": "request", "body": "x", "idempotency_key": "k"});
    for (name, value) in changes.as_object().unwrap() {
        message[name] = value.clone();
    }
    Create::parse(&message.to_string(), &alpha()).map_err(|error| error.to_string())
}

#[test]
fn a_message_is_refused_for_the_first_thing_wrong() {
    for (changes, told) in [
        (json!({"allow_shared_write": null, "origin": "beta"}), "allow_shared_write must be"),
        (json!({"origin": "beta", "kind": "zzz"}), "origin does not match"),
        (json!({"kind": "message", "body": ""}), "invalid message kind"),
        (json!({"kind": "event"}), "invalid message kind"),
        (json!({"body": " \u{feff}", "execution_mode": "zzz"}), "message body or idempotency key"),
        (json!({"body": false}), "message body or idempotency key"),
        (json!({"idempotency_key": 0}), "message body or idempotency key"),
        (json!({"body": "a".repeat(48_001)}), "message body or idempotency key"),
        (json!({"execution_mode": 5}), "execution_mode must be"),
        (json!({"kind": "reply", "parent_id": " "}), "reply requires parent_id"),
    ] {
        let refused = message(&changes).unwrap_err();
        assert!(refused.starts_with(told), "{changes}: {refused}");
    }
    for body in ["", "{", "[]", "null", "1", "\"x\""] {
        assert!(Create::parse(body, &alpha()).is_err(), "{body}");
    }
}

#[test]
fn the_rest_is_coerced_trimmed_and_cut() {
    let taken = message(&json!({
        "origin": [" ALPHA "], "target": " BeTa ", "kind": " REQUEST ", "body": [[1, [2]], null], "context": 7,
        "session_ref": 0, "topic": false, "execution_mode": "READ ", "idempotency_key": " k".repeat(200),
        "root_id": 5, "parent_id": "", "ttl_seconds": [90],
    }))
    .unwrap();
    assert_eq!((taken.target.as_str(), taken.body.as_str(), taken.context.as_str()), ("beta", "1,2,", "7"));
    assert_eq!((taken.idempotency_key.len(), taken.ttl_seconds), (120, 90));
    let Content::Request { mode, session_ref, topic, root_id, parent_id, .. } = taken.content else {
        panic!("a request")
    };
    assert_eq!((mode, session_ref.as_str(), topic.as_str()), (Mode::Read, "0", "false"));
    assert_eq!((root_id.as_deref(), parent_id), (Some("5"), None));
    let long = message(
        &json!({"context": "🦀".repeat(48_001), "topic": "t".repeat(201), "body": "🦀".repeat(48_000)}),
    );
    assert_eq!(long.unwrap().context.chars().count(), 48_000);
}

#[test]
fn half_a_pair_in_a_body_is_replaced() {
    let body =
        r#"{"origin":"alpha","target":"b","kind":"request","body":"cut \ud83e","idempotency_key":"k"}"#;
    assert_eq!(Create::parse(body, &alpha()).unwrap().body, "cut \u{fffd}");
}

#[test]
fn a_time_to_live_is_an_hour_unless_it_is_a_number() {
    for (given, seconds) in [
        (json!(59), 60),
        (json!(-5), 60),
        (json!(61.9), 61),
        (json!(1e9), 3600),
        (json!(0), 3600),
        (json!(""), 3600),
        (json!("120"), 120),
        (json!("abc"), 3600),
        (json!(null), 3600),
        (json!(true), 60),
        (json!({}), 3600),
    ] {
        assert_eq!(message(&json!({ "ttl_seconds": given })).unwrap().ttl_seconds, seconds, "{given}");
    }
}

#[test]
fn limits_and_leases_of_a_pull_are_clamped_or_refused() {
    let pull = |body: Value| Pull::parse(&body.to_string(), &alpha());
    assert_eq!(pull(json!({})).unwrap(), Pull { limit: 8, lease_seconds: None, wait_seconds: 0 });
    for (given, limit) in
        [(json!(0), 1), (json!(1.9), 1), (json!("2"), 2), (json!(null), 1), (json!([]), 1), (json!(100), 8)]
    {
        assert_eq!(pull(json!({ "limit": given })).unwrap().limit, limit, "{given}");
    }
    for (given, seconds) in
        [(json!(14), 15), (json!(null), 15), (json!(20.9), 20), (json!(3601), 3600), (json!("60"), 60)]
    {
        assert_eq!(pull(json!({ "lease_seconds": given })).unwrap().lease_seconds, Some(seconds), "{given}");
    }
    for (given, held) in [
        ("0", 0),
        ("-1", 0),
        ("-1e300", 0),
        ("0.9", 0),
        ("24.9", 24),
        ("25", 25),
        ("99", 25),
        ("1e300", 25),
        // Too large for a number: as if there were none.
        ("1e999", 0),
        ("null", 0),
        ("\"7\"", 7),
        ("\" 0x10 \"", 16),
        ("\"\"", 0),
        ("true", 1),
        ("[5]", 5),
    ] {
        let body = format!(r#"{{"wait_seconds":{given}}}"#);
        assert_eq!(Pull::parse(&body, &alpha()).unwrap().wait_seconds, held, "{given}");
    }
    for given in ["\"soon\"", "\"NaN\"", "\"Infinity\"", "{}", "[1,2]"] {
        let body = format!(r#"{{"wait_seconds":{given}}}"#);
        let refused = Pull::parse(&body, &alpha()).map_err(|error| error.code());
        assert_eq!(refused, Err(Code::BadRequest), "{given}");
    }
    for bad in [json!("abc"), json!({}), json!([1, 2]), json!("NaN"), json!("Infinity")] {
        assert_eq!(pull(json!({ "limit": bad })).unwrap_err().code(), Code::BadRequest);
    }
    let other = pull(json!({"limit": "abc", "agent": null})).unwrap_err();
    assert_eq!(other.code(), Code::Forbidden);
}

#[test]
fn acknowledgements_and_renewals() {
    let ack = |body: Value| Ack::parse(&body.to_string(), &alpha());
    let said = json!({"message_id": " m ", "outcome": " Retry ", "error": {"a": 1}, "lease_token": " t "});
    let taken = ack(said).unwrap();
    assert_eq!((taken.id.as_str(), taken.outcome), ("m", Some(Outcome::Retry)));
    assert_eq!((taken.error.as_str(), taken.lease_token.as_deref()), ("[object Object]", Some("t")));
    let bare = ack(json!({"message_id": "m", "outcome": "done", "lease_token": null})).unwrap();
    assert_eq!((bare.outcome, bare.lease_token, bare.error.as_str()), (None, None, ""));
    assert!(ack(json!({"message_id": null})).is_err());
    let renew = |given: Value| {
        let body = json!({"message_id": "m", "lease_token": "t", "lease_seconds": given}).to_string();
        Renew::parse(&body, &alpha()).unwrap().lease_seconds
    };
    for (given, seconds) in [
        (json!(1), Some(15)),
        (json!(0), None),
        (json!(-5), Some(15)),
        (json!("x"), None),
        (json!(null), None),
        (json!([]), None),
        (json!(true), Some(15)),
        (json!(99_999), Some(3600)),
    ] {
        assert_eq!(renew(given.clone()), seconds, "{given}");
    }
}

#[test]
fn look_ups() {
    let m = json!({"message_ids": ["", null, 0, false, {"a": 1}, [], ["m"], " m"]}).to_string();
    assert_eq!(status(&m, &alpha()).unwrap(), ["null", "0", "false", "[object Object]", "m", " m"]);
    assert_eq!(status(&json!({ "message_ids": vec!["x"; 105] }).to_string(), &alpha()).unwrap().len(), 100);
    for body in ["", "{", "[]", "{}", r#"{"message_ids":"m"}"#] {
        assert_eq!(status(body, &alpha()).unwrap_err().code(), Code::BadRequest, "{body}");
    }
    for (given, recents, unfinisheds) in
        [("0", 20, 1), ("-1", 1, 1), ("null", 20, 1), ("true", 1, 1), ("\"x\"", 20, 50), ("1000", 50, 100)]
    {
        let body = format!(r#"{{"limit":{given}}}"#);
        assert_eq!(recent(&body, &alpha()).unwrap(), recents, "{given}");
        assert_eq!(unfinished(&body, &alpha()).unwrap(), unfinisheds, "{given}");
    }
    let query = |body: &str| Query::parse(body, &alpha());
    let taken = query(r#"{"kind":"REQUEST","origin":" BETA","topic":5,"status":"","since":null}"#).unwrap();
    assert_eq!((taken.kind.as_deref(), taken.origin.as_deref()), (Some("request"), Some(" beta")));
    assert_eq!((taken.topic.as_deref(), taken.status, taken.since), (Some("5"), None, Some(0.0)));
    assert!(query(r#"{"since":"abc"}"#).is_err() && query(r#"{"since":{}}"#).is_err());
    assert!(managed("null").is_err() && managed(r#"{"message_id":" m ","agent":"x"}"#).is_ok());
}
