//! Any message that fits, from one bridge to another and back: the same message, field by field (mapping §4). Real stores,
//! a real relay, sealed and signed; in each pair of generations. `PROPTEST_CASES` asks for more of them.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use redsyn_bridge::bridge::mapping::travel_id;
use redsyn_bridge::broker::carrier::Carrier;
use redsyn_bridge::crypto::{jcs, sha256};
use redsyn_bridge::domain::clock::Timestamp;
use redsyn_bridge::domain::delivery::Status;
use redsyn_bridge::proto::dsh::json::JsonText;
use redsyn_bridge::proto::dsh::names::{DshId, Party};
use redsyn_bridge::proto::dsh::v1::envelope::{Kind as V1Kind, MessageType};
use redsyn_bridge::proto::dsh::v2::message::{Kind as V2Kind, Mode};
use redsyn_bridge::proto::dsh::v2::name::Name;
use redsyn_bridge::store::bridge::generation::Generation;
use redsyn_bridge::store::{local, v2};
use serde_json::{Map, Value, json};

use super::mapping::json_value;
use super::pair::{Pair, Side};
use crate::support::world::World;
use crate::support::zips::{member_of, zip_of};

/// In a normal run: each is a whole conversation across two bridges.
const CASES: u32 = 10;
const DAY: u64 = 86_400;

/// What an agent says, in the fields of either generation.
#[derive(Clone, Debug)]
struct Said {
    id: String,
    body: Value,
    ack: bool,
    refs: Vec<Value>,
    file: Option<String>,
    ttl: Option<u64>,
    text: String,
    context: String,
    topic: String,
    session_ref: String,
    mode: Mode,
    shared: bool,
}

/// What it is in its conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Request,
    Progress,
    Reply,
}

fn said() -> impl Strategy<Value = Said> {
    let id = prop_oneof![4 => "[A-Za-z0-9._:-]{1,40}", 1 => "\\PC{1,20}"];
    let text = ("\\PC{1,20}", prop_oneof![8 => Just(1_usize), 1 => Just(5000)])
        .prop_map(|(text, times)| text.repeat(times));
    let object = prop::collection::btree_map("\\PC{0,8}", json_value(), 0..6)
        .prop_map(|members| Value::Object(members.into_iter().collect()));
    let long = json_value().prop_map(|value| json!({"rows": vec![value; 3000]}));
    let body = prop_oneof![
        4 => text.clone().prop_map(|text| json!({ "text": text })),
        4 => object,
        2 => json_value(),
        1 => long
    ];
    let reference = ("[a-z]{1,8}", proptest::option::of("\\PC{0,12}")).prop_map(|(url, note)| match note {
        Some(note) => json!({"url": url, "note": note}),
        None => json!({ "url": url }),
    });
    let of_the_first = (
        id,
        body,
        any::<bool>(),
        prop::collection::vec(reference, 0..3),
        proptest::option::of("\\PC{0,40}"),
        proptest::option::of(3600..30 * DAY),
    );
    let mode = prop::sample::select(Mode::ALL.to_vec());
    let of_the_second = (text, "\\PC{0,30}", "\\PC{0,20}", "\\PC{0,20}", mode, any::<bool>());
    (of_the_first, of_the_second).prop_map(|(first, second)| {
        let (id, body, ack, refs, file, ttl) = first;
        let (text, context, topic, session_ref, mode, shared) = second;
        // Without the mode that may write there is nothing to share.
        let shared = shared && mode == Mode::Write;
        Said { id, body, ack, refs, file, ttl, text, context, topic, session_ref, mode, shared }
    })
}

/// One message under way: what was said under which id, and in answer to what.
struct Sent<'a> {
    said: &'a Said,
    what: What,
    id: String,
    at: Timestamp,
    /// How its sender knows what it answers, and how its recipient does.
    parents: Option<(String, String)>,
    thread: &'a str,
}

