//! The floor: a bare axum server that checks the HMAC of each request and inserts one row, many to a commit.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use redsyn_bridge::crypto::hmac;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::server::SECRET;

/// The argument that makes the benchmark's own binary the floor.
pub const MODE: &str = "--as-floor";

type Insert = (Bytes, oneshot::Sender<()>);

pub fn serve(folder: &str) {
    let inserts = own(Path::new(folder));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("floor on {}", listener.local_addr().unwrap());
        let listener = axum::serve::ListenerExt::tap_io(listener, |stream| stream.set_nodelay(true).unwrap());
        axum::serve(listener, Router::new().fallback(insert).with_state(Arc::new(inserts))).await.unwrap();
    });
}

fn own(folder: &Path) -> mpsc::Sender<Insert> {
    let conn = Connection::open(folder.join("floor.db")).unwrap();
    conn.pragma_update(None, "journal_mode", "WAL").unwrap();
    conn.pragma_update(None, "synchronous", "FULL").unwrap();
    conn.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, body BLOB NOT NULL)").unwrap();
    let (inserts, mut queue) = mpsc::channel::<Insert>(4096);
    std::thread::spawn(move || {
        while let Some(first) = queue.blocking_recv() {
            let mut batch = vec![first];
            while batch.len() < 512
                && let Ok(next) = queue.try_recv()
            {
                batch.push(next);
            }
            conn.execute_batch("BEGIN").unwrap();
            for (body, _) in &batch {
                conn.prepare_cached("INSERT INTO t (body) VALUES (?1)").unwrap().execute([&**body]).unwrap();
            }
            conn.execute_batch("COMMIT").unwrap();
            for (_, done) in batch {
                let _ = done.send(());
            }
        }
    });
    inserts
}

async fn insert(
    State(inserts): State<Arc<mpsc::Sender<Insert>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let parts: [&[u8]; 7] = [
        method.as_str().as_bytes(),
        b"\n",
        target.as_bytes(),
        b"\n",
        header("x-relay-timestamp").as_bytes(),
        b"\n",
        &body,
    ];
    if !hmac::verify_hex(SECRET.as_bytes(), &parts, header("x-relay-signature")) {
        return StatusCode::UNAUTHORIZED;
    }
    let (done, stored) = oneshot::channel();
    inserts.send((body, done)).await.unwrap();
    stored.await.unwrap();
    StatusCode::CREATED
}
