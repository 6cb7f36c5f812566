//! Web pages that let their own name point to this machine: a browser would show them what our servers answer to it.

use std::path::Path;

use serde_json::{Value, json};

use crate::golden::client::{Answer, Connection};
use crate::support::local::LocalBroker;
use crate::support::process::Process;
use crate::support::world::write;

fn get(port: u16, path: &str, rest: &str) -> Answer {
    Connection::open(port).exchange(format!("GET {path} {rest}\r\n\r\n").as_bytes(), false).unwrap()
}

const PAGES: [&str; 4] = [
    "HTTP/1.1\r\nhost: page.example",
    "HTTP/1.1\r\nhost: 127.0.0.1.page.example:8787",
    "HTTP/1.1\r\nhost: localhost\r\nhost: page.example",
    "HTTP/1.1\r\nhost: \u{e9}",
];
const PROGRAMS: [&str; 5] = [
    "HTTP/1.1\r\nhost: localhost:8787",
    "HTTP/1.1\r\nhost: 127.0.0.1",
    "HTTP/1.1\r\nhost: [::1]:8787",
    "HTTP/1.0",
    "HTTP/1.1\r\nhost: ",
];

#[tokio::test]
async fn a_page_is_shown_nothing_of_a_local_broker() {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = LocalBroker::new(folder.path(), "sqlite");
    broker.start();
    for path in ["/", "/healthz", "/metrics"] {
        for page in PAGES {
            let answer = get(broker.port, path, page);
            let body: Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!((answer.status, &body["error"]["code"]), (403, &json!("forbidden")), "{path} {page}");
        }
        for program in PROGRAMS {
            assert_eq!(get(broker.port, path, program).status, 200, "{path} {program}");
        }
    }
    // What is signed is answered under any name.
    assert_eq!(get(broker.port, "/peers", PAGES[0]).status, 401);
}

/// Whoever listens for others has a name that it does not know; only the numbers are for this machine alone.
#[tokio::test]
async fn a_page_is_shown_no_numbers_of_a_broker_that_others_reach() {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = LocalBroker::new(folder.path(), "sqlite");
    let file = broker.folder.join("config.yaml");
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(file, config.replace("broker:\n", "broker:\n  host: 0.0.0.0\n")).unwrap();
    broker.start();
    for page in PAGES {
        let answers =
            ["/", "/healthz", "/metrics", "/nowhere"].map(|path| get(broker.port, path, page).status);
        assert_eq!(answers, [200, 200, 401, 401], "{page}");
    }
    assert_eq!(get(broker.port, "/metrics", PROGRAMS[0]).status, 200);
}

/// A command with the right token, under a name.
fn command(sign: &Path, path: &str, host: &str) -> u16 {
    let sign: Value = serde_json::from_str(&std::fs::read_to_string(sign).unwrap()).unwrap();
    let port = sign["address"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
    let token = sign["token"].as_str().unwrap();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\ncontent-length: 1\r\n\r\n{{"
    );
    Connection::open(port).exchange(request.as_bytes(), false).unwrap().status
}

#[tokio::test]
async fn the_doors_for_commands_are_not_for_pages_either() {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = LocalBroker::new(folder.path(), "sqlite");
    broker.start();
    let admin = broker.data().join("admin.json");
    assert_eq!(["page.example", "127.0.0.1"].map(|host| command(&admin, "/", host)), [403, 400]);

    write(folder.path(), "relay.yaml", "listen: 127.0.0.1:0\ndataDir: ./relay\n");
    let mut relay = Process::start(folder.path(), &["relay", "--config", "relay.yaml", "serve"]);
    let screen = relay.wait_for("http://").join("\n");
    let door = folder.path().join("relay/relay-admin.json");
    assert_eq!(["page.example", "127.0.0.1"].map(|host| command(&door, "/admin", host)), [404, 400]);
    let port = screen.rsplit("127.0.0.1:").next().unwrap();
    let port = port.split(|letter: char| !letter.is_ascii_digit()).next().unwrap().parse().unwrap();
    assert_eq!(PAGES.map(|page| get(port, "/metrics", page).status), [404; 4]);
    assert_eq!(get(port, "/metrics", PROGRAMS[0]).status, 200);
}
