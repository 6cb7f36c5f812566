//! A relay that is slow, was away for long, has lost its memory, or does not know our token any more.

use std::time::Duration;

use axum::http::Method;
use redsyn_bridge::bridge::events::Event;
use redsyn_bridge::bridge::link::LinkState;
use redsyn_bridge::broker::carrier::Carrier;
use redsyn_bridge::domain::clock::Clock;
use redsyn_bridge::domain::random::{Random, SystemRandom};
use redsyn_bridge::proto::dsh::json::JsonText;
use redsyn_bridge::proto::dsh::names::DshId;
use redsyn_bridge::proto::redsyn::ids::FILES_LIMIT;
use redsyn_bridge::runtime::relay_host::RelayHost;
use redsyn_bridge::store::bridge::generation::Generation;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;

use super::pair::{Pair, Side};
use super::relay::{HANG, Relay, Say};
use super::world::{World, answer, request};
use crate::support::proxy::{Fault, When};
use crate::support::world;
use crate::support::zips::{member_of, zip_of};

const BOTH: [Generation; 2] = [Generation::V1, Generation::V2];
/// Longer than the bridge waits for any answer, with files or held.
const NO_PATIENCE: Duration = Duration::from_secs(181);

/// Lets the waiting for answers run out, which is the one thing that does not follow the test's own clock.
async fn lose_patience() {
    tokio::time::pause();
    tokio::time::advance(NO_PATIENCE).await;
    tokio::time::resume();
}

#[tokio::test]
async fn an_answer_that_never_comes_is_not_waited_for() {
    for generation in BOTH {
        let pair = Pair::new(generation, generation).await;
        let long = "long ".repeat(14_000);
        let (mut asked, mut answered) = (Vec::new(), Vec::new());
        let calls = [
            (&pair.a, Method::GET, "/key", ""),
            (&pair.a, Method::POST, "/messages", ""),
            (&pair.b, Method::GET, "/inbox/", "\"kind\""),
            (&pair.b, Method::GET, "/files", ""),
            (&pair.b, Method::POST, "/ack", ""),
        ];
        for (n, (side, method, path, containing)) in calls.into_iter().enumerate() {
            let [first, second, reply] = ["a", "b", "r"].map(|letter| format!("{letter}{n}"));
            // With something to look for in the answer, the relay has acted.
            let whens = [When::BeforeTheRelay, When::AfterTheRelay];
            let when = if containing.is_empty() { whens[n % 2] } else { When::AfterTheRelay };
            side.proxy.faults(method, path, containing, Fault::Silence(when), 1);
            pair.a.says(&first, &long, None, None, pair.now()).await;
            pair.a.says(&second, "short", Some(&first), None, pair.now()).await;
            asked.extend([first.clone(), second]);
            tokio::time::timeout(HANG, side.proxy.stopped()).await.expect(path);
            lose_patience().await;
            pair.until(path, async || pair.b.came().await >= asked.len()).await;
            pair.b.says(&reply, "yes", Some(&first), Some(&first), pair.now()).await;
            answered.push(reply);
            pair.until(path, async || pair.a.came().await >= answered.len()).await;
            pair.quiet().await;
        }
        assert_eq!((pair.b.ids().await, pair.a.ids().await), (asked, answered));
    }
}

#[tokio::test]
async fn a_slow_answer_keeps_nobody_else_waiting() {
    let pair = Pair::new(Generation::V1, Generation::V1).await;
    pair.a.proxy.fault(Method::POST, "/messages", Fault::Silence(When::AfterTheRelay));
    pair.a.says("slow", "?", None, None, pair.now()).await;
    tokio::time::timeout(HANG, pair.a.proxy.stopped()).await.unwrap();
    pair.a.says("after", "!", Some("slow"), None, pair.now()).await;
    pair.a.says("other", "?", None, None, pair.now()).await;
    pair.until("the other conversation goes on", async || pair.b.came().await == 2).await;
    assert_eq!(pair.b.ids().await, ["slow", "other"]);
    // What answers has come, whatever has become of the 201.
    pair.b.says("r1", "yes", Some("slow"), Some("slow"), pair.now()).await;
    pair.until("the answer has come", async || pair.a.came().await == 1).await;
    assert_eq!(pair.a.status("slow").await, "done");
    lose_patience().await;
    pair.until("the rest has come", async || pair.b.came().await == 3).await;
    pair.quiet().await;
    assert_eq!(pair.b.ids().await, ["slow", "other", "after"]);
    assert_eq!(pair.a.ids().await, ["r1"]);
}

