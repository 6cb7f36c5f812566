//! What the relay and the bridge read: addresses, envelopes, signatures, key registrations, policies, webhooks.
#![no_main]

use std::fmt::{Debug, Display};
use std::str::FromStr;

use libfuzzer_sys::fuzz_target;
use redsyn_bridge::crypto::json;
use redsyn_bridge::crypto::sign::SigningKey;
use redsyn_bridge::domain::relay::target::Target;
use redsyn_bridge::proto::redsyn::address::{
    AddressedAgent, AgentAddress, Destination, Name, Person, SessionId, ShortAddress, TopicAddress,
};
use redsyn_bridge::proto::redsyn::envelope::{DeliveredEnvelope, SentEnvelope};
use redsyn_bridge::proto::redsyn::ids::MessageId;
use redsyn_bridge::proto::redsyn::keys::{KeyAnswer, KeyRegistration};
use redsyn_bridge::proto::redsyn::policy::Policy;
use redsyn_bridge::proto::redsyn::signed::{check_arrival, check_delivered, sign};
use serde_json::Value;

const NOW: i64 = 1_790_000_000;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    texts(&text);
    target(&text);
    if let Ok(value) = json::parse(data) {
        registrations(&value);
        envelopes(&value);
        if let Value::Object(announcement) = &value
            && let Ok(policy) = Policy::parse(announcement)
        {
            let Value::Object(written) = policy.to_value() else { panic!("a policy is an object") };
            assert_eq!(Policy::parse(&written).as_ref(), Ok(&policy));
        }
    }
});

/// What is read is written as it was.
fn exact<T: FromStr + Display + PartialEq + Debug>(text: &str) -> Option<T>
where
    T::Err: Display,
{
    match text.parse::<T>() {
        Ok(read) => {
            assert_eq!(read.to_string(), text);
            Some(read)
        }
        Err(error) => {
            // A refused text may be long, and goes into a log.
            assert!(error.to_string().len() < 1_500, "{error}");
            None
        }
    }
}

fn texts(text: &str) {
    exact::<Name>(text);
    exact::<SessionId>(text);
    exact::<Person>(text);
    exact::<AgentAddress>(text);
    exact::<AddressedAgent>(text);
    exact::<TopicAddress>(text);
    exact::<MessageId>(text);
    let full = exact::<Destination>(text);
    let short = exact::<ShortAddress>(text);
    let sender: AgentAddress = "acme/finance/ana/close".parse().expect("an address");
    if let Some(short) = short {
        // Resolved it is full, and stays where it is from everywhere.
        let resolved = short.resolve(&sender);
        let again: ShortAddress = resolved.to_string().parse().expect("a full address is a short one");
        assert!(again.is_full());
        let other: AgentAddress = "globex/erp/bob/billing".parse().expect("an address");
        assert_eq!(again.resolve(&other), resolved);
        assert!(full.is_none_or(|full| full == resolved));
    } else {
        assert!(full.is_none(), "full, but no short address");
    }
}

fn target(text: &str) {
    let Ok(target) = Target::parse(text, false) else { return };
    let url = target.url();
    assert_eq!(url.scheme(), "https");
    assert!(url.username().is_empty() && url.password().is_none());
    let name = url.domain().expect("a public host has a name");
    assert!(name.contains('.') && !name.ends_with('.') && name.parse::<std::net::IpAddr>().is_err());
    assert!(url.port().is_none_or(|port| port >= 1024));
    // Kept as text and checked again before each delivery.
    assert_eq!(Target::parse(target.as_str(), false).as_ref(), Ok(&target));
}

fn registrations(value: &Value) {
    if let Ok(registration) = serde_json::from_value::<KeyRegistration>(value.clone()) {
        let _ = registration.check();
    }
    if let Ok(answer) = serde_json::from_value::<KeyAnswer>(value.clone()) {
        let _ = answer.decide(None);
    }
}

fn envelopes(value: &Value) {
    if let Ok(envelope) = DeliveredEnvelope::parse(value.clone()) {
        let again = DeliveredEnvelope::parse(Value::Object(envelope.raw().clone())).expect("it was accepted");
        assert_eq!(format!("{again:?}"), format!("{envelope:?}"));
        let _ = check_delivered(envelope.raw());
    }
    let Ok(envelope) = SentEnvelope::parse(value.clone()) else { return };
    assert_eq!(Value::Object(envelope.raw().clone()), *value);
    // Whatever is accepted can be signed if it tells a time, and the signature holds on arrival.
    let key = SigningKey::from_seed(&[1; 32]);
    let mut signed = envelope.raw().clone();
    signed.insert("ts".to_owned(), NOW.into());
    if sign(&mut signed, &key).is_ok() {
        check_arrival(&signed, Some(&key.verifying_key()), NOW).expect("it was just signed");
        signed.insert("body".to_owned(), serde_json::json!({"type": "text/plain", "text": "another"}));
        let same = envelope.body.as_value() == &signed["body"];
        assert_eq!(check_arrival(&signed, Some(&key.verifying_key()), NOW).is_ok(), same);
    }
}
