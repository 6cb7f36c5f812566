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
        // The call may be the one after the last that was needed.
        let what = format!("{fault:?} of {path}: it was met");
        pair.until(&what, async || proxy.suffered() - before == usize::from(fault.is_some())).await;
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

/// Three requests of which the second is taken back, once for each fault of that call and twice in a row: while the
/// relay has it, and while our bridge does not know whether it has.
async fn withdrawals(generation: Generation) {
    let pair = Pair::new(generation, generation).await;
    // Nobody takes anything until all is said.
    pair.b.proxy.faults(Method::GET, "/inbox/", "", Fault::Cut(When::BeforeTheRelay), usize::MAX);
    pair.until("nothing is taken", async || pair.b.proxy.suffered() > 0).await;
    let mut kept = Vec::new();
    for (n, fault) in faults().into_iter().enumerate() {
        let lost = [None, Some(When::BeforeTheRelay), Some(When::AfterTheRelay)];
        for (m, lost) in lost.into_iter().enumerate() {
            let [first, second, third] = ["a", "b", "c"].map(|letter| format!("{letter}{n}-{m}"));
            pair.a.says(&first, "?", None, None, pair.now()).await;
            let what = format!("{fault:?}: the first has left");
            pair.until(&what, async || pair.a.status(&first).await == "leased").await;
            let suffered = pair.a.proxy.suffered();
            if let Some(when) = lost {
                pair.a.proxy.faults(Method::POST, "/messages", "\"thread\"", Fault::Cut(when), 1);
            }
            pair.a.says(&second, "never mind", Some(&first), None, pair.now()).await;
            match lost {
                None => pair.until(&what, async || pair.a.status(&second).await == "leased").await,
                Some(_) => pair.until(&what, async || pair.a.proxy.suffered() > suffered).await,
            }
            pair.a.proxy.fault(Method::POST, "/cancel", fault.clone());
            // A 404 is one whatever else it says: then the relay has never had it.
            if let Err(refused) = pair.a.withdraws(&second).await {
                assert_eq!(refused.status(), 503, "{fault:?}, {lost:?}: nobody knows");
                pair.a.withdraws(&second).await.unwrap();
            }
            pair.a.says(&third, "this", Some(&first), None, pair.now()).await;
            pair.until(&what, async || pair.a.status(&third).await == "leased").await;
            assert_eq!(pair.a.status(&second).await, "failed", "{fault:?}, {lost:?}");
            kept.extend([first, third]);
        }
    }
    pair.b.proxy.heal();
    pair.until("what was not taken back has come", async || pair.b.came().await >= kept.len()).await;
    pair.quiet().await;
    let (mut came, mut kept) = (pair.b.ids().await, kept);
    // One conversation does not wait for another.
    came.sort();
    kept.sort();
    assert_eq!(came, kept);
    assert!(pair.a.ids().await.is_empty(), "whoever takes something back knows that it failed");
}

#[tokio::test]
async fn the_withdrawal_of_a_request() {
    withdrawals(Generation::V1).await;
}

#[tokio::test]
async fn the_withdrawal_of_a_request_of_the_second_generation() {
    withdrawals(Generation::V2).await;
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
