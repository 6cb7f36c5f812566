//! The floor: a bare axum server that checks who calls and inserts one row for each request, many to a commit.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

/// The argument that makes the benchmark's own binary the floor.
pub const MODE: &str = "--as-floor";

type Insert = (Bytes, oneshot::Sender<()>);

/// Whether a request comes from whom it should: what the server beside the floor checks of each as well.
pub type Check = fn(&Method, &Uri, &HeaderMap, &Bytes) -> bool;

pub fn serve(folder: &str, check: Check) {
    let inserts = own(Path::new(folder));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("floor on {}", listener.local_addr().unwrap());
        let listener = axum::serve::ListenerExt::tap_io(listener, |stream| stream.set_nodelay(true).unwrap());
        axum::serve(listener, Router::new().fallback(insert).with_state((Arc::new(inserts), check)))
            .await
            .unwrap();
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
    State((inserts, check)): State<(Arc<mpsc::Sender<Insert>>, Check)>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    if !check(&method, &uri, &headers, &body) {
        return StatusCode::UNAUTHORIZED;
    }
    let (done, stored) = oneshot::channel();
    inserts.send((body, done)).await.unwrap();
    stored.await.unwrap();
    StatusCode::CREATED
}
