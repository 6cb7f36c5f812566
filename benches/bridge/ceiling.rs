//! What the signatures and seals of a round trip alone would allow: both messages are sealed and signed by one bridge,
//! and their signatures checked and their seals opened by the other, on all cores. What else a round trip has of them,
//! the relay's own check and that of the recipient's key, is left out.

use std::time::{Duration, Instant};

use redsyn_bridge::bridge::keys::NodeKeys;
use redsyn_bridge::crypto::seal::{self, Enc, SealSecrets};
use redsyn_bridge::domain::clock::{Clock, SystemClock};
use redsyn_bridge::domain::random::{Random, SystemRandom};
use redsyn_bridge::proto::redsyn::signed;
use serde_json::{Map, Value, json};

use crate::TEXT;
use crate::common::measured::Measured;

/// Makes and reads both messages for so long.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub fn run(time: Duration) -> Measured {
    let (a, b) = (NodeKeys::generate(&SystemRandom), NodeKeys::generate(&SystemRandom));
    let cores = std::thread::available_parallelism().unwrap().get();
    let began = Instant::now();
    let work = || {
        let mut latencies = Vec::new();
        while began.elapsed() < time {
            let start = Instant::now();
            read(&write("request", &a, &b), &a, &b);
            read(&write("reply", &b, &a), &b, &a);
            latencies.push(start.elapsed());
        }
        latencies
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let latencies = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
        Measured { latencies, time: began.elapsed() }
    })
}

/// A sealed and signed envelope.
pub fn write(kind: &str, from: &NodeKeys, to: &NodeKeys) -> Map<String, Value> {
    let random: &dyn Random = &SystemRandom;
    let id = format!("b{}", random.hex::<16>());
    let content = json!({"body": {"type": "text/plain", "text": "x".repeat(TEXT)}, "refs": [],
                         "reply_key": from.enc.enc_key().to_string()});
    let secrets =
        SealSecrets { ephemeral: random.bytes(), nonce: random.bytes(), files_nonce: random.bytes() };
    let plain = content.to_string();
    let sealed = seal::seal(&to.enc.enc_key(), &secrets, &id, kind, plain.as_bytes(), None).unwrap();
    let envelope = json!({"v": 1, "id": id, "kind": kind, "from": "acme/finance/ana/other",
                          "to": "globex/erp/bob/billing", "ts": SystemClock.now().secs(), "refs": [],
                          "body": sealed.enc.to_body()});
    let Value::Object(mut envelope) = envelope else { unreachable!() };
    signed::sign(&mut envelope, &from.signing).unwrap();
    envelope
}

fn read(envelope: &Map<String, Value>, from: &NodeKeys, to: &NodeKeys) {
    // The receiver's check takes the relay's word for nothing that this one does not look at.
    signed::check_arrival(envelope, Some(&from.signing.verifying_key()), SystemClock.now().secs()).unwrap();
    let enc = Enc::from_body(&envelope["body"]).unwrap();
    let text = |name: &str| envelope[name].as_str().unwrap();
    seal::open(&to.enc, text("id"), text("kind"), &enc).unwrap();
}
