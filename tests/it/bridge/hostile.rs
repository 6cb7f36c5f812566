//! A relay that lies: whatever it changes, replays or slips in reaches no agent of either generation, and what it
//! garbles costs nobody else's mail.

use redsyn_bridge::broker::carrier::{Carrier, Taker};
use redsyn_bridge::crypto::base64url::{self, zip_encode};
use redsyn_bridge::crypto::seal::{SealSecrets, seal};
use redsyn_bridge::crypto::sha256;
use redsyn_bridge::domain::clock::Timestamp;
use redsyn_bridge::domain::random::SystemRandom;
use redsyn_bridge::proto::dsh::v2::name::Name;
use redsyn_bridge::store::bridge::generation::Generation;
use redsyn_bridge::store::sqlite::v2::V2Store;
use redsyn_bridge::store::v2::Query;
use serde_json::{Value, json};

use super::relay::Say;
use super::world::{BOB, CLOSE, NOW, Remote, World, close, unsigned};
use crate::support::zips::zip_of;

const BOTH: [Generation; 2] = [Generation::V1, Generation::V2];
const TAKE: &str = "GET /inbox/acme/finance/ana/close";

/// A node whose agent takes its mail in this generation.
async fn taking(generation: Generation) -> World {
    let world = World::new().await;
    takes(&world, generation).await;
    world
}

async fn takes(world: &World, generation: Generation) {
    let (v1, v2) = (close(), Name::of("close"));
    let taker = match generation {
        Generation::V1 => Taker::V1(&v1),
        Generation::V2 => Taker::V2(&v2),
    };
    world.carrier.takes(taker).await;
}

/// What the agent has got in its generation; in the other there is nothing.
async fn got(world: &World, generation: Generation) -> Vec<String> {
    let first = world.inbox_ids().await;
    let store = V2Store::new(world.local.db().clone(), SystemRandom::shared());
    let mut second =
        store.query(Query::all(Name::of("close"), Timestamp::from_millis(0), 100)).await.unwrap();
    second.retain(|stored| stored.inbox.is_some());
    second.sort_by_key(|stored| stored.seq);
    let second: Vec<String> = second.iter().map(|stored| stored.message.id.to_string()).collect();
    let (ours, others) = if generation == Generation::V1 { (first, second) } else { (second, first) };
    assert!(others.is_empty(), "{others:?}");
    ours
}

type Change = fn(&mut Value);

/// What a relay may do to a signed envelope with files, by name.
fn changes() -> Vec<(&'static str, Change)> {
    fn flip(text: &mut Value) {
        let mut bytes = base64url::decode(text.as_str().unwrap()).unwrap();
        bytes[0] ^= 1;
        *text = json!(base64url::encode(&bytes));
    }
    vec![
        ("id", |envelope| envelope["id"] = json!("q9")),
        ("kind to an answer", |envelope| envelope["kind"] = json!("reply")),
        ("kind to an event", |envelope| envelope["kind"] = json!("event")),
        ("from", |envelope| envelope["from"] = json!("globex/erp/eva/audit#s9")),
        ("another agent of the sender", |envelope| envelope["from"] = json!("globex/erp/bob/other#s9")),
        ("thread", |envelope| envelope["thread"] = json!("t2")),
        ("reply_to", |envelope| envelope["reply_to"] = json!("m1")),
        ("ts", |envelope| envelope["ts"] = json!(NOW.secs() - 1)),
        ("error", |envelope| envelope["error"] = json!(true)),
        ("body", |envelope| envelope["body"] = json!({"type": "text/plain", "text": "pay 9000"})),
        ("refs", |envelope| envelope["refs"] = json!([{"url": "https://elsewhere.example"}])),
        ("files taken away", |envelope| envelope["files"] = Value::Null),
        ("other files", |envelope| {
            envelope["files"] = json!({"bytes": 3, "sha256": sha256::hex(b"any")});
        }),
        ("signature", |envelope| flip(&mut envelope["sig"]["value"])),
        ("key", |envelope| {
            envelope["sig"]["key"] = json!(Remote::new().keys.signing.verifying_key().to_string());
        }),
        ("payload", |envelope| {
            let payload = envelope["sig"]["payload"].as_str().unwrap().replace("q1", "q8");
            envelope["sig"]["payload"] = json!(payload);
        }),
        ("payload of another message", |envelope| {
            let other = Remote::new().signed("q7", |_| ());
            envelope["sig"]["payload"] = other["sig"]["payload"].clone();
            envelope["sig"]["value"] = other["sig"]["value"].clone();
        }),
        ("no payload", |envelope| envelope["sig"]["payload"] = Value::Null),
        ("algorithm", |envelope| envelope["sig"]["alg"] = json!("none")),
    ]
}

