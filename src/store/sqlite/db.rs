//! One named thread owns one SQLite file. Callers send it closures; it runs as many as are waiting in one
//! transaction and answers them after the commit.
//!
//! What a crash can lose: only work whose caller has not been answered yet. A file is WAL with `synchronous=FULL`; a
//! database in memory may have a [`Journal`] on the disk, which is written before the commit.

use std::any::Any;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::schema::{self, Steps};
use crate::domain::clock::Stopwatch;
use crate::store::StoreError;
use crate::store::commits::Commits;

/// How many jobs may wait; beyond that, callers wait in `call`. Bounds memory under a flood.
const QUEUE: usize = 4096;
/// The most jobs in one commit: keeps the wait of the first caller of a batch to a few milliseconds.
const BATCH: usize = 512;
/// How many pages the write-ahead log holds before they move into the file: 64 MiB. The pages at the end of each index
/// are written with almost every commit; the longer the log, the more of those writes the file is spared.
const CHECKPOINT_PAGES: u32 = 16_384;
/// How much of a file its owner keeps in memory, at the most, in KiB: what a full batch touches, and the upper pages of
/// each index.
const CACHE_KIB: i64 = 8192;

/// A handle to the thread that owns the database. Cloning is cheap.
#[derive(Clone)]
pub struct Db {
    orders: mpsc::Sender<Order>,
    owner: Arc<Owner>,
    /// Cancelled when the thread has ended, however it did.
    ended: CancellationToken,
}

enum Order {
    Run(Box<dyn Job>),
    /// Finish what is queued and take no more.
    Stop,
}

struct Owner {
    path: PathBuf,
    commits: Arc<Commits>,
    thread: std::sync::Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("path", &self.owner.path).finish_non_exhaustive()
    }
}

/// A unit of work on the owning thread.
trait Job: Send {
    /// Runs inside the batch's transaction. An error rolls back this job alone.
    fn run(&mut self, conn: &Connection) -> Result<(), StoreError>;
    fn undo(&self) -> Undo;
    /// Tells the caller, after the commit or its failure.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
    fn name(&self) -> &'static str;
}

/// What keeps a database in memory on the disk.
pub(super) trait Journal: Send {
    /// Makes durable what the open transaction has changed. An error means that nothing of it was kept.
    fn keep(&mut self, conn: &Connection) -> Result<(), StoreError>;
    /// Takes the last `keep` back: its transaction was not committed.
    fn undo(&mut self);
    /// A moment to tidy up, between two batches.
    fn tidy(&mut self, conn: &Connection);
}

struct Call<T, F, A> {
    name: &'static str,
    undo: Undo,
    work: Option<F>,
    done: Option<T>,
    then: A,
    caller: oneshot::Sender<Result<T, StoreError>>,
}

/// How a job that fails is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undo {
    /// It may have run several statements: it gets a savepoint of its own.
    Savepoint,
    /// It reads, and writes with one statement at the most, which undoes itself. A savepoint would copy every page
    /// that it touches.
    Itself,
}

