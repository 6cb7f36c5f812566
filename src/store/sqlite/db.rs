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
    /// Runs inside the batch's transaction, twice when another job of the batch fails. An error, and an outcome whose
    /// writes must not stand, undo this job alone.
    fn run(&mut self, conn: &Connection) -> Result<Written, StoreError>;
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
    work: F,
    written: fn(&T) -> Written,
    done: Option<T>,
    then: A,
    caller: oneshot::Sender<Result<T, StoreError>>,
}

/// What becomes of what a job has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    Stands,
    /// The job was refused after all.
    IsUndone,
}

impl<T, F, A> Job for Call<T, F, A>
where
    T: Send + 'static,
    F: Fn(&Connection) -> Result<T, StoreError> + Send + 'static,
    A: FnOnce(&T) + Send + 'static,
{
    fn run(&mut self, conn: &Connection) -> Result<Written, StoreError> {
        let done = (self.work)(conn)?;
        let written = (self.written)(&done);
        self.done = Some(done);
        Ok(written)
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

    /// Runs `work` in a transaction called `name` and answers after its commit. It may run twice, and only what it
    /// did last counts. Dropping the returned future does not stop work that was already queued.
    ///
    /// # Errors
    /// What `work` returned, or why the commit failed. In both cases nothing of it remains.
    pub async fn call<T, F>(&self, name: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.call_then(name, work, |_| ()).await
    }

    /// The same with `then`, which is told of what was committed, before the caller and whether or not the caller is
    /// still there: whoever waits for the change is woken in any case. It runs on the owning thread, so it only wakes.
    ///
    /// # Errors
    /// See [`Db::call`].
    pub async fn call_then<T, F, A>(&self, name: &'static str, work: F, then: A) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, StoreError> + Send + 'static,
        A: FnOnce(&T) + Send + 'static,
    {
        self.call_written(name, work, |_| Written::Stands, then).await
    }

    /// The same for work with outcomes of which nothing must remain, as `written` tells.
    ///
    /// # Errors
    /// See [`Db::call`].
    pub(super) async fn call_written<T, F, A>(
        &self,
        name: &'static str,
        work: F,
        written: fn(&T) -> Written,
        then: A,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, StoreError> + Send + 'static,
        A: FnOnce(&T) + Send + 'static,
    {
        let (caller, answer) = oneshot::channel();
        let job = Box::new(Call { name, work, written, done: None, then, caller });
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

/// Runs the batch in one transaction and answers every caller once.
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
    let (results, whole) = match together(conn, batch) {
        Ok(()) => (vec![Ok(()); batch.len()], Ok(())),
        Err(Apart) => {
            roll_back(conn);
            apart(conn, batch, trouble)
        }
    };
    let committed = whole.and_then(|()| keep_and_commit(conn, journal));
    if let Err(error) = &committed {
        trouble.begun("commit", error);
        roll_back(conn);
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

/// One job of a batch has to be undone: each needs a savepoint of its own.
struct Apart;

/// Runs the jobs of a batch one after the other. A savepoint would copy every page that a job touches, and hardly any
/// has something to undo.
fn together(conn: &Connection, batch: &mut [Box<dyn Job>]) -> Result<(), Apart> {
    run(conn, "BEGIN").map_err(|_| Apart)?;
    for job in batch {
        let changes = conn.total_changes();
        match job.run(conn) {
            Ok(Written::Stands) => {}
            Ok(Written::IsUndone) if conn.total_changes() == changes => {}
            Ok(Written::IsUndone) | Err(_) => return Err(Apart),
        }
    }
    Ok(())
}

/// Runs each job of a batch behind a savepoint. Gives what each has come to, and whether there is anything to commit.
fn apart(
    conn: &Connection,
    batch: &mut [Box<dyn Job>],
    trouble: &mut Trouble<'_>,
) -> (Vec<Result<(), StoreError>>, Result<(), StoreError>) {
    let mut whole = run(conn, "BEGIN");
    let mut results = Vec::with_capacity(batch.len());
    for job in batch {
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
    (results, whole)
}

fn roll_back(conn: &Connection) {
    if !conn.is_autocommit()
        && let Err(error) = conn.execute_batch("ROLLBACK")
    {
        tracing::error!(%error, "store_rollback_failed");
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
        let now = error.to_string();
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
    conn.prepare_cached("SAVEPOINT job")?.execute([])?;
    let result = job.run(conn);
    let undone = match result {
        Ok(Written::Stands) => Ok(0),
        Ok(Written::IsUndone) | Err(_) => {
            conn.prepare_cached("ROLLBACK TO job").and_then(|mut undo| undo.execute([]))
        }
    };
    let released = undone.and_then(|_| conn.prepare_cached("RELEASE job")?.execute([]));
    result.and(released.map(drop).map_err(StoreError::from))
}

#[cfg(test)]
mod tests;