#[tokio::test]
async fn whatever_a_relay_changes_is_answered_and_reaches_nobody() {
    let zip = zip_of(&[("a.txt", b"one")]);
    for generation in BOTH {
        for sealed in [false, true] {
            let mut world = taking(generation).await;
            let bob = Remote::new();
            let mut expected = Vec::new();
            for (at, (name, change)) in changes().into_iter().enumerate() {
                let genuine = if sealed {
                    bob.sealed("q1", &world.keys)
                } else {
                    bob.signed("q1", |envelope| {
                        envelope
                            .insert("files".into(), json!({"bytes": zip.len(), "sha256": sha256::hex(&zip)}));
                    })
                };
                let mut changed = genuine.clone();
                change(&mut changed);
                if changed == genuine {
                    assert!(sealed && name == "files taken away", "{name} changes nothing");
                    continue;
                }
                // Each under a thread of its own, since it is one id that comes again and again.
                world.execute("DELETE FROM seen; DELETE FROM outbox").await;
                let id = changed["id"].as_str().unwrap().to_owned();
                world.relay.deliver(CLOSE, [changed]);
                let why = world.refused(&id).await;
                assert!(why.starts_with("the signature does not hold"), "{name}: {why}");
                assert_eq!(world.acked().await, [id.as_str()], "{name}");
                if !name.starts_with("kind") {
                    expected.push(id.clone());
                    let posted = world.posted_times(expected.len()).await;
                    let reply = posted.last().unwrap();
                    assert_eq!((&reply["reply_to"], &reply["error"]), (&json!(id), &json!(true)), "{name}");
                }
                assert!(got(&world, generation).await.is_empty(), "{name} ({at})");
            }
            // What nobody touched comes through, and pins the sender's key for the first time.
            world.execute("DELETE FROM seen").await;
            world.relay.script("GET /messages/q1/files", Say::Json(200, json!({"zip": zip_encode(&zip)})));
            world.relay.deliver(CLOSE, [bob.signed("q1", |_| ())]);
            world.delivered("q1").await;
            assert_eq!(got(&world, generation).await, ["q1"]);
        }
    }
}

#[tokio::test]
async fn a_sealed_text_that_was_changed_or_moved_does_not_open() {
    for generation in BOTH {
        let mut world = taking(generation).await;
        let bob = Remote::new();
        let sealed_for = |recipient: &Remote, id: &str| bob.sealed(id, &recipient.keys);
        // Signed by its sender all the same: a node that was made to sign what it did not seal.
        let signed = |id: &str, body: Value| {
            bob.signed(id, |envelope| {
                envelope.insert("body".into(), body);
            })
        };
        let mut flipped = bob.sealed("q1", &world.keys)["body"].clone();
        let mut text = base64url::decode(flipped["enc"]["ct"].as_str().unwrap()).unwrap();
        text[0] ^= 1;
        flipped["enc"]["ct"] = json!(base64url::encode(&text));
        let of_another_id = bob.sealed("q9", &world.keys)["body"].clone();
        let secrets = SealSecrets { ephemeral: [7; 32], nonce: [8; 12], files_nonce: [9; 12] };
        let seal_bytes = |id: &str, bytes: &[u8]| {
            seal(&world.keys.enc.enc_key(), &secrets, id, "request", bytes, None).unwrap().enc.to_body()
        };
        let mail = [
            sealed_for(&Remote::new(), "q0"),
            signed("q1", flipped),
            signed("q2", of_another_id),
            signed("q3", seal_bytes("q3", b"{\"body\": \"\xff\"}")),
            signed("q4", seal_bytes("q4", b"{}")),
        ];
        world.relay.deliver(CLOSE, mail);
        for id in ["q0", "q1", "q2", "q3", "q4"] {
            let why = world.refused(id).await;
            assert!(why.starts_with("cannot decrypt"), "{id}: {why}");
        }
        assert_eq!(world.acked().await, ["q0", "q1", "q2", "q3", "q4"]);
        assert_eq!(world.posted_times(5).await.len(), 5);
        assert!(got(&world, generation).await.is_empty());
    }
}

