//! What a relay does about callers that call too often, too slowly, or nonsense.

use std::num::NonZeroU32;
use std::time::Duration;

use redsyn_bridge::domain::clock::{ManualClock, Timestamp};
use redsyn_bridge::relay::Settings;
use redsyn_bridge::relay::limits::CallLimits;
use redsyn_bridge::relay::metrics::Counter;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::target::{Bench, NOW, Node, Running, request, run, soon, with};

const CLOSE: &str = "acme/finance/ana/close";

#[tokio::test]
async fn too_many_calls_of_one_token_are_429_without_quota() {
    let limits = CallLimits { per_token: NonZeroU32::new(10), per_address: None };
    let bench = Bench::start_as(Settings { limits, ..Settings::default() }).await;
    let mut answers = Vec::new();
    for _ in 0..10 {
        answers.push(bench.dora.get("/me").await);
    }
    let limited = bench.dora.get("/me").await;
    assert!(answers.into_iter().filter(|answer| answer.status == 200).count() >= 9);
    assert!(limited.headers.contains_key("retry-after"));
    let body = limited.is(429);
    assert!(body.get("quota").is_none(), "worth trying again");
    bench.caro.get("/me").await.is(200);
    bench.advance(6);
    bench.dora.get("/me").await.is(200);
    bench.dora.get("/me").await.refused(429);
    assert!(bench.service.metrics().get(Counter::CallsLimited) >= 2);
}

#[tokio::test]
async fn an_address_behind_a_trusted_proxy_is_limited_before_its_token_is_looked_up() {
    let limits = CallLimits { per_token: None, per_address: NonZeroU32::new(5) };
    let trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()];
    let bench = Bench::start_as(Settings { limits, trusted_proxies, ..Settings::default() }).await;
    let from = async |address: &str| {
        let stranger = Node::new(&bench.ana.base_url, "guess");
        let call = stranger.request(Method::GET, "/me").header("x-forwarded-for", address);
        stranger.send_request(call).await.status
    };
    for _ in 0..5 {
        assert_eq!(from("203.0.113.7").await, 401);
    }
    assert_eq!(from("203.0.113.7").await, 429);
    assert_eq!(from("198.51.100.2").await, 401);
    // What stands further left was written by the caller.
    assert_eq!(from("192.0.2.1, 203.0.113.7").await, 429);
    bench.ana.get("/me").await.is(200);
}

async fn connect(base_url: &str) -> TcpStream {
    let host = base_url.trim_start_matches("http://").split('/').next().unwrap().to_owned();
    TcpStream::connect(host).await.unwrap()
}

/// A relay that knows nobody and has no patience. The clock that ends a head is the real one.
async fn impatient() -> (Running, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { head_time: Duration::from_millis(50), ..Settings::default() };
    let clock = ManualClock::at(Timestamp::from_secs(NOW));
    (run(folder.path(), &clock, settings).await, folder)
}

