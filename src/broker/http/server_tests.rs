//! Clients that begin and never end, against clocks that are moved.

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;
use crate::broker::carrier::NoCarrier;
use crate::config::Config;
use crate::crypto::secret::Secret;
use crate::domain::clock::{ManualClock, Timestamp};
use crate::domain::random::SystemRandom;
use crate::domain::wakeups::Wakeups;
use crate::store::sqlite::local::LocalStore;

/// Far longer than anything waits here, by a clock that nobody waits for.
const DAY: Duration = Duration::from_secs(86_400);

/// A client's end of a connection, the clock of the broker at the other one, and what keeps that one open.
fn connected() -> (DuplexStream, ManualClock, GracefulShutdown) {
    let config = Config::parse("broker:\n  secret: s\n", "config.yaml".as_ref()).unwrap();
    let clock = ManualClock::at(Timestamp::from_secs(1_700_000_000));
    let service = Service::new(
        &config,
        Secret::new("s"),
        LocalStore::in_memory().unwrap(),
        Arc::new(clock.clone()),
        SystemRandom::shared(),
        Arc::new(NoCarrier),
        Wakeups::default(),
    );
    let routes = Router::new().fallback(handle).with_state(Arc::new(service));
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let graceful = GracefulShutdown::new();
    tokio::spawn(talk(theirs, routes, Arc::new(clock.clone()), graceful.watcher()));
    (ours, clock, graceful)
}

async fn rest_of(client: &mut DuplexStream) -> String {
    let mut answer = String::new();
    let read = tokio::time::timeout(DAY, client.read_to_string(&mut answer)).await;
    read.expect("the connection was never closed").unwrap();
    answer
}

#[tokio::test(start_paused = true)]
async fn half_a_head_is_not_waited_for() {
    for head in ["", "GET", "GET / HTTP/1.1\r\nhost:"] {
        let (mut client, _clock, _open) = connected();
        client.write_all(head.as_bytes()).await.unwrap();
        assert_eq!(rest_of(&mut client).await, "", "{head:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_goes_idle_is_closed() {
    let (mut client, _clock, _open) = connected();
    client.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert!(rest_of(&mut client).await.starts_with("HTTP/1.1 200 OK"));
}

#[tokio::test]
async fn half_a_body_is_answered_when_its_time_is_over() {
    let (mut client, clock, _open) = connected();
    let head = "POST /register HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-relay-agent: alpha\r\n\
        x-relay-timestamp: 1700000000\r\nx-relay-signature: any\r\ncontent-length: 10\r\n\r\n{";
    client.write_all(head.as_bytes()).await.unwrap();
    while clock.sleepers() == 0 {
        tokio::task::yield_now().await;
    }
    clock.advance(HEAD_TIME);
    let answer = rest_of(&mut client).await;
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("the body took too long"), "{answer}");
}
