//! Any message that fits, from one bridge's mapping through another's, is the same field by field. Pure: what seals,
//! signs and carries it is tested elsewhere.

use proptest::prelude::*;
use redsyn_bridge::bridge::keys::NodeKeys;
use redsyn_bridge::bridge::mapping::{self, Delivery, Opened};
use redsyn_bridge::bridge::names::Names;
use redsyn_bridge::bridge::options::Options;
use redsyn_bridge::bridge::spill::{self, Parcel};
use redsyn_bridge::config::redsyn::RedsynConfig;
use redsyn_bridge::domain::clock::Timestamp;
use redsyn_bridge::domain::random::SystemRandom;
use redsyn_bridge::proto::dsh::json::JsonText;
use redsyn_bridge::proto::dsh::names::{AgentName, DshId, Party};
use redsyn_bridge::proto::dsh::v1::envelope::Kind as V1Kind;
use redsyn_bridge::proto::dsh::v2::message::{Kind, Mode};
use redsyn_bridge::proto::dsh::v2::name::Name;
use redsyn_bridge::proto::redsyn::envelope::DeliveredEnvelope;
use redsyn_bridge::store::bridge::Content;
use redsyn_bridge::store::bridge::generation::to_v2;
use redsyn_bridge::store::{local, v2};
use serde_json::{Value, json};

use crate::support::zips::{member_of, zip_of};

const NOW: Timestamp = Timestamp::from_secs(1_790_000_000);

/// The other bridge: what its agent `billing` gets of a request of `close`.
fn arrives(id: &DshId, kind: &str, parcel: Parcel) -> (local::NewMessage, Option<Vec<u8>>) {
    let yaml = "relay: off\nscope: globex/erp/bob\nagents: {billing: {grant: {write: [acme/*/*/*]}}}";
    let names = Names::new(&RedsynConfig::parse(yaml, std::path::Path::new(".")).unwrap());
    let agent = AgentName::parse("billing").unwrap();
    let Content { body, refs } = parcel.content;
    let envelope = json!({
        "v": 1, "id": mapping::travel_id(id).unwrap(), "kind": kind, "from": "acme/finance/ana/close#s1",
        "to": "globex/erp/bob/billing#s2", "thread": "t1", "reply_to": "m0", "ts": NOW.secs(), "body": body,
        "refs": refs, "expires": NOW.secs() + 3600,
    });
    let envelope = DeliveredEnvelope::parse(envelope).unwrap();
    let mut opened = Opened { body, refs, reply_key: None, encrypted: true, zip: parcel.zip };
    spill::put_back(&mut opened).unwrap();
    let signer = NodeKeys::generate(&SystemRandom).signing.verifying_key();
    let arrival = mapping::arrival(Delivery {
        agent: &agent,
        mapped: names.agent(&agent).unwrap(),
        envelope: &envelope,
        session: None,
        signer: Some((signer, true)),
        opened,
        expires_at: Some(NOW.plus(std::time::Duration::from_secs(3600))),
        names: &names,
        now: NOW,
    });
    (arrival.message, arrival.zip)
}

pub fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        (-1e9..1e9_f64).prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("\\PC{0,6}", inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Objects, short and long: what a local agent sends.
fn body() -> impl Strategy<Value = Value> {
    let text = ("\\PC{1,20}", prop_oneof![Just(1_usize), Just(6000)])
        .prop_map(|(text, times)| json!({"text": text.repeat(times)}));
    let object = prop::collection::btree_map("\\PC{0,8}", json_value(), 0..6)
        .prop_map(|members| Value::Object(members.into_iter().collect()));
    let long = json_value().prop_map(|value| json!({"rows": vec![value; 3000]}));
    prop_oneof![4 => text, 4 => object, 1 => long]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_message_of_the_first_generation_arrives_as_it_was(
        id in "[A-Za-z0-9._:-]{1,128}",
        body in body(),
        ack: bool,
        refs in prop::collection::vec("[a-z]{1,8}", 0..3),
        file in proptest::option::of("\\PC{0,40}"),
        (kind, travels) in prop_oneof![
            Just((V1Kind::Request, "request")), Just((V1Kind::Reply, "reply")), Just((V1Kind::Message, "progress"))
        ],
    ) {
        let close = AgentName::parse("close").unwrap();
        let mut message = local::NewMessage::new(DshId::new(id), &close, Party::new("bob"), NOW);
        (message.kind, message.ack) = (kind, ack);
        message.body = JsonText::from(&body);
        let refs: Vec<Value> = refs.into_iter().map(|url| json!({"url": url})).collect();
        let options = Options { refs: refs.clone(), ..Options::default() };
        let zip = file.as_ref().map(|file| zip_of(&[("a.txt", file.as_bytes())]));
        let parcel = spill::fit(mapping::content(&message, &options).unwrap(), zip, true).unwrap();
        let (arrived, zip) = arrives(&message.id, travels, parcel);
        prop_assert_eq!(&arrived.id, &message.id);
        prop_assert_eq!(arrived.body.to_value().unwrap(), body);
        prop_assert_eq!((arrived.kind, arrived.ack), (kind, ack));
        let redsyn = arrived.redsyn.unwrap();
        prop_assert_eq!(&redsyn["refs"], &json!(refs));
        let file_there = zip.map(|zip| String::from_utf8(member_of(&zip, "a.txt")).unwrap());
        prop_assert_eq!(file_there, file);
    }

    #[test]
    fn a_message_of_the_second_generation_arrives_as_it_was(
        id in "[0-9a-f]{32}",
        body in ("\\PC{1,20}", prop_oneof![Just(1_usize), Just(2000)]).prop_map(|(text, times)| text.repeat(times)),
        (context, topic, session_ref) in ("\\PC{0,30}", "\\PC{0,20}", "\\PC{0,20}"),
        mode in prop::sample::select(Mode::ALL.to_vec()),
        shared: bool,
        (kind, travels) in prop_oneof![Just((Kind::Request, "request")), Just((Kind::Reply, "reply"))],
    ) {
        let message = v2::NewMessage {
            id: DshId::new(id),
            root_id: "t1".into(),
            parent_id: None,
            origin: Name::of("close"),
            target: Name::of("bob"),
            kind,
            body,
            session_ref,
            mode,
            context,
            topic,
            // Without the mode that may write there is nothing to share.
            allow_shared_write: shared && mode == Mode::Write,
            idempotency_key: "k".into(),
            created_at: NOW,
            expires_at: NOW.plus(std::time::Duration::from_secs(3600)),
        };
        let parcel = spill::fit(mapping::content_v2(&message, &Options::default()).unwrap(), None, true).unwrap();
        let (arrived, zip) = arrives(&message.id, travels, parcel);
        prop_assert_eq!(zip, None);
        let arrived = to_v2(&arrived, &AgentName::parse("billing").unwrap());
        let expected = v2::NewMessage {
            origin: Name::of("acme/finance/ana/close"),
            target: Name::of("billing"),
            idempotency_key: arrived.idempotency_key.clone(),
            ..message
        };
        prop_assert_eq!(arrived, expected);
    }
}
