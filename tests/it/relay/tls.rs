//! TLS of the relay's own: served with the files of the configuration, and refused in words that name the file.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use redsyn_bridge::config::relay::TlsFiles;
use redsyn_bridge::domain::clock::{ManualClock, SharedClock, Timestamp};
use redsyn_bridge::relay::{Listening, Settings};
use redsyn_bridge::runtime::signals::Hangups;
use redsyn_bridge::runtime::tls::{Certificates, server_config};
use serde_json::json;
use tokio::io::AsyncReadExt;

use super::target::{NOW, run_at, soon};
use crate::support::process::{Process, run};
use crate::support::world::write;

fn pair(folder: &Path, name: &str) -> String {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    write(folder, &format!("{name}.pem"), &cert.pem());
    write(folder, &format!("{name}.key"), &signing_key.serialize_pem());
    cert.pem()
}

fn files(folder: &Path, name: &str) -> TlsFiles {
    TlsFiles { cert: folder.join(format!("{name}.pem")), key: folder.join(format!("{name}.key")) }
}

/// A client that trusts this certificate and no other; each call is a connection of its own.
fn trusting(cert: &str) -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let root = reqwest::Certificate::from_pem(cert.as_bytes()).unwrap();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([root]);
    client.pool_max_idle_per_host(0).build().unwrap()
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_to_new_connections_and_a_broken_one_to_none() {
    let folder = tempfile::tempdir().unwrap();
    let first = pair(folder.path(), "a");
    let mut certificates = Certificates::load(&files(folder.path(), "a")).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let health = format!("https://localhost:{}/healthz", listener.local_addr().unwrap().port());
    let listening = Listening { listener, tls: Some(certificates.subscribe()) };
    let clock = ManualClock::at(Timestamp::from_secs(NOW));
    let relay = run_at(listening, folder.path(), &clock, Settings::default()).await;
    let shared: SharedClock = Arc::new(clock.clone());
    let mut current = certificates.subscribe();
    let renewing = tokio::spawn(async move { certificates.renew(&shared, &mut Hangups::new()).await });
    // Each look begins with its sleep; the relay's own sweep sleeps too.
    let look = async || {
        clock.advance(Duration::from_secs(60));
        tokio::task::yield_now().await;
    };
    let shown = async |cert: &str| trusting(cert).get(&health).send().await.is_ok();
    assert!(shown(&first).await);
    let kept = reqwest::Client::builder().no_proxy();
    let root = reqwest::Certificate::from_pem(first.as_bytes()).unwrap();
    let kept = kept.tls_certs_only([root]).build().unwrap();
    kept.get(&health).send().await.unwrap().text().await.unwrap();

    write(folder.path(), "a.key", "-----BEGIN PRIVATE KEY-----\n!!!\n-----END PRIVATE KEY-----\n");
    for _ in 0..10 {
        look().await;
    }
    assert!(shown(&first).await, "what cannot be used changes nothing");
    // Certificate and key are two files: between them they do not fit.
    let second = pair(folder.path(), "b");
    std::fs::rename(folder.path().join("b.pem"), folder.path().join("a.pem")).unwrap();
    for _ in 0..10 {
        look().await;
    }
    assert!(shown(&first).await && !shown(&second).await);
    std::fs::rename(folder.path().join("b.key"), folder.path().join("a.key")).unwrap();
    soon(async {
        while !current.has_changed().unwrap() {
            look().await;
        }
    })
    .await;
    current.mark_unchanged();
    assert!(shown(&second).await && !shown(&first).await);
    assert_eq!(kept.get(&health).send().await.unwrap().status(), 200, "what was open goes on");
    for _ in 0..10 {
        look().await;
    }
    assert!(!current.has_changed().unwrap(), "files that stay as they are are not read again");
    renewing.abort();
    drop(relay);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_makes_a_running_relay_look_at_its_certificate_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let first = pair(folder.path(), "a");
    let config = "listen: 127.0.0.1:0\ntls: { cert: a.pem, key: a.key }\n";
    write(folder.path(), "relay.yaml", config);
    let mut process = Process::start(folder.path(), &["relay", "--config", "relay.yaml", "serve"]);
    let lines = process.wait_for("listening on https://127.0.0.1:");
    let port = lines.last().unwrap().rsplit(':').next().unwrap().to_owned();
    let health = format!("https://localhost:{port}/healthz");
    assert!(trusting(&first).get(&health).send().await.is_ok());
    write(folder.path(), "a.pem", "no certificate");
    process.signal("-HUP");
    let log = process.wait_for_log("relay_certificate_not_renewed");
    assert!(log.last().unwrap().contains("a.pem") && log.last().unwrap().contains("the old one"), "{log:#?}");
    assert!(trusting(&first).get(&health).send().await.is_ok());
    let second = pair(folder.path(), "a");
    process.signal("-HUP");
    process.wait_for_log("relay_certificate_renewed");
    assert!(trusting(&second).get(&health).send().await.is_ok());
    assert!(trusting(&first).get(&health).send().await.is_err());
}

