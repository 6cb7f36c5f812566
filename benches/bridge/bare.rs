//! The floor of a round trip: the same processes, HTTP calls and commits, with nothing in between.
//!
//! A message, from its sender's call until its reader has it, costs both the bridge and the floor this, one after the
//! other; a round trip is two messages, and only the request needs a key:
//!
//! 1. the sender posts to its bridge: a call, a commit
//! 2. the bridge asks the relay for the recipient's key: a call
//! 3. the bridge posts to the relay: a call, a commit
//! 4. the relay answers the take that it holds: half a call, a commit (the lease)
//! 5. the other bridge keeps the message: a commit
//! 6. the other bridge answers the pull that it holds: half a call, a commit (the lease)
//!
//! What nobody waits for is done as well: the first bridge settles its outbox (a commit), the second confirms to the
//! relay (a call, a commit) and takes again (half a call), the reader confirms (a call, a commit).

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use tempfile::TempDir;
use tokio::sync::{Notify, mpsc};

use crate::TEXT;
use crate::common::floor::{MODE, Rows};
use crate::common::http::Connection;
use crate::common::process::Process;

/// Whose mail a bare bridge keeps.
const AGENT: &str = "agent";

/// A bare relay, or a bare bridge to one.
#[derive(Clone)]
struct Bare {
    rows: Rows,
    boxes: Arc<Mutex<HashMap<String, VecDeque<Bytes>>>>,
    filled: Arc<Notify>,
    /// What a bridge has to carry.
    leaving: Option<mpsc::UnboundedSender<Leaving>>,
}

struct Leaving {
    path: &'static str,
    to: String,
    body: Bytes,
}

/// `more` is the relay's address and the bridge's name, if it is a bridge.
pub async fn router(rows: Rows, more: &[String]) -> Router {
    let mut bare = Bare { rows, boxes: Arc::default(), filled: Arc::default(), leaving: None };
    if let [relay, name] = more {
        let relay: SocketAddr = relay.parse().unwrap();
        let (leaving, queue) = mpsc::unbounded_channel();
        bare.leaving = Some(leaving);
        tokio::spawn(carry(bare.rows.clone(), Connection::open(relay).await, queue));
        tokio::spawn(bare.clone().take_for(Connection::open(relay).await, name.clone()));
    }
    Router::new()
        .route("/ask/{to}", post(async |bare, to, body| send(bare, "ask", to, body).await))
        .route("/answer/{to}", post(async |bare, to, body| send(bare, "answer", to, body).await))
        .route("/key", get(async || "{}"))
        .route("/take/{name}", get(take))
        .route("/confirm", post(confirm))
        .with_state(bare)
}

async fn send(
    State(bare): State<Bare>,
    path: &'static str,
    Path(to): Path<String>,
    body: Bytes,
) -> StatusCode {
    bare.rows.insert(body.clone()).await;
    match &bare.leaving {
        Some(leaving) => leaving.send(Leaving { path, to, body }).unwrap(),
        None => bare.put(to, body),
    }
    StatusCode::CREATED
}

async fn take(State(bare): State<Bare>, Path(name): Path<String>) -> Bytes {
    let body = loop {
        let filled = bare.filled.notified();
        let first = bare.boxes.lock().unwrap().get_mut(&name).and_then(VecDeque::pop_front);
        match first {
            Some(body) => break body,
            None => filled.await,
        }
    };
    bare.rows.insert(body.clone()).await;
    body
}

async fn confirm(State(bare): State<Bare>) {
    bare.rows.insert(Bytes::new()).await;
}

async fn carry(rows: Rows, mut relay: Connection, mut queue: mpsc::UnboundedReceiver<Leaving>) {
    while let Some(Leaving { path, to, body }) = queue.recv().await {
        if path == "ask" {
            relay.call("GET", "/key", "", "").await;
        }
        relay.call("POST", &format!("/{path}/{to}"), "", str::from_utf8(&body).unwrap()).await;
        rows.insert(Bytes::new()).await;
    }
}

impl Bare {
    fn put(&self, name: String, body: Bytes) {
        self.boxes.lock().unwrap().entry(name).or_default().push_back(body);
        self.filled.notify_waiters();
    }

    async fn take_for(self, mut relay: Connection, name: String) {
        loop {
            let body = Bytes::from(relay.call("GET", &format!("/take/{name}"), "", "").await);
            self.rows.insert(body.clone()).await;
            self.put(AGENT.to_owned(), body);
            relay.call("POST", "/confirm", "", "").await;
        }
    }
}

/// The floor's three processes, and its agents' connections.
pub struct Floor {
    close: Connection,
    billing: Connection,
    /// The relay goes last: the others hold calls at it.
    _processes: [Process; 3],
    _folders: [TempDir; 3],
}

fn start(folder: &TempDir, more: &[String]) -> (Process, SocketAddr) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(MODE).arg(folder.path()).args(more);
    Process::start(command, |line| line.strip_prefix("floor on ")?.parse().ok())
}

impl Floor {
    pub async fn start() -> Self {
        let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let (relay, address) = start(&folders[0], &[]);
        let (close, a) = start(&folders[1], &[address.to_string(), "close".to_owned()]);
        let (billing, b) = start(&folders[2], &[address.to_string(), "billing".to_owned()]);
        Self {
            close: Connection::open(a).await,
            billing: Connection::open(b).await,
            _processes: [close, billing, relay],
            _folders: folders,
        }
    }

    pub async fn round_trip(&mut self) {
        let text = "x".repeat(TEXT);
        let pull = format!("/take/{AGENT}");
        self.close.call("POST", "/ask/billing", "", &text).await;
        self.billing.call("GET", &pull, "", "").await;
        self.billing.call("POST", "/answer/close", "", &text).await;
        self.close.call("GET", &pull, "", "").await;
    }

    /// What follows a round trip and nobody waits for.
    pub async fn confirm(&mut self) {
        self.close.call("POST", "/confirm", "", "").await;
        self.billing.call("POST", "/confirm", "", "").await;
    }
}