impl Sent<'_> {
    /// What is not said is a day.
    fn ttl(&self) -> u64 {
        self.said.ttl.unwrap_or(DAY)
    }

    async fn leaves(&self, from: &Side) {
        let parent = self.parents.as_ref().map(|(sender, _)| sender.clone());
        match from.generation {
            Generation::V1 => {
                let mut redsyn = Map::new();
                redsyn.insert("refs".into(), json!(self.said.refs));
                redsyn.insert("ttl".into(), json!(self.said.ttl));
                if let Some(zip) = self.zip() {
                    let parcels = from.node.carrier.parcels().unwrap();
                    let name = parcels.upload(from.agent(), zip).await.unwrap();
                    redsyn.insert("files".into(), json!(name));
                }
                let message = local::NewMessage {
                    kind: self.v1_kind(),
                    body: JsonText::from(&self.said.body),
                    ack: self.said.ack,
                    parent_id: parent.map(|parent| JsonText::from(&json!(parent))),
                    redsyn: Some(Value::Object(redsyn)),
                    ..from.v1(&self.id, self.at)
                };
                from.node.carrier.send(message).await.unwrap();
            }
            Generation::V2 => {
                let message = v2::NewMessage {
                    root_id: self.thread.to_owned(),
                    parent_id: parent,
                    kind: self.v2_kind(),
                    body: self.said.text.clone(),
                    session_ref: self.said.session_ref.clone(),
                    mode: self.said.mode,
                    context: self.said.context.clone(),
                    topic: self.said.topic.clone(),
                    allow_shared_write: self.said.shared,
                    expires_at: self.at.plus(std::time::Duration::from_secs(self.ttl())),
                    ..from.v2(&self.id, self.at)
                };
                from.node.carrier.send_v2(message, None).await.unwrap();
            }
        }
    }

    fn zip(&self) -> Option<Vec<u8>> {
        self.said.file.as_ref().map(|file| zip_of(&[("a.txt", file.as_bytes())]))
    }

    const fn v1_kind(&self) -> V1Kind {
        match self.what {
            What::Request => V1Kind::Request,
            What::Progress => V1Kind::Message,
            What::Reply => V1Kind::Reply,
        }
    }

    const fn v2_kind(&self) -> V2Kind {
        match self.what {
            What::Request => V2Kind::Request,
            What::Progress => V2Kind::Message,
            What::Reply => V2Kind::Reply,
        }
    }

    /// What the second generation has and the first has not.
    fn envelope(&self) -> Option<Value> {
        let said = self.said;
        let mut fields = Map::new();
        for (name, text) in
            [("context", &said.context), ("topic", &said.topic), ("session_ref", &said.session_ref)]
        {
            if !text.is_empty() {
                fields.insert(name.into(), json!(text));
            }
        }
        if said.mode != Mode::Read {
            fields.insert("execution_mode".into(), json!(said.mode.as_str()));
        }
        if said.shared {
            fields.insert("allow_shared_write".into(), json!(true));
        }
        (!fields.is_empty()).then_some(Value::Object(fields))
    }

    /// Checks what has come to `to`, and tells how its agent calls it.
    async fn arrived(&self, from: &Side, to: &Side, now: Timestamp) -> Result<String, TestCaseError> {
        let id = travel_id(&DshId::new(self.id.as_str())).unwrap().to_string();
        let parent = self.parents.as_ref().map(|(_, recipient)| recipient.clone());
        let (redsyn, expires_at) = match to.generation {
            Generation::V1 => {
                let got = to.inbox_v1().await.pop().unwrap();
                let quoted = |text: &String| JsonText::from(&json!(text));
                let body = match from.generation {
                    Generation::V2 => json!({"text": self.said.text}),
                    Generation::V1 if self.said.body.is_object() => self.said.body.clone(),
                    Generation::V1 => json!({"data": self.said.body}),
                };
                prop_assert_eq!(got.body.to_value().unwrap(), body);
                let expected = local::NewMessage {
                    id: DshId::new(id.as_str()),
                    from: Party::new(from.member.address()),
                    to: to.agent().into(),
                    ts: got.ts,
                    message_type: MessageType::Message,
                    kind: self.v1_kind(),
                    body: got.body.clone(),
                    reply_to: parent.as_ref().map(quoted),
                    root_id: Some(JsonText::from(&json!(self.thread))),
                    parent_id: parent.as_ref().map(quoted),
                    ack: from.generation == Generation::V1 && self.said.ack,
                    redsyn: got.redsyn.clone(),
                    expires_at: got.expires_at,
                    status: Status::Queued,
                };
                prop_assert_eq!(&got, &expected);
                (got.redsyn.unwrap(), got.expires_at)
            }
            Generation::V2 => {
                let got = to.inbox_v2().await.pop().unwrap();
                let said = self.said;
                let (body, of_the_second) = match from.generation {
                    Generation::V2 => (said.text.clone(), true),
                    Generation::V1 => (as_text(&said.body), false),
                };
                let text = |text: &String| if of_the_second { text.clone() } else { String::new() };
                let expected = v2::NewMessage {
                    id: DshId::new(id.as_str()),
                    root_id: self.thread.to_owned(),
                    parent_id: parent,
                    origin: Name::of(&from.member.address()),
                    target: to.name(),
                    kind: self.v2_kind(),
                    body,
                    session_ref: text(&said.session_ref),
                    mode: if of_the_second { said.mode } else { Mode::Read },
                    context: text(&said.context),
                    topic: text(&said.topic),
                    allow_shared_write: of_the_second && said.shared,
                    ..got.clone()
                };
                prop_assert_eq!(&got, &expected);
                let stored = to.node.v2.lookup(got.id).await.unwrap().unwrap();
                (stored.redsyn.unwrap(), Some(got.expires_at))
            }
        };
        self.check_metadata(&redsyn, from.generation, to.generation)?;
        let ttl = self.ttl();
        let since = expires_at.unwrap().secs() - i64::try_from(ttl).unwrap();
        prop_assert!((self.at.secs()..=now.secs()).contains(&since), "{since} of {:?}", self.at);
        let files = to.node.carrier.parcels().unwrap().files(to.agent(), DshId::new(id.as_str())).await.ok();
        let sent = self.said.file.as_ref().filter(|_| from.generation == Generation::V1);
        let file = files.as_deref().map(|zip| String::from_utf8(member_of(zip, "a.txt")).unwrap());
        prop_assert_eq!(file.as_ref(), sent);
        let told = files.map(|zip| json!({"bytes": zip.len(), "sha256": sha256::hex(&zip)}));
        prop_assert_eq!(&redsyn["files"], &told.unwrap_or_default());
        Ok(id)
    }

    fn check_metadata(&self, redsyn: &Value, from: Generation, to: Generation) -> Result<(), TestCaseError> {
        let kind = match self.what {
            What::Request => "request",
            What::Progress => "progress",
            What::Reply => "reply",
        };
        prop_assert_eq!(&redsyn["kind"], kind);
        prop_assert_eq!(&redsyn["thread"], self.thread);
        prop_assert_eq!((&redsyn["verified"], &redsyn["encrypted"]), (&json!(true), &json!(true)));
        prop_assert_eq!(&redsyn["error"], &json!(false));
        let (refs, envelope) = match from {
            Generation::V1 => {
                // The first generation has a field for it.
                let ack = self.said.ack && to == Generation::V2;
                (json!(self.said.refs), ack.then(|| json!({"ack": true})))
            }
            Generation::V2 => (json!([]), self.envelope()),
        };
        prop_assert_eq!(&redsyn["refs"], &refs);
        prop_assert_eq!(redsyn.get("envelope"), envelope.as_ref());
        Ok(())
    }
}

