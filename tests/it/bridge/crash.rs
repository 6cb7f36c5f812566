//! SIGKILL at each moment that matters, on either side. Afterwards the message is there once and its answer once.
//! The relay lives in this process with a clock that is moved past the lease, as a quarter of an hour would.

use std::time::Duration;

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::bridge::BridgeProcess;
use crate::support::proxy::{Proxy, Stop, When};
use crate::support::world::{Member, World, base};

/// Longer than the 900 s of a take.
const PAST_THE_LEASE: Duration = Duration::from_secs(901);

/// Which bridge is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// The one that sends the request and takes the reply.
    Close,
    /// The one that takes the request and sends the reply.
    Billing,
}

/// When it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    AfterTheLocal201,
    AfterTheRelays201,
    AfterTheTake,
    AfterTheLocalCommit,
}

impl Moment {
    fn stop(self) -> Stop {
        let (method, path, when, containing) = match self {
            Self::AfterTheLocal201 => (Method::POST, "/messages", When::BeforeTheRelay, ""),
            Self::AfterTheRelays201 => (Method::POST, "/messages", When::AfterTheRelay, ""),
            Self::AfterTheTake => (Method::GET, "/inbox/", When::AfterTheRelay, "\"kind\""),
            Self::AfterTheLocalCommit => (Method::POST, "/ack", When::BeforeTheRelay, ""),
        };
        Stop { method, path, when, containing }
    }

    const fn is_of_taking(self) -> bool {
        matches!(self, Self::AfterTheTake | Self::AfterTheLocalCommit)
    }
}

/// The bridge that is killed speaks to the relay through the proxy.
async fn start(
    world: &World,
    storage: &str,
    (member, other): (&Member, &Member),
    through: Option<&Proxy>,
) -> BridgeProcess {
    let url = through.map_or_else(|| world.url(), |proxy| base(proxy.address));
    let bridge = BridgeProcess::start_on(storage, &world.folder.path().join(member.org), member, other, &url);
    bridge.register().await;
    bridge
}

/// Kills the bridge at the moment, moves time on where a lease is out, and starts it again.
async fn crash(world: &World, proxy: &Proxy, bridge: &mut BridgeProcess, moment: Moment) {
    tokio::time::timeout(Duration::from_secs(60), proxy.stopped()).await.expect("the moment never came");
    bridge.kill();
    if moment.is_of_taking() {
        world.clock.advance(PAST_THE_LEASE);
    }
    bridge.restart();
    bridge.register().await;
}

async fn exchange(storage: &str, side: Side, moment: Moment) {
    let world = World::new().await;
    let proxy = Proxy::start(world.relay.address()).await;
    let through = |of: Side| (of == side).then_some(&proxy);
    let mut close = start(&world, storage, (&world.ana, &world.bob), through(Side::Close)).await;
    let mut billing = start(&world, storage, (&world.bob, &world.ana), through(Side::Billing)).await;
    let crashes_with_the_request =
        matches!((side, moment.is_of_taking()), (Side::Close, false) | (Side::Billing, true));

    if crashes_with_the_request {
        proxy.stop_at(moment.stop());
    }
    let id =
        close.send(&json!({"to": world.bob.address(), "kind": "request", "body": {"text": "once?"}})).await;
    if crashes_with_the_request {
        let bridge = if side == Side::Close { &mut close } else { &mut billing };
        crash(&world, &proxy, bridge, moment).await;
    }
    let request = billing.pull_one().await;
    assert_eq!(request["id"], json!(id));

    if !crashes_with_the_request {
        proxy.stop_at(moment.stop());
    }
    let reply = json!({"to": request["from"], "kind": "reply", "parentId": id, "body": {"text": "once."}});
    let reply_id = billing.send(&reply).await;
    billing.ack(&request).await;
    if !crashes_with_the_request {
        let bridge = if side == Side::Close { &mut close } else { &mut billing };
        crash(&world, &proxy, bridge, moment).await;
    }
    let answer = close.pull_one().await;
    assert_eq!(answer["id"], json!(reply_id));
    close.ack(&answer).await;

    // Whatever the relay would still deliver, it delivers now.
    world.clock.advance(PAST_THE_LEASE);
    drained(&world, &world.ana).await;
    drained(&world, &world.bob).await;
    only(&billing, &id, "once?").await;
    only(&close, &reply_id, "once.").await;
    assert_eq!(close.status(&id).await["status"], json!("done"));
    let client = world.ana.relay(&world.url(), std::sync::Arc::new(world.clock.clone()));
    let thread = client.get(&format!("/threads/{id}")).await.unwrap();
    assert_eq!(thread["items"].as_array().unwrap().len(), 2, "{thread}");
}

/// Waits until nothing waits at the relay for the member's agent: its bridge has acked everything.
async fn drained(world: &World, member: &Member) {
    let client = member.relay(&world.url(), std::sync::Arc::new(world.clock.clone()));
    let empty = async {
        // `peek` neither takes nor counts as a sign of life.
        while !client.get(&format!("/inbox/{}?peek=1", member.address())).await.unwrap()["items"]
            .as_array()
            .unwrap()
            .is_empty()
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), empty).await.expect("mail stays at the relay");
}

/// The agent has been sent this one message and no other.
async fn only(bridge: &BridgeProcess, id: &str, text: &str) {
    let received: Vec<Value> =
        bridge.recent().await.into_iter().filter(|message| message["to"] == json!(bridge.agent)).collect();
    assert_eq!(received.len(), 1, "{received:#?}");
    assert_eq!((&received[0]["id"], &received[0]["body"]), (&json!(id), &json!({"text": text})));
}

macro_rules! crashes {
    ($($name:ident: $side:ident $moment:ident;)*) => {
        $(#[tokio::test]
        async fn $name() {
            exchange("sqlite", Side::$side, Moment::$moment).await;
        })*

        /// The same where each bridge keeps its mail in lines and its outbox in others.
        mod in_lines {
            use super::*;

            $(#[tokio::test]
            async fn $name() {
                exchange("jsonl", Side::$side, Moment::$moment).await;
            })*
        }
    };
}

crashes! {
    the_asking_side_after_its_local_201: Close AfterTheLocal201;
    the_asking_side_after_the_relays_201: Close AfterTheRelays201;
    the_asking_side_after_taking_the_reply: Close AfterTheTake;
    the_asking_side_after_keeping_the_reply: Close AfterTheLocalCommit;
    the_answering_side_after_taking_the_request: Billing AfterTheTake;
    the_answering_side_after_keeping_the_request: Billing AfterTheLocalCommit;
    the_answering_side_after_its_local_201: Billing AfterTheLocal201;
    the_answering_side_after_the_relays_201: Billing AfterTheRelays201;
}