impl<T, F, A> Job for Call<T, F, A>
where
    T: Send + 'static,
    F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    A: FnOnce(&T) + Send + 'static,
{
    fn run(&mut self, conn: &Connection) -> Result<(), StoreError> {
        if let Some(work) = self.work.take() {
            self.done = Some(work(conn)?);
        }
        Ok(())
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let Self { done, then, caller, .. } = *self;
        let answer = committed.and_then(|()| done.ok_or(StoreError::Stopped));
        if let Ok(done) = &answer {
            then(done);
        }
        // A caller that went away has lost its answer, not its effect.
        let _ = caller.send(answer);
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn undo(&self) -> Undo {
        self.undo
    }
}

impl Db {
    /// Opens or creates the file, brings its schema up to date, and starts the owning thread.
    ///
    /// # Errors
    /// When the file cannot be opened, is locked, damaged, or not writable.
    pub fn open(path: &Path, steps: Steps) -> Result<Self, StoreError> {
        Self::owning(Self::connect(path, steps)?, path)
    }

    /// The file's connection, for whoever has something to do with it before its thread starts.
    pub(super) fn connect(path: &Path, steps: Steps) -> Result<Connection, StoreError> {
        let conn = open_connection(path)?;
        schema::migrate(&conn, steps)?;
        Ok(conn)
    }

    pub(super) fn owning(conn: Connection, path: &Path) -> Result<Self, StoreError> {
        Self::start(conn, path.to_owned(), None)
    }

    /// A second owner of an open file, which only reads what is committed: its calls wait for no commit of others.
    /// Close it before the owner that writes.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open_reader(path: &Path) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags)?;
        prepare_connection(&conn)?;
        Self::start(conn, path.to_owned(), None)
    }

    /// A database that lives and dies with its owning thread; nothing is written to disk.
    ///
    /// # Errors
    /// When SQLite has no memory for it.
    pub fn in_memory(steps: Steps) -> Result<Self, StoreError> {
        let conn = Self::connect_in_memory()?;
        schema::migrate(&conn, steps)?;
        Self::start(conn, PathBuf::from("memory"), None)
    }

    /// A database in memory that `journal` keeps on the disk, in a file at `path`. It is full already.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub(super) fn journaled(
        conn: Connection,
        journal: impl Journal + 'static,
        path: PathBuf,
    ) -> Result<Self, StoreError> {
        Self::start(conn, path, Some(Box::new(journal)))
    }

    /// An empty database in memory.
    pub(super) fn connect_in_memory() -> Result<Connection, StoreError> {
        let conn = Connection::open_in_memory()?;
        // Nothing of it may spill into a file of the system's temporary folder.
        conn.pragma_update(None, "temp_store", "MEMORY")?;
        prepare_connection(&conn)?;
        Ok(conn)
    }

    fn start(conn: Connection, path: PathBuf, journal: Option<Box<dyn Journal>>) -> Result<Self, StoreError> {
        let (orders, queue) = mpsc::channel(QUEUE);
        let ended = CancellationToken::new();
        let guard = ended.clone().drop_guard();
        let commits = Arc::new(Commits::default());
        let measured = Arc::clone(&commits);
        let name = path
            .file_stem()
            .map_or_else(|| "store".into(), |stem| format!("store-{}", stem.to_string_lossy()));
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || {
                let _told = guard;
                own(&conn, queue, journal, &measured);
            })
            .map_err(|error| StoreError::Other(format!("cannot start the store's thread: {error}")))?;
        let owner = Arc::new(Owner { path, commits, thread: std::sync::Mutex::new(Some(thread)) });
        Ok(Self { orders, owner, ended })
    }

    /// Runs `work` in a transaction called `name` and answers after its commit. Dropping the returned future
    /// does not stop work that was already queued.
    ///
    /// # Errors
    /// What `work` returned, or why the commit failed. In both cases nothing of it remains.
    pub async fn call<T, F>(&self, name: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.call_then(name, Undo::Savepoint, work, |_| ()).await
    }

    /// The same for work that undoes [`Undo::Itself`].
    ///
    /// # Errors
    /// See [`Db::call`].
    pub async fn call_single<T, F>(&self, name: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.call_then(name, Undo::Itself, work, |_| ()).await
    }

    /// The same with `then`, which is told of what was committed, before the caller and whether or not the caller is
    /// still there: whoever waits for the change is woken in any case. It runs on the owning thread, so it only wakes.
    ///
    /// # Errors
    /// See [`Db::call`].
    pub async fn call_then<T, F, A>(
        &self,
        name: &'static str,
        undo: Undo,
        work: F,
        then: A,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
        A: FnOnce(&T) + Send + 'static,
    {
        let (caller, answer) = oneshot::channel();
        let job = Box::new(Call { name, undo, work: Some(work), done: None, then, caller });
        self.orders.send(Order::Run(job)).await.map_err(|_| StoreError::Stopped)?;
        answer.await.map_err(|_| StoreError::Stopped)?
    }

    /// What the owning thread has measured of its commits since it was started.
    pub fn commits(&self) -> &Commits {
        &self.owner.commits
    }

    /// Resolves when the owning thread has ended: by [`Db::close`], or by a defect after which nothing is kept any
    /// more.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Finishes the queued work, closes the database and waits for the thread. Other handles then get `Stopped`.
    ///
    /// # Errors
    /// When the thread has panicked: its message.
    pub async fn close(self) -> Result<(), StoreError> {
        // A thread that has already ended takes no orders; joining it tells why.
        let _ = self.orders.send(Order::Stop).await;
        let thread = self.owner.thread.lock().ok().and_then(|mut slot| slot.take());
        let Some(thread) = thread else { return Ok(()) };
        tokio::task::spawn_blocking(move || thread.join())
            .await
            .map_err(|error| StoreError::Other(error.to_string()))?
            .map_err(|panic| {
                StoreError::Other(format!("the store's thread panicked: {}", panic_text(&*panic)))
            })
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&'static str>().copied())
        .unwrap_or("unknown")
}

/// Makes the file for its owner alone; SQLite gives its companions the same mode.
#[cfg(unix)]
fn make_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path).map(drop)
}

