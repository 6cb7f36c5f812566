//! Everything that a network and an overloaded relay can do to each call of a bridge, with a real relay behind it and in
//! both generations: nothing lost, nothing twice, and the order of a conversation kept.

use std::time::Duration;

use axum::http::Method;
use redsyn_bridge::proto::redsyn::ids::LEASE_DEFAULT_SECS;
use redsyn_bridge::relay::metrics::Counter;
use redsyn_bridge::store::bridge::generation::Generation;

use super::pair::{Mail, Pair};
use crate::support::proxy::{Fault, When};
use crate::support::world::World;

/// What can become of a call that is worth another try.
fn faults() -> Vec<Fault> {
    let refuse = |when, status, retry_after| Fault::Refuse { when, status, retry_after };
    vec![
        Fault::Cut(When::BeforeTheRelay),
        Fault::Cut(When::AfterTheRelay),
        refuse(When::BeforeTheRelay, 500, None),
        refuse(When::BeforeTheRelay, 502, None),
        refuse(When::BeforeTheRelay, 503, Some("7")),
        refuse(When::AfterTheRelay, 503, None),
        refuse(When::BeforeTheRelay, 429, None),
        refuse(When::BeforeTheRelay, 429, Some("40")),
        Fault::Truncate,
        Fault::Replace(b"<html>"),
        Fault::Replace(b"{\"items\": [{\"v\": 1,"),
    ]
}

/// Which bridge makes the call that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    Asks,
    Answers,
}

/// Two requests of one conversation, the first with a body that travels in a zip, and an answer to it: once without a
/// fault, and once for each.
async fn through(
    generation: Generation,
    caller: Caller,
    method: Method,
    path: &'static str,
    containing: &'static str,
) {
    let pair = Pair::new(generation, generation).await;
    let long = "long ".repeat(14_000);
    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    let none: [Option<Fault>; 1] = [None];
    for (n, fault) in none.into_iter().chain(faults().into_iter().map(Some)).enumerate() {
        let proxy = if caller == Caller::Asks { &pair.a.proxy } else { &pair.b.proxy };
        let before = proxy.suffered();
        if let Some(fault) = &fault {
            proxy.faults(method.clone(), path, containing, fault.clone(), 1);
        }
        let [first, second, reply] = ["a", "b", "r"].map(|letter| format!("{letter}{n}"));
        pair.a.says(&first, &long, None, None, pair.now()).await;
        pair.a.says(&second, "short", Some(&first), None, pair.now()).await;
        asked.extend([(first.clone(), long.clone(), None), (second.clone(), "short".to_owned(), None)]);
        let what = format!("{fault:?} of {path}: both requests have come");
        pair.until(&what, async || pair.b.came().await >= asked.len()).await;
        pair.b.says(&reply, "yes", Some(&first), Some(&first), pair.now()).await;
        answered.push((reply, "yes".to_owned(), Some(first.clone())));
        let what = format!("{fault:?} of {path}: the answer has come");
        pair.until(&what, async || pair.a.came().await >= answered.len()).await;
        pair.quiet().await;
        assert_eq!(proxy.suffered() - before, usize::from(fault.is_some()), "{fault:?} of {path}");
        assert_eq!(pair.a.status(&first).await, pair.a.done(), "{fault:?}");
        assert_eq!(pair.a.status(&second).await, "leased", "{fault:?}");
        assert_eq!(pair.a.thread(&pair.world, &first).await.len(), 3, "{fault:?}");
    }
    if path == "/ack" {
        // What was not acked comes again now, and not after this.
        pair.world.clock.advance(Duration::from_secs(LEASE_DEFAULT_SECS));
        pair.a.says("a", "last", None, None, pair.now()).await;
        asked.push(("a".to_owned(), "last".to_owned(), None));
        pair.until("the last request has come", async || pair.b.came().await >= asked.len()).await;
        pair.b.says("r", "yes", Some("a"), Some("a"), pair.now()).await;
        answered.push(("r".to_owned(), "yes".to_owned(), Some("a".to_owned())));
        pair.until("the last answer has come", async || pair.a.came().await >= answered.len()).await;
        let taken = usize::try_from(pair.world.service.metrics().get(Counter::MessagesTaken)).unwrap();
        assert_eq!(taken, asked.len() + answered.len(), "an ack was not tried again in time");
    }
    let ids = |mail: &[Mail]| mail.iter().map(|(id, ..)| id.clone()).collect::<Vec<_>>();
    let (came, back) = (pair.b.mail().await, pair.a.mail().await);
    assert_eq!((ids(&came), ids(&back)), (ids(&asked), ids(&answered)));
    assert!(came == asked && back == answered, "what came is not what was said");
}

macro_rules! calls {
    ($($name:ident: $caller:ident $method:ident $path:literal $containing:literal;)*) => {
        mod first_generation {
            use super::*;
            $(#[tokio::test]
            async fn $name() {
                through(Generation::V1, Caller::$caller, Method::$method, $path, $containing).await;
            })*
        }

        mod second_generation {
            use super::*;
            $(#[tokio::test]
            async fn $name() {
                through(Generation::V2, Caller::$caller, Method::$method, $path, $containing).await;
            })*
        }
    };
}

calls! {
    the_key_of_the_recipient: Asks GET "/key" "";
    the_request: Asks POST "/messages" "";
    the_answer: Answers POST "/messages" "";
    the_take_of_a_request: Answers GET "/inbox/" "";
    the_take_of_the_answer: Asks GET "/inbox/" "";
    the_files: Answers GET "/files" "";
    the_ack_of_a_request: Answers POST "/ack" "";
    the_ack_of_the_answer: Asks POST "/ack" "";
}

#[tokio::test]
async fn the_introduction_of_a_node() {
    let world = World::new().await;
    let mut pair = Pair::with(world, Generation::V1, Generation::V1, ", topics: [general/news]").await;
    let mut asked = Vec::new();
    for path in ["/nodes/key", "/agents/", "/subscriptions"] {
        for fault in faults() {
            pair.a.proxy.fault(Method::PUT, path, fault);
            let Pair { world, a, b } = pair;
            let (a, suffered) = (a.restarted(&world).await, asked.len() + 1);
            pair = Pair { world, a, b };
            let id = format!("m{}", asked.len());
            pair.a.says(&id, "?", None, None, pair.now()).await;
            asked.push(id);
            pair.until(path, async || pair.b.came().await >= asked.len()).await;
            assert_eq!(pair.a.proxy.suffered(), suffered, "{path}");
        }
    }
    pair.quiet().await;
    assert_eq!(pair.b.ids().await, asked);
    assert!(pair.a.ids().await.is_empty());
}
