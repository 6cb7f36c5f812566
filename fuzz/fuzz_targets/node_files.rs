//! Rows and lines of the Node broker's files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use redsyn_bridge::domain::clock::Timestamp;
use redsyn_bridge::proto::dsh::json::Members;
use redsyn_bridge::store::node::lines::Lines;
use redsyn_bridge::store::node::{v1, v2};

const UNDATED: Timestamp = Timestamp::from_secs(1_790_000_000);
/// Times beyond this are no dates, and are not written as they were read.
const YEAR_9999: i64 = 253_402_300_799_999;

fuzz_target!(|data: &[u8]| {
    let mut end = 0;
    for line in Lines::new(data) {
        let line = line.expect("bytes in memory can be read");
        assert!(line.end > end);
        end = line.end;
        let Some(text) = line.text else { continue };
        message(&text);
        if let Ok(Some(members)) = Members::parse(&text) {
            assert!(v1::seq(&members).is_ok_and(|seq| seq > 0) || v1::seq(&members).is_err());
            if let Some(inner) = members.get("message") {
                message(inner.as_json());
            }
        }
    }
    assert_eq!(end, data.len() as u64);
});

/// What was taken over can be handed back, and is the same when it is taken over again.
fn message(text: &str) {
    if let Ok(first) = v1::parse(text, UNDATED) {
        let written = v1::Payload::of(&first).to_json().expect("what was read can be written");
        let again = v1::parse(&written, UNDATED).expect("our own writing");
        if (0..=YEAR_9999).contains(&first.message.ts.millis()) {
            assert_eq!(again, first);
        }
    }
    if let Ok(first) = v2::parse(text) {
        let written = serde_json::to_string(&v2::Payload::of(&first)).expect("what was read can be written");
        let again = v2::parse(&written).expect("our own writing");
        assert_eq!(again.message.id, first.message.id);
        assert_eq!(again.delivery.status(), first.delivery.status());
        let dates = [first.message.created_at, first.delivery.expires_at];
        if dates.iter().all(|date| (0..=YEAR_9999).contains(&date.millis())) {
            assert_eq!(again.message, first.message);
        }
    }
}