/// On Windows access lists decide, and the folder's are inherited.
#[cfg(not(unix))]
fn make_private(_path: &Path) -> std::io::Result<()> {
    Ok(())
}

fn open_connection(path: &Path) -> Result<Connection, StoreError> {
    make_private(path).map_err(|error| StoreError::ReadOnly(error.to_string()))?;
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    // Deleted bodies must not linger in free pages.
    conn.pragma_update(None, "secure_delete", "FAST")?;
    conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    conn.pragma_update(None, "cache_size", -CACHE_KIB)?;
    // What a savepoint may have to undo is noted there, for most commits in a file that is made and removed again.
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    prepare_connection(&conn)?;
    Ok(conn)
}

fn prepare_connection(conn: &Connection) -> rusqlite::Result<()> {
    conn.pragma_update(None, "foreign_keys", "ON")?;
    // Otherwise every statement with a bound LIMIT is planned anew each time it runs.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.set_prepared_statement_cache_capacity(256);
    Ok(())
}

fn own(
    conn: &Connection,
    mut queue: mpsc::Receiver<Order>,
    mut journal: Option<Box<dyn Journal>>,
    commits: &Commits,
) {
    let mut trouble = Trouble { last: None, commits };
    let mut batch = Vec::with_capacity(BATCH);
    while let Some(first) = queue.blocking_recv() {
        let mut next = Some(first);
        while let Some(order) = next.take() {
            match order {
                Order::Run(job) => batch.push(job),
                Order::Stop => queue.close(),
            }
            if batch.len() < BATCH {
                next = queue.try_recv().ok();
            }
        }
        commit(conn, &mut batch, journal.as_deref_mut(), &mut trouble);
        if let Some(journal) = &mut journal {
            journal.tidy(conn);
        }
    }
    if conn.is_readonly(rusqlite::MAIN_DB).unwrap_or(false) {
        return;
    }
    if let Err(error) = conn.execute_batch("PRAGMA optimize; PRAGMA wal_checkpoint(TRUNCATE);") {
        tracing::warn!(%error, "store_close_checkpoint_failed");
    }
}

/// Runs the batch in one transaction, each job behind its own savepoint, and answers every caller once.
fn commit(
    conn: &Connection,
    batch: &mut Vec<Box<dyn Job>>,
    journal: Option<&mut (dyn Journal + 'static)>,
    trouble: &mut Trouble<'_>,
) {
    if batch.is_empty() {
        return;
    }
    let (begun, changes) = (Stopwatch::start(), conn.total_changes());
    let mut whole = run(conn, "BEGIN");
    let mut results: Vec<Result<(), StoreError>> = Vec::with_capacity(batch.len());
    for job in batch.iter_mut() {
        let result = whole.clone().and_then(|()| in_savepoint(conn, job.as_mut()));
        if let Err(error) = &result {
            trouble.begun(job.name(), error);
            // A full disk makes SQLite roll back everything by itself: what ran before is gone, and what ran now
            // would be a transaction of its own.
            if whole.is_ok() && conn.is_autocommit() {
                whole = Err(error.clone());
            }
        }
        results.push(result);
    }
    let committed = whole.and_then(|()| keep_and_commit(conn, journal));
    if let Err(error) = &committed {
        trouble.begun("commit", error);
        if !conn.is_autocommit()
            && let Err(error) = conn.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "store_rollback_failed");
        }
    }
    trouble.commits.done(batch.len(), begun.elapsed(), committed.is_ok());
    // A disk that is full can be read from.
    if committed.is_ok() && results.iter().all(Result::is_ok) && conn.total_changes() != changes {
        trouble.ended();
    }
    for (job, result) in batch.drain(..).zip(results) {
        job.answer(result.and_then(|()| committed.clone()));
    }
}

/// A store that fails does so for every request: its log tells when that begins, changes and ends, and does not help
/// to fill the disk.
struct Trouble<'a> {
    last: Option<String>,
    /// Where others see it.
    commits: &'a Commits,
}

impl Trouble<'_> {
    fn begun(&mut self, transaction: &'static str, error: &StoreError) {
        let now = format!("{transaction}: {error}");
        if self.last.as_ref() != Some(&now) {
            tracing::error!(transaction, %error, "store_failed");
            self.last = Some(now);
            self.commits.trouble_is(Some(error.clone()));
        }
    }

    fn ended(&mut self) {
        if self.last.take().is_some() {
            tracing::info!("store_recovered");
            self.commits.trouble_is(None);
        }
    }
}