#[tokio::test]
async fn a_relay_with_a_certificate_speaks_https() {
    let folder = tempfile::tempdir().unwrap();
    let cert = pair(folder.path(), "a");
    let config = "listen: 127.0.0.1:0\ntls: { cert: a.pem, key: a.key }\n";
    write(folder.path(), "relay.yaml", config);
    let mut process = Process::start(folder.path(), &["relay", "--config", "relay.yaml", "serve"]);
    let lines = process.wait_for("listening on https://127.0.0.1:");
    let port = lines.last().unwrap().rsplit(':').next().unwrap().to_owned();
    let client = trusting(&cert);
    let answer = client.get(format!("https://localhost:{port}/healthz")).send().await.unwrap();
    assert_eq!(answer.json::<serde_json::Value>().await.unwrap(), json!({"ok": true}));
    // Plain HTTP on that port is no answer, and harms nobody.
    assert!(client.get(format!("http://localhost:{port}/healthz")).send().await.is_err());
    let again = client.get(format!("https://localhost:{port}/healthz")).send().await.unwrap();
    assert_eq!(again.status(), 200);
}

#[tokio::test]
async fn a_handshake_that_does_not_come_ends_after_ten_seconds() {
    let folder = tempfile::tempdir().unwrap();
    pair(folder.path(), "a");
    let certificates = Certificates::load(&files(folder.path(), "a")).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let clock = ManualClock::at(Timestamp::from_secs(NOW));
    let listening = Listening { listener, tls: Some(certificates.subscribe()) };
    let _relay = run_at(listening, folder.path(), &clock, Settings::default()).await;
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let mut ended = tokio::spawn(async move { stream.read(&mut [0; 1]).await });
    soon(async {
        while !ended.is_finished() {
            // Again and again: moved before the relay waits, the clock would only move its bedtime.
            clock.advance(Duration::from_secs(10));
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(matches!((&mut ended).await.unwrap(), Ok(0) | Err(_)));
}

#[test]
fn each_wrong_file_is_named_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    pair(folder.path(), "a");
    pair(folder.path(), "b");
    write(folder.path(), "empty.pem", "");
    write(folder.path(), "broken.pem", "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n");
    for (cert, key, setting, file, words) in [
        ("none.pem", "a.key", "tls.cert", "none.pem", "cannot be read"),
        ("empty.pem", "a.key", "tls.cert", "empty.pem", "holds no certificate"),
        ("a.key", "a.key", "tls.cert", "a.key", "holds no certificate"),
        ("broken.pem", "a.key", "tls.cert", "broken.pem", "is not PEM"),
        ("a.pem", "none.key", "tls.key", "none.key", "cannot be read"),
        ("a.pem", "a.pem", "tls.key", "a.pem", "holds no private key"),
        ("a.pem", "b.key", "tls.key", "b.key", "does not fit the certificate"),
    ] {
        let error = server_config(&at(cert), &at(key)).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let text = error.to_string();
        assert!(text.starts_with(setting) && text.contains(file) && text.contains(words), "{text}");
    }
    write(folder.path(), "relay.yaml", "listen: 127.0.0.1:0\ntls: { cert: none.pem, key: a.key }\n");
    let output = run(folder.path(), &["relay", "--config", "relay.yaml", "serve"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("tls.cert") && error.trim().lines().count() == 1, "{error}");
    assert!(!at("data").exists(), "nothing is begun");
}
