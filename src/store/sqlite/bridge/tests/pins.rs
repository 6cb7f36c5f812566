//! Pins, and the addresses that are never sent plain text again.

use super::*;
use crate::store::bridge::{Landed, Pins};

fn bob() -> Person {
    "globex/bob".parse().unwrap()
}

fn verifying(seed: u8) -> crate::crypto::sign::VerifyingKey {
    key(seed).parse().unwrap()
}

fn signed(text: &str, seed: u8) -> Arrival {
    Arrival { signer: Some(key(seed)), ..arrival(text, Kind::Request) }
}

#[tokio::test]
async fn the_first_key_is_pinned_with_its_message_and_another_one_is_held() {
    let node = Node::new();
    assert!(!node.store.has_pin(bob()).await.unwrap());
    assert_eq!(node.store.arrive(signed("q1", 1), |_| ()).await.unwrap(), Landed::Delivered);

    let node = node.reopened().await;
    assert!(node.store.has_pin(bob()).await.unwrap());
    assert_eq!(node.store.arrive(signed("q2", 2), |_| ()).await.unwrap(), Landed::Held);
    assert_eq!(node.inbox_ids().await, ["q1"]);
    for table in [
        "SELECT count(*) FROM seen WHERE id = 'q2'",
        "SELECT count(*) FROM bridged WHERE id = 'q2'",
        "SELECT count(*) FROM held",
    ] {
        assert_eq!(node.one::<i64>(table).await, 0, "{table}");
    }
    assert_eq!(
        node.store.arrive(signed("q1", 2), |_| ()).await.unwrap(),
        Landed::Seen,
        "what was delivered stays so"
    );
    assert_eq!(node.store.arrive(signed("q3", 1), |_| ()).await.unwrap(), Landed::Delivered);
}

#[tokio::test]
async fn a_message_that_is_not_kept_pins_nobody() {
    let node = Node::new();
    let unasked = Arrival { signer: Some(key(1)), ..reply("r1", &id("never asked")) };
    assert_eq!(node.store.arrive(unasked, |_| ()).await.unwrap(), Landed::Unasked);
    assert!(!node.store.has_pin(bob()).await.unwrap());
    assert_eq!(node.pin_state(bob(), verifying(1)).await, PinState::First);
    assert!(!node.store.has_pin(bob()).await.unwrap(), "to ask is not to pin");
}

#[tokio::test]
async fn a_key_that_the_relay_gives_is_pinned_like_one_that_signs() {
    let node = Node::new();
    let pin = |address: &str, seed| node.store.pin_recipient(address.parse().unwrap(), verifying(seed), NOW);
    assert_eq!(pin(BOB, 1).await.unwrap(), PinState::First);
    assert_eq!(pin(BOB, 1).await.unwrap(), PinState::Known { verified: false });
    assert_eq!(pin("globex/ops/bob/other", 2).await.unwrap(), PinState::Other, "pins are of the person");
    assert_eq!(pin(EVA, 2).await.unwrap(), PinState::First);

    let node = node.reopened().await;
    let was_sealed = |address: &str| node.store.was_sealed(address.parse().unwrap());
    assert!(was_sealed(BOB).await.unwrap());
    assert!(!was_sealed("globex/ops/bob/other").await.unwrap(), "a key that is not accepted seals nothing");
    node.execute("UPDATE pins SET verified = 1 WHERE person = 'globex/bob'").await;
    let state = node.pin_state(bob(), verifying(1)).await;
    assert_eq!(state, PinState::Known { verified: true });
}

#[tokio::test]
async fn an_entry_comes_with_its_recipients_pins_once_the_address_had_a_key() {
    let node = Node::new();
    node.depart(request("m1")).await;
    let pins = async || node.entry("m1").await.sealed_for;
    node.execute("INSERT INTO pins (person, key, since) VALUES ('globex/bob', 'k', 0)").await;
    assert_eq!(pins().await, None, "that the address has a key is still to be noted");
    node.store.pin_recipient(BOB.parse().unwrap(), verifying(1), NOW).await.unwrap();
    assert_eq!(pins().await, None, "another key than the pinned one is not noted");
    node.execute("DELETE FROM pins").await;
    node.store.pin_recipient(BOB.parse().unwrap(), verifying(1), NOW).await.unwrap();
    assert_eq!(pins().await, Some(Pins(vec![(verifying(1).to_string(), false)])));
}
