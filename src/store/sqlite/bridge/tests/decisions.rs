//! What a person decides about keys, and what that sets free.

use super::*;
use crate::store::bridge::{Acceptance, Confirmation, Held, Landed, Released, WaitsFor};
use crate::store::sqlite::bridge::{HELD_BYTES_PER_PERSON, HELD_PER_PERSON};

fn bob() -> Person {
    "globex/bob".parse().unwrap()
}

fn verifying(seed: u8) -> VerifyingKey {
    key(seed).parse().unwrap()
}

fn held(text: &str, key: Option<String>, since: u64) -> Held {
    let envelope = json!({
        "v": 1, "id": text, "kind": "request", "from": format!("{BOB}#s9"), "to": "acme/finance/ana/close#s4",
        "thread": "t1", "reply_to": null, "ts": 1, "body": {"type": "text/plain", "text": "hi"}, "refs": [],
        "files": null, "error": false, "sig": null, "signed": false, "expires": 2, "attempts": 1,
    });
    let reason = "another key".to_owned();
    Held {
        agent: close(),
        id: id(text),
        person: bob(),
        reason,
        envelope,
        key,
        waits_for: WaitsFor::Acceptance,
        zip: None,
        leased_until: Some(after(since + 900)),
        now: after(since),
    }
}

/// Bob is known by key 1; a message of his with key 2 and an unsigned one wait.
async fn with_held() -> Node {
    let node = Node::new();
    node.store
        .arrive(Arrival { signer: Some(key(1)), ..arrival("q1", Kind::Request) }, |_| ())
        .await
        .unwrap();
    node.store.hold_arrival(held("q2", Some(key(2)), 1)).await.unwrap();
    node.store.hold_arrival(held("q3", None, 2)).await.unwrap();
    node.reopened().await
}

async fn released(node: &Node) -> Vec<String> {
    node.store.released().await.unwrap().into_iter().map(|held| held.id.to_string()).collect()
}

#[tokio::test]
async fn accepting_a_key_sets_free_what_waits_for_it_and_nothing_else() {
    let node = with_held().await;
    node.depart(request("m1")).await;
    let entry = node.entry("m1").await;
    node.store.hold(entry, "another key".into(), Some(verifying(2)), NOW).await.unwrap();
    assert!(released(&node).await.is_empty());
    let accepted = node.store.accept_key(bob(), None, after(5)).await.unwrap();
    let fingerprint = verifying(2).fingerprint();
    let free = Released { inbound: 1, outbound: 1 };
    assert_eq!(accepted, Acceptance::Accepted { fingerprint, released: free });

    let node = node.reopened().await;
    assert_eq!(released(&node).await, ["q2"], "a crash does not lose the decision");
    assert_eq!(node.due_at(after(5)).await.len(), 1);
    let arrives = Arrival { signer: Some(key(2)), now: after(9), ..arrival("q2", Kind::Request) };
    assert_eq!(node.store.arrive(arrives, |_| ()).await.unwrap(), Landed::Delivered);
    assert!(released(&node).await.is_empty(), "what is delivered is not held any more");
    assert_eq!(node.status("q2").await.stages.held, Some(after(1)));
    assert_eq!(node.store.pins().await.unwrap().len(), 2, "pins are a set");
}

#[tokio::test]
async fn what_goes_on_keeps_its_order_and_is_not_overtaken() {
    let node = with_held().await;
    // In one moment, and not in the order of their ids.
    node.store.hold_arrival(held("p9", Some(key(2)), 2)).await.unwrap();
    node.store.hold_arrival(held("p1", Some(key(2)), 2)).await.unwrap();
    let arrives =
        |text: &str| Arrival { signer: Some(key(1)), now: after(9), ..arrival(text, Kind::Request) };
    assert_eq!(
        node.store.arrive(arrives("k1"), |_| ()).await.unwrap(),
        Landed::Delivered,
        "nothing is decided yet"
    );
    node.store.accept_key(bob(), None, after(5)).await.unwrap();
    assert_eq!(released(&node).await, ["q2", "p9", "p1"]);
    let other = Arrival { thread: Some("t2".into()), ..arrives("k2") };
    assert_eq!(node.store.arrive(other, |_| ()).await.unwrap(), Landed::Delivered, "of another conversation");
    let unsigned = Arrival { signer: None, ..arrives("k3") };
    for arrival in [arrives("p9"), arrives("k4"), unsigned] {
        assert_eq!(node.store.arrive(arrival, |_| ()).await.unwrap(), Landed::Behind);
    }
    let holding =
        node.store.hold_arrival(Held { waits_for: WaitsFor::Earlier, ..held("k3", None, 9) }).await.unwrap();
    assert!(holding.goes_on);
    for text in ["q2", "p9", "p1"] {
        assert_eq!(node.store.arrive(arrives(text), |_| ()).await.unwrap(), Landed::Delivered);
    }
    assert_eq!(released(&node).await, ["k3"], "it goes on by itself");
    assert_eq!(node.store.arrive(arrives("k3"), |_| ()).await.unwrap(), Landed::Delivered);
    assert_eq!(node.store.arrive(arrives("k4"), |_| ()).await.unwrap(), Landed::Delivered);
}

