//! Bodies over the limit: whoever sends all of one before it reads must still get to read why it was refused.

use std::collections::BTreeSet;

use super::broker::{ATTACKER, Besieged, By, Wire, judged};
use super::endpoints::{ENDPOINTS, Endpoint, Generation};
use crate::golden::client::{Answer, Connection};
use crate::support::bridge::BridgeProcess;
use crate::support::world::World;

const MB: usize = 1024 * 1024;

#[test]
fn whoever_sends_too_much_is_told_so() {
    let mut besieged = Besieged::start();
    for endpoint in ENDPOINTS {
        for by in [By::Agent(ATTACKER), By::Forger, By::Nobody] {
            for length in [MB + 1, 12 * MB] {
                let (status, body) = besieged.send(&Wire::of(endpoint, vec![b' '; length]), by);
                let reads = endpoint.method != "GET";
                assert!(!reads || status == 400, "{endpoint:?} {by:?}: {status} {}", body.as_json());
            }
        }
        besieged.still_works();
    }
    besieged.nothing_but(&BTreeSet::new());
}

/// What is refused for its chunks has no length that could be looked at first.
#[test]
fn the_same_goes_for_bodies_without_a_length() {
    let mut besieged = Besieged::start();
    let chunk = [format!("{MB:x}\r\n").into_bytes(), vec![b' '; MB], b"\r\n".to_vec()].concat();
    for endpoint in ENDPOINTS {
        let wire = Wire { body: None, ..Wire::of(endpoint, Vec::new()) };
        let head = [&wire.head(By::Nobody), &b"transfer-encoding: chunked\r\n\r\n"[..]].concat();
        let bytes = [head, chunk.repeat(3), b"0\r\n\r\n".to_vec()].concat();
        let answer = besieged.exchange(&bytes, false).unwrap_or_else(|| panic!("no answer: {endpoint:?}"));
        judged(&answer, false, &|| format!("{endpoint:?}"));
    }
    besieged.still_works();
}

const UPLOAD: Endpoint = Endpoint {
    generation: Generation::V1,
    method: "PUT",
    target: "/bridge/v1/files",
    members: &[],
    open: false,
};

/// What a client reads that stops at the first byte which it cannot send.
fn told(port: u16, bytes: &[u8]) -> Option<Answer> {
    let mut connection = Connection::open(port);
    connection.send_whole(bytes);
    connection.exchange(b"", false)
}

/// Files, and the relay: it refuses what is too large by the length that was announced or once it has come, and a stranger before that.
#[tokio::test(flavor = "multi_thread")]
async fn files_and_the_relay_have_limits_of_their_own() {
    let world = World::new().await;
    let folder = world.folder.path().join("ana");
    let bridge = BridgeProcess::start(&folder, &world.ana, &world.bob, &world.url());
    let port = bridge.base().rsplit(':').next().unwrap().parse().unwrap();
    let relay = world.relay.address().port();
    let token = world.ana.token.expose().to_owned();
    let refused = move || {
        for length in [6 * MB, 12 * MB] {
            let wire = Wire::of(&UPLOAD, vec![0; length]);
            let bytes = wire.bytes(By::Keyed("close", "test-secret"));
            let answer = told(port, &bytes).expect("an answer to too many files");
            assert_eq!(answer.status, 413);
            judged(&answer, false, &|| "files".to_owned());
        }
        let chunk = [format!("{MB:x}\r\n").into_bytes(), vec![b' '; MB], b"\r\n".to_vec()].concat();
        let chunked = [chunk.repeat(9), b"0\r\n\r\n".to_vec()].concat();
        for (credentials, status) in
            [(format!("authorization: Bearer {token}\r\n"), 413), (String::new(), 401)]
        {
            for (length, body) in [
                (format!("content-length: {}", 8 * MB + 1), vec![b' '; 8 * MB + 1]),
                (format!("content-length: {}", 15 * MB), vec![b' '; 15 * MB]),
                ("transfer-encoding: chunked".to_owned(), chunked.clone()),
            ] {
                let head =
                    format!("POST /redsyn/v1/messages HTTP/1.1\r\nhost: x\r\n{credentials}{length}\r\n\r\n");
                let answer = told(relay, &[head.into_bytes(), body].concat());
                let answer = answer.unwrap_or_else(|| panic!("no answer from the relay to {length}"));
                assert_eq!(answer.status, status, "{length}");
                super::relay::judged(&answer, &|| length.clone());
            }
        }
    };
    tokio::task::spawn_blocking(refused).await.unwrap();
}
