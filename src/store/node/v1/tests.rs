//! Files as versions old and new have written them, and files that somebody has broken.

use serde_json::json;

use super::*;

const UNDATED: Timestamp = Timestamp::from_secs(5);

fn parse(json: &serde_json::Value) -> Result<StoredMessage, &'static str> {
    super::parse(&json.to_string(), UNDATED)
}

fn whole() -> serde_json::Value {
    json!({
        "id": "m1", "from": "alpha", "to": "beta", "ts": "2024-04-05T19:34:38.000Z", "type": "ack",
        "body": {"t": 1}, "replyTo": "r", "ack": true, "kind": "request", "rootId": ["x"], "parentId": 7,
        "status": "leased", "attempts": 2, "leaseUntil": 1_712_345_999_000_i64, "leaseId": "l1",
        "error": null, "redsyn": {"thread": "t"}
    })
}

#[test]
fn a_message_of_today_is_read_and_written_back_as_it_was() {
    let stored = parse(&whole()).unwrap();
    assert_eq!(stored.inbox, AgentName::parse("beta"));
    let written: serde_json::Value = serde_json::from_str(&Payload::of(&stored).to_json().unwrap()).unwrap();
    assert_eq!(written, whole());
}

#[test]
fn a_message_of_version_1_0_gets_what_it_lacks() {
    let old = json!({
        "id": "m1", "from": "alpha", "to": "beta", "ts": "2024-04-05T19:34:38.000Z", "type": "message",
        "body": {}, "replyTo": null, "ack": false
    });
    let stored = parse(&old).unwrap();
    assert_eq!(stored.delivery, Delivery::new());
    assert_eq!((stored.message.kind, stored.error), (Kind::Message, None));
}

#[test]
fn a_mark_for_one_more_delivery_is_kept() {
    let marked = json!({"id": "m", "from": "a", "to": "b", "status": "queued", "legacyRedelivery": true});
    let stored = parse(&marked).unwrap();
    assert_eq!(stored.delivery.state, State::Queued { redeliver: true });
    assert!(Payload::of(&stored).to_json().unwrap().contains("\"legacyRedelivery\":true"));
}

#[test]
fn a_lease_without_token_or_end_runs_out() {
    let lease = |fields: serde_json::Value| {
        let mut message = json!({"id": "m", "from": "a", "to": "b", "status": "leased"});
        message.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        match parse(&message).unwrap().delivery.state {
            State::Leased(lease) => (lease.id.as_str().to_owned(), lease.until.millis()),
            state => panic!("{state:?}"),
        }
    };
    assert_eq!(lease(json!({"leaseUntil": 9000})), (NO_TOKEN.to_owned(), 9000));
    assert_eq!(lease(json!({"leaseId": "l", "leaseUntil": null})), ("l".to_owned(), 0));
}

#[test]
fn mail_for_somebody_beyond_the_machine_is_in_no_inbox() {
    let message = json!({"id": "m", "from": "a", "to": "globex/erp/bob/billing", "status": "leased"});
    let stored = parse(&message).unwrap();
    assert_eq!((stored.inbox, stored.delivery.state), (None, State::LeasedElsewhere));
}

#[test]
fn a_time_that_cannot_be_read_loses_no_message() {
    for ts in [json!("yesterday"), json!(5), json!(null)] {
        let stored = parse(&json!({"id": "m", "from": "a", "to": "b", "ts": ts})).unwrap();
        assert_eq!(stored.message.ts, UNDATED);
    }
}

#[test]
fn what_makes_no_message_is_told_apart() {
    for (message, why) in [
        (json!([]), "the message is no JSON object"),
        (json!(null), "the message is no JSON object"),
        (json!({}), "no recipient"),
        (json!({"to": "b"}), "no id"),
        (json!({"to": "b", "id": 5}), "no id"),
        (json!({"to": "b", "id": "m"}), "no sender"),
        (json!({"to": "b", "id": "m", "from": "a", "type": "x"}), "unknown type"),
        (json!({"to": "b", "id": "m", "from": "a", "kind": 1}), "unknown kind"),
        (json!({"to": "b", "id": "m", "from": "a", "status": "lost"}), "unknown status"),
    ] {
        assert_eq!(parse(&message).unwrap_err(), why, "{message}");
    }
}

#[test]
fn of_a_number_the_last_line_counts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("messages.jsonl");
    let line = |seq: i64, id: &str, status: &str| {
        json!({"seq": seq, "message": {"id": id, "from": "a", "to": "b", "status": status}}).to_string()
    };
    let lines = [
        line(2, "two", "queued"),
        "nonsense".into(),
        String::new(),
        line(1, "one", "queued"),
        r#"{"seq":9}"#.into(),
        r#"{"seq":0,"message":{}}"#.into(),
        line(2, "two", "done"),
        r#"{"seq":3,"mess"#.into(),
    ];
    std::fs::write(&file, lines.join("\n")).unwrap();
    let (messages, broken) = read_lines(&file, UNDATED, &CancellationToken::new()).unwrap().unwrap().split();
    let found: Vec<_> =
        messages.iter().map(|kept| (kept.stored.seq, kept.stored.message.id.as_str())).collect();
    assert_eq!(found, [(1, "one"), (2, "two")]);
    assert_eq!(messages[1].stored.delivery.state, State::Done);
    let broken: Vec<_> = broken.iter().map(|broken| (broken.place.to_string(), broken.why)).collect();
    let line = |number: usize| format!("line {number}");
    assert_eq!(
        broken,
        [
            (line(2), "no JSON object"),
            (line(5), "no message"),
            (line(6), "no sequence number"),
            (line(8), "cut off")
        ]
    );
    assert!(read_lines(&folder.path().join("none"), UNDATED, &CancellationToken::new()).unwrap().is_none());
}