async fn read_all(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    // A reset is an end too.
    let _ = soon(stream.read_to_end(&mut text)).await;
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_408_after_a_minute() {
    let bench = Bench::start().await;
    let mut stream = connect(&bench.ana.base_url).await;
    let head = format!(
        "POST /redsyn/v1/messages HTTP/1.1\r\nHost: relay\r\nAuthorization: Bearer {}\r\n\
         Content-Length: 1000\r\nConnection: close\r\n\r\n{{\"v\": 1,",
        bench.ana.token
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let reading = tokio::spawn(async move { read_all(&mut stream).await });
    soon(async {
        while !reading.is_finished() {
            // Again and again: moved before the relay waits, the clock would only move its bedtime.
            bench.advance(60);
            tokio::task::yield_now().await;
        }
    })
    .await;
    let answer = reading.await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("\"status\":408"), "{answer}");
    assert!(answer.contains("redsyn-version: 2026-09-25\r\n"), "{answer}");
}

/// A client that has announced a large body and has been told to send it, or why not.
async fn announced(bench: &Bench, credentials: &str) -> (TcpStream, String) {
    let mut stream = connect(&bench.ana.base_url).await;
    let head = format!(
        "POST /redsyn/v1/messages HTTP/1.1\r\nHost: relay\r\n{credentials}\
         Content-Length: 8000000\r\nExpect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut said = vec![0; 4096];
    let length = soon(stream.read(&mut said)).await.unwrap();
    said.truncate(length);
    (stream, String::from_utf8(said).unwrap())
}

#[tokio::test]
async fn large_bodies_of_known_nodes_have_their_room_and_wait_for_it() {
    const ROOM: usize = 16 * 1024 * 1024;
    let bench = Bench::start_as(Settings { body_room: ROOM, ..Settings::default() }).await;
    let known = format!("Authorization: Bearer {}\r\n", bench.ana.token);
    for stranger in ["", "Authorization: Bearer guess\r\n"] {
        let (_stream, said) = announced(&bench, stranger).await;
        assert!(said.starts_with("HTTP/1.1 401 "), "{said}");
    }
    assert_eq!(bench.service.body_bytes(), 0);
    let mut sending = Vec::new();
    for _ in 0..2 {
        let (stream, said) = announced(&bench, &known).await;
        assert_eq!(said, "HTTP/1.1 100 Continue\r\n\r\n");
        sending.push(stream);
    }
    let third = async {
        let (_stream, said) = announced(&bench, &known).await;
        said
    };
    let time = async {
        // What is left is set aside for who is next, so it waits now.
        while bench.service.body_bytes() < ROOM {
            tokio::task::yield_now().await;
        }
        bench.advance(5);
    };
    let (refused, ()) = soon(async { tokio::join!(third, time) }).await;
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("retry-after: 1\r\n"), "{refused}");
    assert!(refused.contains("\"status\":503"), "{refused}");
    // What is small waits for nobody.
    bench.ana.announce(CLOSE, json!({})).await.is(201);
    bench.ana.send(&request("m1", CLOSE, "close")).await.is(201);
    drop(sending);
    soon(async {
        while bench.service.body_bytes() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let (_stream, said) = announced(&bench, &known).await;
    assert_eq!(said, "HTTP/1.1 100 Continue\r\n\r\n");
}

#[tokio::test]
async fn a_head_that_does_not_arrive_ends_the_connection() {
    let (relay, _folder) = impatient().await;
    let mut stream = connect(&relay.base_url).await;
    stream.write_all(b"GET /redsyn/v1/me HTTP/1.1\r\nHost: relay\r\nX-Slow: ").await.unwrap();
    let answer = read_all(&mut stream).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{answer}");
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed() {
    let (relay, _folder) = impatient().await;
    let mut stream = connect(&relay.base_url).await;
    assert_eq!(read_all(&mut stream).await, "");
}

#[tokio::test]
async fn what_is_no_http_ends_alone() {
    let bench = Bench::start().await;
    for nonsense in ["\x16\x03\x01\x02\x00\x01\x00", "GET\r\n\r\n", "PUT / HTTP/9.9\r\n\r\n"] {
        let mut stream = connect(&bench.ana.base_url).await;
        stream.write_all(nonsense.as_bytes()).await.unwrap();
        let answer = read_all(&mut stream).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    let mut stream = connect(&bench.ana.base_url).await;
    let long = format!("GET /{} HTTP/1.1\r\nHost: relay\r\n\r\n", "x".repeat(600_000));
    let _ = stream.write_all(long.as_bytes()).await;
    let answer = read_all(&mut stream).await;
    assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");
    bench.ana.get("/me").await.is(200);
}

#[tokio::test]
async fn fields_nobody_knows_are_ignored() {
    let bench = Bench::start().await;
    let extra = json!({"x_new": {"a": [1]}, "listening": true});
    bench.ana.announce(CLOSE, extra.clone()).await.is(201);
    bench.ana.send(&with(request("m1", CLOSE, "close"), json!({"x_new": 1}))).await.is(201);
    assert!(bench.ana.take(CLOSE).await[0].get("x_new").is_none());
    bench.ana.post(&format!("/inbox/{CLOSE}/ack"), json!({"ids": ["m1"], "x": 1})).await.is(200);
    let topic = json!({"agent": CLOSE, "topic": "topic:finance/x", "x": 1});
    bench.ana.put("/subscriptions", topic).await.is(200);
    bench.ana.post("/orgs/acme/teams", json!({"handle": "new", "x": 1})).await.is(201);
}

#[tokio::test]
async fn malformed_anything_is_a_json_error() {
    let bench = Bench::start().await;
    bench.ana.announce(CLOSE, json!({})).await.is(201);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let calls = [
        (Method::PUT, format!("/agents/{CLOSE}")),
        (Method::PUT, format!("/agents/{CLOSE}/webhook")),
        (Method::PUT, format!("/agents/{CLOSE}/sessions/s1")),
        (Method::POST, "/messages".to_owned()),
        (Method::POST, format!("/inbox/{CLOSE}/ack")),
        (Method::PUT, "/subscriptions".to_owned()),
        (Method::POST, "/subscriptions/remove".to_owned()),
        (Method::PUT, "/nodes/key".to_owned()),
        (Method::POST, "/orgs".to_owned()),
        (Method::POST, "/orgs/acme/teams".to_owned()),
        (Method::POST, "/orgs/acme/teams/ops/members".to_owned()),
        (Method::POST, "/orgs/acme/invites".to_owned()),
        (Method::POST, "/orgs/acme/join".to_owned()),
        (Method::POST, "/orgs/acme/links".to_owned()),
        (Method::PUT, "/orgs/acme/links/globex/expose".to_owned()),
        (Method::PUT, "/orgs/acme/links/globex/rules".to_owned()),
    ];
    for (method, path) in calls {
        for body in ["", "{", "nul", "{\"a\":1}x", "\u{feff}{}", "{\"a\":\"\\ud800\"}", &deep] {
            let call = bench.ana.request(method.clone(), &path).body(body.to_owned());
            bench.ana.send_request(call).await.refused(400);
        }
        let not_utf8 = bench.ana.request(method.clone(), &path).body(&b"{\"a\":\"\xff\"}"[..]);
        bench.ana.send_request(not_utf8).await.refused(400);
        for wrong in [json!([]), json!(5), Value::Null, json!({"x": 1})] {
            let call = bench.ana.request(method.clone(), &path).json(&wrong);
            let status = bench.ana.send_request(call).await.status;
            assert!((200..500).contains(&status), "{method} {path} {wrong}: {status}");
        }
    }
    let long = format!("reply_to={}", "x".repeat(201));
    for query in ["wait=x", "wait=-1", "lease=0", "lease=NaN", "wait=inf", &long] {
        bench.ana.get(&format!("/inbox/{CLOSE}?{query}")).await.refused(422);
    }
    bench.ana.get(&format!("/inbox/{CLOSE}?%ff=%zz&&=")).await.is(200);
}