/// Puts a relay in place of the pair's that knows persons, tokens and links, and nothing that happened since.
async fn forgetful(
    world: world::World,
    memory: &std::path::Path,
    generation: Generation,
) -> (Pair, std::path::PathBuf) {
    let before = memory.join("before");
    copy(&world.folder.path().join("relay"), &before);
    (Pair::with(world, generation, generation, "").await, before)
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

async fn start(folder: &std::path::Path, clock: &redsyn_bridge::domain::clock::ManualClock) -> RelayHost {
    let clock = std::sync::Arc::new(clock.clone());
    RelayHost::start(folder, "127.0.0.1:0", "the test's port", clock, SystemRandom::shared()).await.unwrap()
}

#[tokio::test]
async fn a_relay_that_was_replaced_by_an_empty_one_is_told_everything_again() {
    for generation in BOTH {
        let memory = tempfile::tempdir().unwrap();
        let mut made = world::World::new().await;
        // Closed, so that its files are whole.
        made.relay.stop().await.unwrap();
        made.relay = start(&made.folder.path().join("relay"), &made.clock).await;
        let (mut pair, before) = forgetful(made, memory.path(), generation).await;
        pair.a.says("a1", "is it paid?", None, None, pair.now()).await;
        pair.until("the request has come", async || pair.b.came().await == 1).await;
        pair.b.says("r1", "yes", Some("a1"), Some("a1"), pair.now()).await;
        pair.until("the answer has come", async || pair.a.came().await == 1).await;
        pair.quiet().await;

        // Asked while nothing stands there, in the same conversation and in another.
        pair.world.relay.stop().await.unwrap();
        pair.a.says("a2", "and 124?", Some("a1"), None, Clock::now(&pair.world.clock)).await;
        pair.a.says("a3", "and 125?", None, None, Clock::now(&pair.world.clock)).await;
        pair.world.relay = start(&before, &pair.world.clock).await;
        for side in [&pair.a, &pair.b] {
            side.proxy.redirect(pair.world.relay.address());
        }
        pair.until("all requests have come", async || pair.b.came().await == 3).await;
        for (reply, asked) in [("r2", "a2"), ("r3", "a3")] {
            let root = if asked == "a2" { "a1" } else { asked };
            pair.b.says(reply, "yes", Some(root), Some(asked), pair.now()).await;
        }
        pair.until("all answers have come", async || pair.a.came().await == 3).await;
        pair.quiet().await;
        let mut came = pair.b.ids().await;
        came[1..].sort();
        assert_eq!(came, ["a1", "a2", "a3"]);
        assert_eq!(pair.a.mail().await.len(), 3);
        for id in ["a1", "a2", "a3"] {
            assert_eq!(pair.a.status(id).await, pair.a.done(), "{id}");
        }
    }
}

#[tokio::test]
async fn a_token_that_was_revoked_and_replaced_costs_no_message() {
    for generation in BOTH {
        let mut pair = Pair::new(generation, generation).await;
        pair.a.says("a1", "is it paid?", None, None, pair.now()).await;
        pair.until("the request has come", async || pair.b.came().await == 1).await;
        pair.quiet().await;
        let other = pair.world.replace_token("ana@acme.example").await;

        pair.b.says("r1", "yes", Some("a1"), Some("a1"), pair.now()).await;
        pair.a.says("a2", "and 124?", Some("a1"), None, pair.now()).await;
        pair.until(
            "the bridge says what is wrong",
            async || matches!(pair.a.node.link.state(), LinkState::Down { why, .. } if why.contains("token")),
        )
        .await;
        assert_eq!(pair.b.ids().await, ["a1"]);
        // A call that was held before the token went may still bring the answer.
        assert!(pair.a.ids().await.iter().all(|id| id == "r1"), "nobody is told of a failure");

        let Pair { world, a, b } = pair;
        let a = a.restarted_with(&world, Some(other.expose())).await;
        pair = Pair { world, a, b };
        pair.until("both have come", async || pair.a.came().await >= 1 && pair.b.came().await >= 2).await;
        pair.a.member.token = other;
        pair.quiet().await;
        assert_eq!(
            (pair.a.ids().await, pair.b.ids().await),
            (vec!["r1".into()], vec!["a1".into(), "a2".into()])
        );
        assert_eq!(pair.a.status("a1").await, pair.a.done());
    }
}

/// A zip that is as large as one may be that is sealed.
fn five_megabytes() -> (Vec<u8>, Vec<u8>) {
    let around = zip_of(&[("noise", b"")]).len();
    let mut noise = vec![0; FILES_LIMIT - 16 - around];
    SystemRandom.fill(&mut noise);
    let zip = zip_of(&[("noise", &noise)]);
    assert_eq!(zip.len(), FILES_LIMIT - 16);
    (noise, zip)
}

#[tokio::test]
async fn five_megabytes_go_each_way() {
    for answers in BOTH {
        let pair = Pair::new(Generation::V1, answers).await;
        let (noise, zip) = five_megabytes();
        let named = async |side: &Side, id: &str| {
            let parcels = side.node.carrier.parcels().unwrap();
            let name = parcels.upload(side.agent(), zip.clone()).await.unwrap();
            let mut message = side.v1(id, pair.now());
            message.redsyn = Some(json!({ "files": name }));
            message
        };
        let fetched = async |side: &Side, id: &str| {
            let zip = side.node.carrier.parcels().unwrap().files(side.agent(), DshId::new(id)).await.unwrap();
            member_of(&zip, "noise")
        };
        let ask = named(&pair.a, "m1").await;
        pair.a.node.carrier.send(ask).await.unwrap();
        pair.until("the request has come", async || pair.b.came().await == 1).await;
        assert!(fetched(&pair.b, "m1").await == noise);
        // Only the first generation can name files.
        let mut reply = named(&pair.b, "r1").await;
        reply.kind = redsyn_bridge::proto::dsh::v1::envelope::Kind::Reply;
        reply.parent_id = Some(JsonText::from(&json!("m1")));
        if answers == Generation::V1 {
            pair.b.node.carrier.send(reply).await.unwrap();
            pair.until("the answer has come", async || pair.a.came().await == 1).await;
            assert!(fetched(&pair.a, "r1").await == noise);
            assert_eq!(pair.a.status("m1").await, "done");
        }
        pair.quiet().await;
        let thread = pair.a.thread(&pair.world, "m1").await;
        assert!(thread[0]["files"]["bytes"] == json!(FILES_LIMIT), "{:?}", thread[0]["files"]);
    }
}

#[tokio::test]
async fn ten_thousand_messages_that_waited_for_the_relay_all_arrive_once_and_in_order() {
    const CONVERSATIONS: usize = 100;
    const EACH: usize = 100;
    let mut world = World::scripted(
        "encrypt: never\nagents: {close: {hold: true, allow: [org:globex]}}",
        |relay: &Relay| {
            relay.script("PUT /nodes/key", Say::error(503, "away"));
        },
    )
    .await;
    world.relay.called("PUT /nodes/key", 1).await;
    for round in 0..EACH {
        let messages = (0..CONVERSATIONS).map(|conversation| {
            let id = format!("{conversation}-{round}");
            if round == 0 {
                return request(&id);
            }
            answer(&id, &format!("{conversation}-0"), redsyn_bridge::proto::dsh::v1::envelope::Kind::Request)
        });
        let sends = messages.map(|message| world.try_send(message));
        for sent in futures_util::future::join_all(sends).await {
            assert!(!sent.unwrap().duplicate);
        }
    }
    assert!(world.posted().is_empty());
    let mut left = CONVERSATIONS * EACH;
    world.clock.advance(Duration::from_secs(61));
    while left > 0 {
        match tokio::time::timeout(HANG, world.events.recv()).await.expect("the outbox does not drain") {
            Ok(Event::Accepted { .. }) => left -= 1,
            Ok(other) => panic!("{other:?}"),
            Err(RecvError::Lagged(missed)) => left -= usize::try_from(missed).unwrap(),
            Err(RecvError::Closed) => panic!("the bridge ended"),
        }
    }
    world.holds("SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM outbox)").await;
    let mut next = vec![0; CONVERSATIONS];
    for envelope in world.posted() {
        let (conversation, round) = envelope["id"].as_str().unwrap().split_once('-').unwrap();
        let conversation: usize = conversation.parse().unwrap();
        assert_eq!(round, next[conversation].to_string(), "of conversation {conversation}");
        let thread = (next[conversation] > 0).then(|| format!("{conversation}-0"));
        assert_eq!(envelope.get("thread").and_then(Value::as_str), thread.as_deref());
        next[conversation] += 1;
    }
    assert!(next.iter().all(|count| *count == EACH), "{next:?}");
    assert!(world.inbox().await.is_empty(), "nobody is told of tries");
}