fn keep_and_commit(
    conn: &Connection,
    journal: Option<&mut (dyn Journal + 'static)>,
) -> Result<(), StoreError> {
    let Some(journal) = journal else { return run(conn, "COMMIT") };
    journal.keep(conn)?;
    let committed = run(conn, "COMMIT");
    if committed.is_err() {
        journal.undo();
    }
    committed
}

/// A statement that is prepared once and says nothing but whether it worked.
fn run(conn: &Connection, sql: &str) -> Result<(), StoreError> {
    conn.prepare_cached(sql)?.execute([])?;
    Ok(())
}

/// An error of the job goes before one of undoing it.
fn in_savepoint(conn: &Connection, job: &mut dyn Job) -> Result<(), StoreError> {
    if job.undo() == Undo::Itself {
        return job.run(conn);
    }
    conn.prepare_cached("SAVEPOINT job")?.execute([])?;
    let result = job.run(conn);
    let undone = match result {
        Ok(()) => Ok(0),
        Err(_) => conn.prepare_cached("ROLLBACK TO job").and_then(|mut undo| undo.execute([])),
    };
    let released = undone.and_then(|_| conn.prepare_cached("RELEASE job")?.execute([]));
    result.and(released.map(drop).map_err(StoreError::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: Steps = &["CREATE TABLE t (x INTEGER PRIMARY KEY)"];

    async fn insert(db: &Db, x: i64) -> Result<(), StoreError> {
        db.call("insert", move |conn| Ok(conn.execute("INSERT INTO t VALUES (?1)", [x]).map(|_| ())?)).await
    }

    async fn count(db: &Db) -> i64 {
        db.call("count", |conn| Ok(conn.query_row("SELECT count(*) FROM t", [], |row| row.get(0))?))
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn what_was_answered_is_there_after_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let db = Db::open(&path, STEPS).unwrap();
        insert(&db, 1).await.unwrap();
        db.close().await.unwrap();
        let db = Db::open(&path, STEPS).unwrap();
        assert_eq!(count(&db).await, 1);
    }

    #[tokio::test]
    async fn a_caller_that_goes_away_leaves_the_whole_effect() {
        let db = Db::in_memory(STEPS).unwrap();
        tokio::select! {
            biased;
            _ = insert(&db, 1) => {}
            () = std::future::ready(()) => {}
        }
        assert_eq!(count(&db).await, 1);
    }

    #[tokio::test]
    async fn what_follows_a_commit_follows_it_without_the_caller_and_not_after_a_failure() {
        let db = Db::in_memory(STEPS).unwrap();
        let (told, mut heard) = mpsc::unbounded_channel();
        for (x, undo) in [(1, Undo::Savepoint), (1, Undo::Savepoint), (2, Undo::Itself)] {
            let told = told.clone();
            let work =
                move |conn: &Connection| Ok(conn.execute("INSERT INTO t VALUES (?1)", [x]).map(|_| x)?);
            let call = db.call_then("insert", undo, work, move |x| told.send(*x).unwrap());
            // Polled once, so that the job is queued, then dropped.
            drop(futures_util::poll!(Box::pin(call)));
        }
        assert_eq!(count(&db).await, 2);
        drop(told);
        assert_eq!((heard.recv().await, heard.recv().await, heard.recv().await), (Some(1), Some(2), None));
    }

    #[tokio::test]
    async fn a_bound_limit_does_not_plan_a_statement_anew() {
        let db = Db::in_memory(STEPS).unwrap();
        let planned = db.call("read", |conn| {
            let mut select = conn.prepare_cached("SELECT x FROM t LIMIT ?1")?;
            for limit in 1..5 {
                select.query_map([limit], |_| Ok(()))?.for_each(drop);
            }
            Ok(select.get_status(rusqlite::StatementStatus::RePrepare))
        });
        assert_eq!(planned.await.unwrap(), 0);
    }

    #[tokio::test]
    async fn memory_keeps_nothing_after_closing() {
        let db = Db::in_memory(STEPS).unwrap();
        insert(&db, 1).await.unwrap();
        assert_eq!(count(&db).await, 1);
        db.close().await.unwrap();
        assert_eq!(count(&Db::in_memory(STEPS).unwrap()).await, 0);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn only_the_owner_may_read_the_file_and_its_companions() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(&dir.path().join("a.db"), STEPS).unwrap();
        insert(&db, 1).await.unwrap();
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[tokio::test]
    async fn a_failing_job_rolls_back_alone() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(&dir.path().join("a.db"), STEPS).unwrap();
        let half: Result<(), StoreError> = db
            .call("half", |conn| {
                conn.execute("INSERT INTO t VALUES (7)", [])?;
                Err(StoreError::Other("no".into()))
            })
            .await;
        assert!(half.is_err());
        let (one, twice, two) = tokio::join!(insert(&db, 1), insert(&db, 1), insert(&db, 2));
        assert!(one.is_ok() && twice.is_err() && two.is_ok());
        assert_eq!(count(&db).await, 2);
    }

    #[tokio::test]
    async fn commits_are_measured_with_the_calls_they_share() {
        let db = Db::in_memory(STEPS).unwrap();
        for x in 0..3 {
            insert(&db, x).await.unwrap();
        }
        assert!(insert(&db, 0).await.is_err());
        let commits = db.commits();
        // The error was one of the call; its commit kept what there was to keep.
        assert_eq!((commits.calls.count(), commits.calls.sum(), commits.failed()), (4, 4, 0));
        assert_eq!(commits.micros.count(), 4);
        let broken: Result<(), StoreError> = db.call("end", |conn| Ok(conn.execute_batch("ROLLBACK")?)).await;
        assert!(broken.is_err());
        assert_eq!((commits.calls.count(), commits.failed()), (5, 1));
    }

    #[tokio::test]
    async fn trouble_lasts_until_something_is_written() {
        let db = Db::in_memory(STEPS).unwrap();
        insert(&db, 1).await.unwrap();
        assert!(db.commits().trouble().is_none());
        assert!(insert(&db, 1).await.is_err());
        assert_eq!(count(&db).await, 1, "it can be read from");
        assert!(db.commits().trouble().is_some());
        insert(&db, 2).await.unwrap();
        assert!(db.commits().trouble().is_none());
    }

    #[tokio::test]
    async fn a_full_disk_fails_the_whole_batch_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let db =
            Db::open(&dir.path().join("a.db"), &["CREATE TABLE t (x INTEGER PRIMARY KEY, b BLOB)"]).unwrap();
        db.call("limit", |conn| Ok(conn.execute_batch("PRAGMA max_page_count = 8")?)).await.unwrap();
        let small = |x: i64| {
            db.call("small", move |conn| {
                Ok(conn.execute("INSERT INTO t VALUES (?1, x'00')", [x]).map(drop)?)
            })
        };
        let large = db.call("large", |conn| {
            Ok(conn.execute("INSERT INTO t VALUES (2, zeroblob(100000))", []).map(drop)?)
        });
        // All three wait while the thread is busy, and so share a batch.
        let busy = db.call("busy", |_| {
            let (wait, never) = std::sync::mpsc::channel::<()>();
            let _ = never.recv_timeout(std::time::Duration::from_millis(50));
            drop(wait);
            Ok(())
        });
        let (_, one, two, three) = tokio::join!(busy, small(1), large, small(3));
        assert!(matches!(two, Err(StoreError::Full)), "{two:?}");
        let kept = i64::from(one.is_ok()) + i64::from(three.is_ok());
        assert_eq!(count(&db).await, kept, "what was answered is there, and nothing else");
        small(4).await.unwrap();
    }

    #[tokio::test]
    async fn the_end_of_the_thread_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(&dir.path().join("a.db"), STEPS).unwrap();
        let panicked: Result<(), StoreError> = db.call("panic", |_| panic!("a defect")).await;
        assert!(matches!(panicked, Err(StoreError::Stopped)));
        db.ended().await;
        assert!(db.close().await.unwrap_err().to_string().contains("a defect"));
    }

    #[tokio::test]
    async fn a_reader_sees_what_was_answered_and_writes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let db = Db::open(&path, STEPS).unwrap();
        let reader = Db::open_reader(&path).unwrap();
        for x in 0..20 {
            insert(&db, x).await.unwrap();
            assert_eq!(count(&reader).await, x + 1);
        }
        assert!(matches!(insert(&reader, 99).await, Err(StoreError::ReadOnly(_))));
        reader.close().await.unwrap();
        db.close().await.unwrap();
        assert_eq!(std::fs::metadata(dir.path().join("a.db-wal")).map_or(0, |wal| wal.len()), 0);
    }

    #[tokio::test]
    async fn a_file_that_is_no_database_is_reported_as_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        std::fs::write(&path, vec![b'x'; 4096]).unwrap();
        assert!(matches!(Db::open(&path, STEPS), Err(StoreError::Damaged(_))));
    }
}
