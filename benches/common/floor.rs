//! What the machine allows: bare axum servers that insert rows, many to a commit.

use std::path::Path;

use axum::Router;
use axum::body::Bytes;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

/// The argument that makes the benchmark's own binary the floor.
pub const MODE: &str = "--as-floor";

/// The thread that owns the rows. Cloning is cheap.
#[derive(Clone)]
pub struct Rows(mpsc::Sender<(Bytes, oneshot::Sender<()>)>);

impl Rows {
    /// Inserts one row, and waits for its commit.
    pub async fn insert(&self, body: Bytes) {
        let (done, stored) = oneshot::channel();
        self.0.send((body, done)).await.unwrap();
        stored.await.unwrap();
    }

    fn open(folder: &Path) -> Self {
        let conn = Connection::open(folder.join("floor.db")).unwrap();
        conn.pragma_update(None, "journal_mode", "WAL").unwrap();
        conn.pragma_update(None, "synchronous", "FULL").unwrap();
        conn.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, body BLOB NOT NULL)").unwrap();
        let (inserts, mut queue) = mpsc::channel::<(Bytes, oneshot::Sender<()>)>(4096);
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
                    let mut insert = conn.prepare_cached("INSERT INTO t (body) VALUES (?1)").unwrap();
                    insert.execute([&**body]).unwrap();
                }
                conn.execute_batch("COMMIT").unwrap();
                for (_, done) in batch {
                    let _ = done.send(());
                }
            }
        });
        Self(inserts)
    }
}

/// Serves what `app` makes of the rows in `folder`.
pub fn serve(folder: &str, app: impl AsyncFnOnce(Rows) -> Router) {
    let rows = Rows::open(Path::new(folder));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let app = app(rows).await;
        println!("floor on {}", listener.local_addr().unwrap());
        let listener = axum::serve::ListenerExt::tap_io(listener, |stream| stream.set_nodelay(true).unwrap());
        axum::serve(listener, app).await.unwrap();
    });
}
