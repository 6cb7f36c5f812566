//! Bodies, request lines and headers of the first generation.
#![no_main]

use libfuzzer_sys::fuzz_target;
use redsyn_bridge::proto::dsh::error::ApiError;
use redsyn_bridge::proto::dsh::json::{JsonText, Members};
use redsyn_bridge::proto::dsh::names::AgentName;
use redsyn_bridge::proto::dsh::v1::iso::{iso, parse_iso};
use redsyn_bridge::proto::dsh::v1::request::{self, Ack, Pull, Query, Receipt, Send};
use redsyn_bridge::proto::dsh::v1::route::{self, Route};
use redsyn_bridge::proto::dsh::v1::signing;

/// The longest text that explains a refusal: none repeats a body.
const LONGEST_REFUSAL: usize = 120;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    bodies(&text);
    targets(&text);
    headers(&text);
});

fn accepted<T>(parsed: Result<T, ApiError>) -> Option<T> {
    parsed
        .inspect_err(|error| {
            assert!(error.to_string().len() <= LONGEST_REFUSAL, "{error}");
            assert!((400..500).contains(&error.status()));
        })
        .ok()
}

fn bodies(text: &str) {
    let Some(agent) = AgentName::parse("alpha") else { return };
    if let Ok(Some(members)) = Members::parse(text) {
        // What is kept is compact JSON, and stays what it is when it is read again.
        let whole = JsonText::parse(text).expect("members are those of a JSON text");
        assert_eq!(JsonText::parse(whole.as_json()), Ok(whole.clone()));
        let again = Members::parse(whole.as_json()).ok().flatten().expect("compact JSON is JSON");
        for name in ["to", "id", "body", "agent", "error"] {
            assert_eq!(members.get(name), again.get(name));
        }
    }
    if let Some(send) = accepted(Send::parse(text, &agent)) {
        assert_ne!(send.to, "alpha");
        assert!(!send.to.is_empty());
        let kept = [Some(&send.body), send.reply_to.as_ref(), send.root_id.as_ref(), send.parent_id.as_ref()];
        for part in kept.into_iter().flatten() {
            assert_eq!(JsonText::parse(part.as_json()).as_ref(), Ok(part));
        }
    }
    if let Some(pull) = accepted(Pull::parse(text, &agent)) {
        assert!((1..=200).contains(&pull.limit) && pull.wait_seconds <= 25);
        assert!(pull.lease_seconds.is_none_or(|seconds| (1..=86_400).contains(&seconds)));
    }
    if let Some(ack) = accepted(Ack::parse(text)) {
        assert!(!ack.id.as_str().is_empty() && !ack.lease_id.is_empty());
        assert!(ack.error.is_null() || ack.error.as_json().starts_with('"'));
    }
    if let Some(query) = accepted(Query::parse(text, &agent)) {
        let filters = [query.kind, query.status, query.from, query.to];
        assert!(
            (1..=200).contains(&query.limit) && filters.iter().flatten().all(|filter| !filter.is_empty())
        );
    }
    assert!(accepted(request::status(text)).is_none_or(|ids| ids.len() <= 200));
    assert!(accepted(request::recent(text, &agent)).is_none_or(|limit| (1..=200).contains(&limit)));
    accepted(request::register(text, &agent));
    accepted(Receipt::parse(text));
}

fn targets(text: &str) {
    for method in ["GET", "POST", "PUT"] {
        let (route, path) = route::parse(method, text);
        // A backslash stays one in the path of a scheme that URLs do not know, and is a slash in any other.
        if route == Route::Unknown || path.contains('\\') {
            continue;
        }
        // A path that routes is one that routes to the same again, without what follows it.
        let (again, same) = route::parse(method, &path);
        assert_eq!(path, same);
        match (&route, &again) {
            (Route::Poll { limit, .. }, Route::Poll { .. }) => assert!((1..=200).contains(limit)),
            _ => assert_eq!(route, again),
        }
    }
}

fn headers(text: &str) {
    if let Some(agent) = AgentName::parse(text) {
        assert_eq!(AgentName::parse(agent.as_str()), Some(agent));
    }
    let _ = signing::is_recent(text, 1_790_000_000);
    if let Some(millis) = parse_iso(text) {
        assert_eq!(parse_iso(&iso(millis)), Some(millis), "{text:?}");
    }
}
