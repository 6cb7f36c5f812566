//! Bodies and names of the second generation.
#![no_main]

use libfuzzer_sys::fuzz_target;
use redsyn_bridge::proto::dsh::error::ApiError;
use redsyn_bridge::proto::dsh::js;
use redsyn_bridge::proto::dsh::json::{JsonText, mended};
use redsyn_bridge::proto::dsh::v2::name::Name;
use redsyn_bridge::proto::dsh::v2::request::{self, Ack, Create, Pull, Query, Renew};
use redsyn_bridge::proto::dsh::v2::route;

/// The longest text that explains a refusal: none repeats a body.
const LONGEST_REFUSAL: usize = 120;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    names(&text);
    values(&text);
    bodies(&text, &Name::of("alpha"));
    route::parse("POST", &text);
});

fn accepted<T>(parsed: Result<T, ApiError>) -> Option<T> {
    parsed
        .inspect_err(|error| {
            assert!(error.to_string().len() <= LONGEST_REFUSAL, "{error}");
            assert!((400..500).contains(&error.status()));
        })
        .ok()
}

fn names(text: &str) {
    let name = Name::of(text);
    assert_eq!(Name::of(name.as_str()), name);
    if let Some(caller) = Name::of_caller(text) {
        assert_eq!(Name::of_caller(caller.as_str()), Some(caller));
    }
}

fn values(text: &str) {
    let Ok(json) = JsonText::parse(text) else { return };
    // Mended text has no half emoji, and nothing left to mend.
    let mended_once = mended(json.as_json()).into_owned();
    assert_eq!(mended(&mended_once), mended_once);
    let again = JsonText::parse(&mended_once).expect("mended JSON is JSON");
    if json.as_json().starts_with('"') {
        assert!(again.as_text().is_some());
    }
    if let Some(value) = json.to_value() {
        js::number_of(&value);
        js::string_of(&value);
    }
}

fn bodies(text: &str, agent: &Name) {
    if let Some(create) = accepted(Create::parse(text, agent)) {
        assert!(create.body.chars().count() <= 48_000 && create.context.chars().count() <= 48_000);
        assert!(create.idempotency_key.encode_utf16().count() <= 120);
        assert!((60..=3_600).contains(&create.ttl_seconds));
        assert_eq!(Name::of(create.target.as_str()), create.target);
    }
    if let Some(ack) = accepted(Ack::parse(text, agent)) {
        assert!(!ack.id.as_str().is_empty() && ack.lease_token.is_none_or(|token| !token.is_empty()));
    }
    if let Some(renew) = accepted(Renew::parse(text, agent)) {
        assert!(!renew.id.as_str().is_empty() && !renew.lease_token.is_empty());
        assert!(renew.lease_seconds.is_none_or(|seconds| seconds >= request::SHORTEST_LEASE));
    }
    if let Some(query) = accepted(Query::parse(text, agent)) {
        assert!((1..=100).contains(&query.limit) && query.since.is_none_or(|since| !since.is_nan()));
    }
    if let Some(pull) = accepted(Pull::parse(text, agent)) {
        assert!(pull.limit >= 1 && pull.wait_seconds <= 25);
    }
    assert!(accepted(request::status(text, agent)).is_none_or(|ids| ids.iter().all(|id| !id.is_empty())));
    assert!(accepted(request::recent(text, agent)).is_none_or(|limit| (1..=50).contains(&limit)));
    assert!(accepted(request::unfinished(text, agent)).is_none_or(|limit| (1..=100).contains(&limit)));
    assert!(accepted(request::managed(text)).is_none_or(|id| !id.as_str().is_empty()));
}