#[tokio::test]
async fn with_several_keys_a_person_says_which() {
    let node = with_held().await;
    node.store.hold_arrival(held("q4", Some(key(3)), 3)).await.unwrap();
    let print = |seed| verifying(seed).fingerprint();
    let asked = node.store.accept_key(bob(), None, NOW).await.unwrap();
    assert_eq!(asked, Acceptance::WhichOne(vec![print(2), print(3)]));
    let wrong = node.store.accept_key(bob(), Some(print(9)), NOW).await.unwrap();
    assert_eq!(wrong, Acceptance::WhichOne(vec![print(2), print(3)]));
    let loosely = print(3).replace(':', "").to_uppercase();
    node.store.accept_key(bob(), Some(loosely), NOW).await.unwrap();
    assert_eq!(released(&node).await, ["q4"]);
    let nobody = node.store.accept_key("globex/eva".parse().unwrap(), None, NOW).await.unwrap();
    assert_eq!(nobody, Acceptance::NothingWaits);
}

#[tokio::test]
async fn unsigned_mail_waits_for_a_decision_of_its_own() {
    let node = with_held().await;
    assert!(node.store.must_sign(bob(), false).await.unwrap());
    let free = node.store.allow_unsigned(bob(), NOW).await.unwrap();
    assert_eq!(free, Released { inbound: 1, outbound: 0 });
    let node = node.reopened().await;
    assert!(!node.store.must_sign(bob(), false).await.unwrap());
    assert_eq!(released(&node).await, ["q3"]);
    // It was judged before the decision, and is kept after it.
    node.store.hold_arrival(held("q5", None, 5)).await.unwrap();
    assert_eq!(released(&node).await, ["q3", "q5"]);
    assert!(node.store.pins().await.unwrap()[0].may_be_unsigned);
}