#[tokio::test]
async fn an_old_envelope_is_not_delivered_again() {
    for generation in BOTH {
        let mut world = taking(generation).await;
        let bob = Remote::new();
        let envelope = bob.signed("q1", |_| ());
        world.relay.deliver(CLOSE, [envelope.clone()]);
        assert_eq!(world.acked().await, ["q1"]);
        world.relay.deliver(CLOSE, [envelope.clone(), envelope.clone()]);
        assert_eq!(world.acked().await, ["q1", "q1"]);
        // Once what was seen is forgotten, the signature is too old.
        let mut world = world.restarted().await;
        world.clock.advance(std::time::Duration::from_secs(30 * 86_400 + 3601));
        world.holds("SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM bridged)").await;
        world.relay.deliver(CLOSE, [envelope]);
        assert!(world.refused("q1").await.contains("older than any message"));
        assert!(got(&world, generation).await.len() <= 1);
    }
}

#[tokio::test]
async fn a_new_machine_of_a_signer_waits_for_a_person_in_either_generation() {
    for generation in BOTH {
        let mut world = taking(generation).await;
        world.relay.deliver(CLOSE, [Remote::new().signed("q1", |_| ())]);
        world.acked().await;
        let machine = Remote::new();
        world.relay.deliver(CLOSE, [machine.sealed("q2", &world.keys), Value::Object(unsigned("q3"))]);
        assert!(world.held_in("q2").await.contains("another key than the pinned one"));
        assert!(world.held_in("q3").await.contains("sends unsigned"));
        assert_eq!(got(&world, generation).await, ["q1"]);
        let bob = "globex/bob".parse().unwrap();
        world.control.decisions.accept(bob, None).await.unwrap();
        world.delivered("q2").await;
        assert_eq!(world.acked().await, ["q2"]);
        assert_eq!(got(&world, generation).await, ["q1", "q2"]);
        world.relay.deliver(CLOSE, [machine.signed("q4", |_| ())]);
        world.delivered("q4").await;
        assert_eq!(got(&world, generation).await, ["q1", "q2", "q4"], "the machine is known now");
    }
}

/// In every way in which a relay can hand out a key of its own (the kit's modes full, enc_only and unsigned).
#[tokio::test]
async fn a_substituted_key_is_sealed_for_by_neither_generation() {
    for generation in BOTH {
        let mut world = taking(generation).await;
        let (bob, mallory) = (Remote::new(), Remote::new());
        world.relay.set_key(BOB, &bob.keys);
        send(&world, generation, "m1").await;
        assert!(world.accepted("m1").await);
        let (ours, theirs) = (bob.keys.registration(), mallory.keys.registration());
        let answer = |signing: &str, enc: &Option<String>, sig: &Option<String>| json!({"node": "n", "signing_key": signing, "enc_key": enc, "enc_sig": sig, "fingerprint": "f"});
        for (id, key, why) in [
            (
                "full",
                answer(&theirs.public_key, &theirs.enc_key, &theirs.enc_sig),
                "another key than the pinned",
            ),
            ("enc-only", answer(&ours.public_key, &theirs.enc_key, &ours.enc_sig), "does not hold"),
            ("unsigned", answer(&ours.public_key, &theirs.enc_key, &None), "does not hold"),
            ("empty", answer(&ours.public_key, &theirs.enc_key, &Some(String::new())), "does not hold"),
        ] {
            world.relay.set_key_answer(BOB, key);
            send(&world, generation, id).await;
            let told = world.held_out(id).await;
            assert!(told.contains(why), "{id}: {told}");
        }
        assert_eq!(world.posted().len(), 1, "nothing went out under another key");
        // The relay thinks better of it: what is held is judged again.
        world.relay.set_key(BOB, &bob.keys);
        world.clock.advance(std::time::Duration::from_secs(5 * 60));
        world.all_accepted(["full", "enc-only", "unsigned", "empty"]).await;
    }
}