/// A body of the first generation in the second: a text as it is, anything else as its canonical JSON.
fn as_text(body: &Value) -> String {
    let fields = body.as_object().filter(|fields| fields.len() == 1);
    match fields.and_then(|fields| fields.get("text")) {
        Some(Value::String(text)) => text.clone(),
        _ => String::from_utf8(jcs::canonical(body).unwrap()).unwrap(),
    }
}

/// A request crosses, and what its recipient says of it crosses back.
async fn conversation(pair: &Pair, said: &[Said; 3], nth: u32) -> Result<(), TestCaseError> {
    let [ask, progress, reply] = said;
    // Ids are used once, in every case and every step of its shrinking.
    let unique = |said: &Said, letter: &str| format!("{}{letter}{nth}", said.id);
    let asked = unique(ask, "a");
    let thread = travel_id(&DshId::new(asked.as_str())).unwrap().to_string();
    let request = Sent {
        said: ask,
        what: What::Request,
        id: asked.clone(),
        at: pair.now(),
        parents: None,
        thread: &thread,
    };
    let there = crosses(pair, &request, &pair.a, &pair.b).await?;
    for (said, what, letter) in [(progress, What::Progress, "p"), (reply, What::Reply, "r")] {
        let parents = Some((there.clone(), asked.clone()));
        let answer = Sent { said, what, id: unique(said, letter), at: pair.now(), parents, thread: &thread };
        crosses(pair, &answer, &pair.b, &pair.a).await?;
    }
    pair.quiet().await;
    prop_assert_eq!(pair.a.status(&asked).await, pair.a.done());
    Ok(())
}

async fn crosses(pair: &Pair, sent: &Sent<'_>, from: &Side, to: &Side) -> Result<String, TestCaseError> {
    let before = to.came().await;
    sent.leaves(from).await;
    pair.until("it has come", async || to.came().await > before).await;
    sent.arrived(from, to, pair.now()).await
}

fn any_message_crosses(a: Generation, b: Generation) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let pair = runtime.block_on(async {
        let granted = ", grant: {write: [acme/*/*/*, globex/*/*/*]}";
        let pair = Pair::with(World::new().await, a, b, granted).await;
        // What a remote may do depends on whether a person has confirmed its key.
        pair.a.says("hello", "?", None, None, pair.now()).await;
        pair.until("they know each other", async || pair.b.came().await == 1).await;
        for side in [&pair.a, &pair.b] {
            let confirm =
                |conn: &rusqlite::Connection| Ok(conn.execute_batch("UPDATE pins SET verified = 1")?);
            side.node.local.db().call("test", confirm).await.unwrap();
        }
        pair
    });
    let default = Config::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { CASES };
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..default });
    let count = Cell::new(0);
    let result = runner.run(&[said(), said(), said()], |said| {
        count.set(count.get() + 1);
        runtime.block_on(conversation(&pair, &said, count.get()))
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

#[test]
fn from_the_first_generation_to_the_first() {
    any_message_crosses(Generation::V1, Generation::V1);
}

#[test]
fn from_the_first_generation_to_the_second_and_back() {
    any_message_crosses(Generation::V1, Generation::V2);
}

#[test]
fn from_the_second_generation_to_the_first_and_back() {
    any_message_crosses(Generation::V2, Generation::V1);
}

#[test]
fn from_the_second_generation_to_the_second() {
    any_message_crosses(Generation::V2, Generation::V2);
}