#[tokio::test]
async fn what_is_rejected_is_answered_once_and_gone() {
    let node = with_held().await;
    let dropped = node.store.reject_held(bob(), after(5)).await.unwrap();
    assert_eq!(dropped, [(close(), id("q2")), (close(), id("q3"))]);
    let node = node.reopened().await;
    assert!(node.store.held_in().await.unwrap().is_empty());
    assert!(node.is_seen(close(), "q2").await, "so that the next delivery is acked");
    let due = node.due_at(after(5)).await;
    assert_eq!(due.len(), 1, "the second waits behind the first");
    assert!(due[0].error && due[0].reply_to == Some(id("q2")));
    assert!(body_of(&due[0])["text"].as_str().unwrap().contains("rejected"));
    assert!(node.store.reject_held(bob(), after(6)).await.unwrap().is_empty());
    // A judgement that was made before: nothing is held twice.
    node.store.hold_arrival(held("q2", Some(key(2)), 7)).await.unwrap();
    assert!(node.store.held_in().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_stranger_cannot_fill_the_disk_with_held_mail() {
    let node = with_held().await;
    let most = u64::try_from(HELD_PER_PERSON).unwrap();
    let mut dropped = Vec::new();
    for n in 0..most {
        let holding = node.store.hold_arrival(held(&format!("f{n}"), Some(key(2)), 10 + n)).await.unwrap();
        dropped.extend(holding.dropped);
    }
    assert_eq!(dropped, [id("q2"), id("q3")], "the oldest first");
    assert_eq!(node.store.depths().await.unwrap().held_in, HELD_PER_PERSON);
    let why = body_of(&node.due_at(after(1000)).await[0])["text"].clone();
    assert!(why.as_str().unwrap().contains("newer messages of globex/bob"), "{why}");
}

#[tokio::test]
async fn plain_text_is_allowed_for_an_address_or_for_all_of_a_person() {
    let node = Node::new();
    let others = "globex/ops/bob/other";
    for address in [BOB, others, EVA] {
        let seed = if address == EVA { 2 } else { 1 };
        node.store.pin_recipient(address.parse().unwrap(), verifying(seed), NOW).await.unwrap();
    }
    node.depart(request("m1")).await;
    node.store.hold(node.entry("m1").await, "no key any more".into(), None, NOW).await.unwrap();
    let sealed = |address: &str| node.store.was_sealed(address.parse().unwrap());
    let one = Some(BOB.parse().unwrap());
    let free = node.store.allow_plain(bob(), one, NOW).await.unwrap();
    assert_eq!(free, Some(Released { inbound: 0, outbound: 1 }));
    assert!(!sealed(BOB).await.unwrap() && sealed(others).await.unwrap() && sealed(EVA).await.unwrap());
    assert_eq!(node.store.allow_plain(bob(), None, NOW).await.unwrap(), Some(Released::default()));
    assert!(!sealed(others).await.unwrap() && sealed(EVA).await.unwrap());
    assert_eq!(node.store.allow_plain(bob(), None, NOW).await.unwrap(), None, "nothing is left to allow");
}

#[tokio::test]
async fn only_a_key_that_is_pinned_or_waited_for_is_confirmed() {
    let node = with_held().await;
    let print = |seed| verifying(seed).fingerprint();
    let confirm = async |seed| node.store.confirm_key(bob(), print(seed), NOW).await.unwrap();
    let known: Vec<String> = [1, 2].map(print).to_vec();
    assert_eq!(confirm(9).await, Confirmation::Unknown(known));
    let none = Released::default();
    assert_eq!(confirm(1).await, Confirmation::Confirmed { fingerprint: print(1), released: none });
    assert!(released(&node).await.is_empty());
    let one = Released { inbound: 1, outbound: 0 };
    assert_eq!(confirm(2).await, Confirmation::Confirmed { fingerprint: print(2), released: one });
    assert_eq!(released(&node).await, ["q2"]);
    let pins = node.store.pins().await.unwrap();
    assert!(pins.len() == 2 && pins.iter().all(|pin| pin.verified));
}

#[tokio::test]
async fn what_waits_for_a_confirmation_goes_on_with_nothing_less() {
    let node = with_held().await;
    let waits = |id, seed| Held { waits_for: WaitsFor::Confirmation, ..held(id, Some(key(seed)), 20) };
    let goes_on = async |id, seed| node.store.hold_arrival(waits(id, seed)).await.unwrap().goes_on;
    assert!(!goes_on("c1", 1).await, "pinned and not confirmed");
    node.store.accept_key(bob(), Some(verifying(2).fingerprint()), NOW).await.unwrap();
    assert!(!goes_on("c2", 2).await, "accepted and not confirmed");
    node.store.confirm_key(bob(), verifying(1).fingerprint(), NOW).await.unwrap();
    assert_eq!(released(&node).await, ["q2", "c1"]);
    assert!(goes_on("c3", 1).await && !goes_on("c4", 2).await);
}

#[tokio::test]
async fn a_message_is_traced_by_either_id() {
    let node = with_held().await;
    node.depart(departure("odd id", LocalKind::Request)).await;
    let entry = node.due().await.remove(0);
    node.store.postpone(entry.seq, after(7), "the relay is away".into()).await.unwrap();
    for text in ["odd id", entry.id.as_str()] {
        let traced = node.store.trace(text.to_owned(), vec![close()]).await.unwrap();
        let [one] = traced.as_slice() else { panic!("{traced:?}") };
        assert_eq!((one.local_id.as_str(), &one.crossed.as_ref().unwrap().id), ("odd id", &entry.id));
        assert_eq!(one.local.as_ref().unwrap().stored, NOW);
        assert_eq!(one.waiting.as_ref().unwrap().why.as_deref(), Some("the relay is away"));
    }
    let held = node.store.trace("q2".into(), vec![close()]).await.unwrap();
    assert_eq!(held[0].held, Some(("another key".into(), after(1))));
    assert!(node.store.trace("nobody".into(), vec![close()]).await.unwrap().is_empty());
}

#[tokio::test]
async fn files_of_held_mail_are_kept_up_to_a_limit_and_go_with_it() {
    let node = with_held().await;
    let bytes = |len: usize| u64::try_from(len).unwrap();
    let room = async |text: &str, len: usize| {
        node.store.has_room_for_files(close(), id(text), bob(), bytes(len)).await.unwrap()
    };
    let half = HELD_BYTES_PER_PERSON / 2 + 1;
    let with = |text: &str, len: usize| Held { zip: Some(vec![7; len]), ..held(text, Some(key(2)), 3) };
    assert!(room("q2", HELD_BYTES_PER_PERSON).await && !room("q2", HELD_BYTES_PER_PERSON + 1).await);
    node.store.hold_arrival(with("q2", half)).await.unwrap();
    assert!(!room("q2", 1).await, "they are kept already");
    assert!(room("q4", half - 2).await && !room("q4", half).await);
    node.store.hold_arrival(with("q4", half)).await.unwrap();
    assert_eq!(node.store.held_zip(close(), id("q4")).await.unwrap(), None, "one too many");
    // What comes again without them keeps them.
    node.store.hold_arrival(held("q2", Some(key(2)), 4)).await.unwrap();
    assert_eq!(node.store.held_zip(close(), id("q2")).await.unwrap().map(|zip| zip.len()), Some(half));
    node.store.reject_held(bob(), after(5)).await.unwrap();
    assert_eq!(node.one::<i64>("SELECT count(*) FROM held_files").await, 0);
}

#[tokio::test]
async fn held_mail_comes_back_when_its_lease_is_over() {
    let node = with_held().await;
    let back = async |secs: u64| node.store.held_back(close(), after(secs)).await.unwrap();
    assert_eq!(back(0).await, Some(after(901)), "the first of them");
    assert_eq!(back(901).await, Some(after(902)), "that one has been looked for");
    let again = |leased_until| Held { leased_until, ..held("q2", Some(key(2)), 1) };
    node.store.hold_arrival(again(Some(after(5000)))).await.unwrap();
    node.store.hold_arrival(again(None)).await.unwrap();
    assert_eq!((back(902).await, back(5000).await), (Some(after(5000)), None));
    let other = AgentName::parse("shout").unwrap();
    assert_eq!(node.store.held_back(other, NOW).await.unwrap(), None);
}