async fn send(world: &World, generation: Generation, id: &str) {
    match generation {
        Generation::V1 => world.send(super::world::request(id)).await,
        Generation::V2 => drop(world.carrier.send_v2(super::v2::request(id), None).await.unwrap()),
    }
}

#[tokio::test]
async fn a_body_that_is_no_utf_8_is_answered_where_it_came_in_a_zip() {
    for generation in BOTH {
        let mut world = taking(generation).await;
        let zip = zip_of(&[("dsh-body.txt", b"caf\xe9")]);
        let envelope = Remote::new().signed("q1", |envelope| {
            envelope.insert(
                "refs".into(),
                json!([{"url": "urn:dsh-agent-relay:body:1", "note": "dsh-body.txt"}]),
            );
            envelope.insert("files".into(), json!({"bytes": zip.len(), "sha256": sha256::hex(&zip)}));
        });
        world.relay.script("GET /messages/q1/files", Say::Json(200, json!({"zip": zip_encode(&zip)})));
        world.relay.deliver(CLOSE, [envelope]);
        assert_eq!(world.refused("q1").await, "its body cannot be put back: it is no UTF-8");
        assert_eq!(world.acked().await, ["q1"]);
        assert_eq!(world.posted_times(1).await[0]["reply_to"], "q1");
        assert!(got(&world, generation).await.is_empty());
    }
}

#[tokio::test]
async fn an_item_that_is_no_utf_8_does_not_stop_the_others() {
    for garbled in [&b"caf\xe9"[..], b"\\\xe9", b"\xf0\x9f", b"a\xffb\xfec"] {
        let mut bad = Value::Object(unsigned("q0")).to_string().into_bytes();
        let at = bad.windows(4).rposition(|window| window == b"\"q0\"").unwrap() + 1;
        bad.splice(at..at + 2, garbled.iter().copied());
        let good = Value::Object(unsigned("q1")).to_string().into_bytes();
        let answer = [&b"{\"items\": ["[..], &bad, b",", &good, b"]}"].concat();
        let mut world = World::scripted("agents: {close: {hold: true, allow: [org:globex]}}", |relay| {
            relay.script(TAKE, Say::Bytes(200, answer));
        })
        .await;
        assert_eq!(world.acked().await, ["q1"]);
        assert_eq!(world.inbox_ids().await, ["q1"]);
    }
}

#[tokio::test]
async fn files_with_another_hash_reach_neither_generation() {
    for generation in BOTH {
        for sealed in [false, true] {
            let mut world = taking(generation).await;
            let zip = zip_of(&[("a.txt", b"one")]);
            let sealed_body = Remote::new().sealed("q1", &world.keys)["body"].clone();
            let envelope = Remote::new().signed("q1", |envelope| {
                envelope.insert("files".into(), json!({"bytes": zip.len(), "sha256": sha256::hex(&zip)}));
                if sealed {
                    envelope.insert("body".into(), sealed_body);
                }
            });
            let others = zip_encode(&zip_of(&[("a.txt", b"two")]));
            world.relay.script("GET /messages/q1/files", Say::Json(200, json!({"zip": others})));
            world.relay.deliver(CLOSE, [envelope]);
            assert_eq!(world.refused("q1").await, "its files are not the ones that were sent");
            assert_eq!(world.acked().await, ["q1"]);
            assert_eq!(world.posted_times(1).await[0]["reply_to"], "q1");
            assert!(got(&world, generation).await.is_empty());
        }
    }
}
